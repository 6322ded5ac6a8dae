"""Texts for the model about a restore: which names are live, placeholders or missing."""

from __future__ import annotations

from typing import Any

from prime_ext.session.records import Restore, Snapshot

CAUSES = {
    "crash": "The kernel died and was started anew.",
    "restart": "The kernel was restarted.",
    "shutdown": "The kernel was shut down.",
    "resume": "The earlier kernel is gone.",
}

MAX_NAMES = 200
"""Maximum number of names listed one by one; the rest is only counted."""

MAX_RECIPES = 8
MAX_RECIPE_CHARS = 1500
"""Maximum length of all recipes together. The rest is found with `session_search` and in the
notebook."""

RESTORE_STOPPED = "restoring was stopped before it had ended"
"""Reason in the record of an offer that follows a cancelled restore."""

RESTORE_CUT_OFF = (
    "restoring was cut off by the end of the server, more than once; what is restored may be what "
    "ends it"
)
"""Reason in the record of an offer that takes the place of another automatic restore."""

DIED_AGAIN = (
    "not restored automatically again: the kernel died soon after each of the last two restores, "
    "before any code had run to its end; what is restored may be what ends it"
)
"""Likewise, after crashes."""

_FRESH = "None of the earlier variables is defined in the kernel"
_UNKNOWN = (
    "Restoring the earlier variables was stopped: check which are defined before you use them"
)


def restore_event(record: Restore, offer: Restore | None = None) -> str:
    """Return the text for the model about a restore; empty if there is nothing to report.

    Parameters
    ----------
    offer:
        Record of a restore that was on offer to the person until then.
    """
    if record.outcome == "unchanged" and not (record.behind or record.asked):
        return ""
    if record.trigger == "compaction" and record.outcome not in ("ok", "partial"):
        return ""
    cause = CAUSES.get(record.trigger)
    if record.outcome == "offered":
        which = "the last snapshot"
        if record.saved is not None:
            which = f"an older snapshot, saved {record.saved}, the last one with variables,"
        why = f" ({record.reason})" if record.reason in (RESTORE_CUT_OFF, DIED_AGAIN) else ""
        return (
            f"{cause or CAUSES['resume']} {_what_is_there(record)}{why}. The user is offered to "
            f"restore {which} and has not done so yet."
        )
    if record.outcome in ("failed", "skipped"):
        reason = f" ({record.reason.rstrip('.')})" if record.reason else ""
        what = "could not be" if record.outcome == "failed" else "were not"
        text = f"{cause or ''} Variables {what} restored{reason}. {_FRESH}.".strip()
        were = f"They were: {_list(sorted(record.names))}." if record.names else ""
        return " ".join(filter(None, [text, were, _how_made(_recipes(record))]))
    taken = offer is not None and offer.snapshot_id == record.snapshot_id
    return " ".join(_told(record, taken))


def withdrawn_event(offer: Restore, removed: Snapshot) -> str:
    """Return the text for the model when a snapshot that was on offer has been deleted."""
    why = removed.reason
    if removed.trigger == "off":
        why = "the user has switched saving off for this notebook"
    return (
        f"{CAUSES.get(offer.trigger, CAUSES['resume'])} {_what_is_there(offer)}. What had been "
        f"saved of them was deleted ({why}), so it is not on offer any more."
    )


def _what_is_there(offer: Restore) -> str:
    return _UNKNOWN if offer.reason in (RESTORE_STOPPED, RESTORE_CUT_OFF) else _FRESH


def _told(record: Restore, offer_taken: bool) -> list[str]:
    groups: dict[str, list[str]] = {"live": [], "kept": [], "placeholder": [], "missing": []}
    for name, entry in sorted(record.names.items()):
        group = standing(entry)
        reason = entry.get("reason") or entry.get("status")
        groups[group].append(f"{name} ({reason})" if group in ("placeholder", "missing") else name)
    text = [CAUSES.get(record.trigger, "")] if record.trigger in CAUSES else []
    if record.asked:
        which = f"an older snapshot, saved {record.saved}" if record.saved else "the last snapshot"
        text.append(f"The user asked for these variables of {which}; nothing else was touched.")
    elif record.saved is None:
        text.append("The kernel's variables were restored from the last snapshot.")
        text += _not_in_it(record.behind)
    elif offer_taken:
        # Only snapshots of fresh processes are newer, and this process keeps its own names.
        text.append(
            "The kernel's variables were restored from the snapshot that the user was offered, "
            f"saved {record.saved}."
        )
        text += _not_in_it(record.behind)
    else:
        why = record.reason or "the user chose it"
        text.append(
            f"The kernel's variables were restored from an older snapshot, saved {record.saved} "
            f"({why}): they are as they were then, and what was done since is lost."
        )
    for group, words in (
        ("live", "Live again: {}."),
        ("kept", "Left as they are now, because they were set since: {}."),
        ("placeholder", "Restored in part, or as a placeholder that raises when used: {}."),
        ("missing", "Not restored, do not use: {}."),
    ):
        if groups[group]:
            text.append(words.format(_list(groups[group])))
    return [*text, *filter(None, [_how_made(_recipes(record))])]


def _not_in_it(behind: dict[str, Any]) -> list[str]:
    """Return the text about the runs that the snapshot does not include."""
    if not behind:
        return []
    as_of = f"{behind['as_of'][:19].replace('T', ' ')} UTC"
    runs, lines = behind["runs"], [f"`{line}`" for line in behind["code"]]
    count = "1 run" if runs == 1 else f"{runs} runs"
    if len(lines) < runs:
        count += f", the last {len(lines)} of them"
    if behind.get("cut_off"):
        lines[-1] += " (the code that ran when it died)"
    return [
        f"They are as they were at {as_of}; what ran after that is not in it ({count}): "
        f"{', '.join(lines)}. Names set or changed since have to be made again."
    ]


def _recipes(record: Restore) -> list[tuple[str, str]]:
    """Return (name, source) for missing names and placeholders whose source is known."""
    sources = {
        name: (entry.get("recipe") or {}).get("source")
        for name, entry in sorted(record.names.items())
        if standing(entry) in ("placeholder", "missing")
    }
    return [(name, source) for name, source in sources.items() if source]


def standing(entry: dict[str, Any]) -> str:
    """Return the standing of a name after a restore.

    One of ``live``, ``kept`` (the user's own value stayed), ``placeholder`` and ``missing``.
    """
    if entry.get("action") == "kept":
        return "kept" if entry.get("reason") else "live"
    if entry.get("status") == "degraded":
        return "placeholder"
    return "missing" if entry.get("status") == "skipped" else "live"


def _list(names: list[str]) -> str:
    more = len(names) - MAX_NAMES
    shown = ", " if not any("(" in name for name in names) else "; "
    return shown.join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _how_made(recipes: list[tuple[str, str]]) -> str:
    """Return the code in a few blocks, grouping the names that came from the same source."""
    if not recipes:
        return ""
    by_source: dict[str, list[str]] = {}
    for name, source in recipes:
        by_source.setdefault(source, []).append(name)
    parts, room = [], MAX_RECIPE_CHARS
    for source, names in list(by_source.items())[:MAX_RECIPES]:
        if room <= 0:
            break
        code = source.strip()
        code = code if len(code) <= room else code[:room] + "\n# (cut)"
        room -= len(code)
        parts.append(f"{', '.join(names)} came from:\n```\n{code}\n```")
    more = len(by_source) - len(parts)
    end = f"\n({more} more are in the notebook's cells.)" if more > 0 else ""
    return "Run it again only if it is needed and safe to repeat.\n" + "\n".join(parts) + end
