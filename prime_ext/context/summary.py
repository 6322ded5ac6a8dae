"""The text of the summary turn: the model's summary, and the parts that code adds to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prime_ext.session.records import NO_KERNEL

OPEN = "<compaction-summary>"
CLOSE = "</compaction-summary>"

_LOG_PATH = re.compile(
    r"(<recovery_hint>\n[^\n]*? are in )(.+?)(\. For an exact detail [^\n]*\n</recovery_hint>)"
)

LEDGER_INTRODUCTION = (
    "Copied verbatim by code; the number in brackets is the record to read with session_read."
)

_TAGS = re.compile(
    r"</?\s*(?:compaction-summary|recovery_hint|kernel_state|last_user_message|ledger"
    r"|summary_above)\s*>"
)

SUMMARY_ABOVE = (
    "<summary_above>\nThe summary itself stands at the head of the conversation. What follows "
    "was added to it by code.\n</summary_above>"
)
"""Replaces the summary in the summary turn if the model's server made it a block of its own."""

INSTRUCTION = """\
The conversation above is about to be replaced by a summary that you write now. After that you \
will go on with the work from the summary alone, so whatever it lacks is lost to you unless you \
search the session's records.

Write these sections, in this order, under these headings, in plain Markdown:

## Goal
What the user wants, in their own terms; every open request.
## Constraints
What the user asked for or forbade: style, names, limits, preferences.
## Decisions
What was decided and why, and what was tried or considered and rejected.
## Commands and values
Exact code, commands, paths, cell ids, column and variable names, numbers and results that later \
work depends on. Copy them letter for letter; never round, never guess.
## Errors
Errors met, with their exact text and where they occurred, and how each was solved or not.
## State of work
What is done, what is half done, which cells of the notebook hold what.
## Next steps
What comes next, in order.

If the conversation begins with an earlier summary, merge it into yours: keep all of it that \
still matters. Leave out pleasantries and anything that no longer matters. Do not call tools. \
Answer with the summary only."""


@dataclass(frozen=True)
class Inventory:
    """The live variables of the kernel at a point in time."""

    variables: Sequence[dict[str, Any]]
    """``name``, ``type``, ``shape`` and ``size`` (in bytes) of each variable."""
    read_at: datetime
    """Time at which they were read, in UTC."""


CUT_OFF = ("max_tokens", "model_context_window_exceeded")
ENOUGH_HEADINGS = 4
_HEADING = re.compile(r"^## +\S", re.M)

REBUILD = """\
What follows in <extraction> was taken letter for letter from the session's raw records since its \
beginning, by code. Earlier summaries may have lost or bent something by now: where they and the \
extraction differ, the extraction is right. Take from it what still matters and is missing."""


def why_no_summary(text: str, stop_reason: str, called: bool) -> str | None:
    """Return why a reply cannot be used as a summary; ``None`` if it can.

    Parameters
    ----------
    text:
        Text of the reply, without surrounding whitespace.
    stop_reason:
        Stop reason as the API reported it.
    called:
        Whether the reply contains a tool call.
    """
    if not text:
        return "The model answered without a summary."
    if stop_reason == "refusal":
        return "The model declined to summarise."
    # A text that lacks most of the requested headings is only a remark, or it was cut off early.
    if (called or stop_reason in CUT_OFF) and len(_HEADING.findall(text)) < ENOUGH_HEADINGS:
        return (
            "The model went on with the work instead of summarising."
            if called
            else "The summary was cut off at its maximum length."
        )
    return None


def instruction(extra: str | None, extraction: str = "", *, max_words: int) -> str:
    """Return the instruction that asks the model for a summary.

    Parameters
    ----------
    extra:
        The user's wishes for the summary, if any.
    extraction:
        Extraction from the raw records, to correct errors that repeated summaries have introduced.
    max_words:
        Maximum length of the summary.
    """
    parts = [f"{INSTRUCTION} Write at most {max_words} words."]
    if extra and extra.strip():
        parts.append(f"The user asks that the summary looks after this:\n{extra.strip()}")
    if extraction.strip():
        parts.append(f"{REBUILD}\n\n<extraction>\n{extraction.strip()}\n</extraction>")
    return "\n\n".join(parts)


def summary_turn(
    body: str,
    *,
    ledger: str,
    last_user_message: str | None,
    inventory: Inventory | None,
    kernel_note: str,
    log_path: str,
    first_seq: int,
    last_seq: int,
) -> str:
    """Return the complete text of the summary turn.

    Parameters
    ----------
    body:
        The summary, followed by the list of its unverified values. If the model's server made the
        summary a block, ``SUMMARY_ABOVE`` followed by that list.
    ledger:
        Text of the ledger; may be empty.
    last_user_message:
        The user's last message, if it is not kept verbatim after the summary.
    inventory:
        The live variables; ``None`` if the kernel could not be asked.
    kernel_note:
        Sentence about the state of the kernel, see the function of that name.
    log_path:
        Path of ``session.jsonl``.
    first_seq, last_seq:
        Range of the records that the summary replaces.
    """
    above = body.startswith(SUMMARY_ABOVE)
    body = _clean(body.removeprefix(SUMMARY_ABOVE)).strip()
    parts = [OPEN, *([SUMMARY_ABOVE] if above else []), *([body] if body else [])]
    if ledger:
        parts.append(f"<ledger>\n{LEDGER_INTRODUCTION}\n\n{_clean(ledger)}\n</ledger>")
    if last_user_message:
        parts.append(f"<last_user_message>\n{_clean(last_user_message)}\n</last_user_message>")
    parts.append(f"<kernel_state>\n{kernel_note}\n{_inventory(inventory)}</kernel_state>")
    parts.append(
        "<recovery_hint>\n"
        "This summary replaces earlier turns; nothing was deleted. The raw records "
        f"{first_seq}–{last_seq} are in {log_path}. For an exact detail that is not above (a "
        "value, a path, an error text, code), call session_search with a few words of it, then "
        "session_read with the seqs it returns. Do not guess.\n"
        "</recovery_hint>"
    )
    parts.append(CLOSE)
    return "\n\n".join(parts)


def with_body(summary: str, body: str) -> str:
    """Return the summary turn with ``body`` in place of the hint that the summary stands above."""
    return summary.replace(SUMMARY_ABOVE, _clean(body).strip(), 1)


def with_log_path(summary: str, log_path: str) -> str:
    """Return the summary turn with ``log_path`` as the path of the log in its recovery hint."""
    return _LOG_PATH.sub(lambda match: f"{match[1]}{log_path}{match[3]}", summary, count=1)


def _clean(text: str) -> str:
    """Return ``text`` without the tags of a summary turn, so that it cannot close or forge them."""
    while _TAGS.search(text):
        text = _TAGS.sub("", text)
    return text


def _inventory(inventory: Inventory | None) -> str:
    if inventory is None:
        return ""
    variables = inventory.variables
    if not variables:
        return "No variables are defined in the kernel.\n"
    lines = []
    for variable in variables[:200]:
        facts = [str(variable.get("type", "?"))]
        if variable.get("shape"):
            facts.append(str(variable["shape"]))
        if variable.get("size"):
            facts.append(f"{variable['size']} bytes")
        lines.append(f"- {variable['name']}: {', '.join(facts)}")
    if len(variables) > 200:
        lines.append(f"- and {len(variables) - 200} more; list_variables shows all")
    read_at = inventory.read_at.strftime("%Y-%m-%d %H:%M:%S")
    return f"Live variables, as they were read at {read_at} UTC:\n" + "\n".join(lines) + "\n"


def kernel_note(state: dict[str, Any], *, listed: bool) -> str:
    """Return one or two sentences for the model about the state of the kernel.

    Parameters
    ----------
    state:
        ``kernel_state`` of a ``compaction_end``: ``status`` is ``current``, ``busy``, ``stale``
        or ``none``; ``reason``, if given, says why there is no snapshot, and ``unrestored`` how
        many variables of a former process the present one lacks.
    listed:
        Whether a list of the live variables follows; it can be made even while a cell runs.
    """
    status = state.get("status", "none")
    reason = str(state.get("reason") or "")
    if status == "none" and reason and reason != NO_KERNEL:
        return f"The kernel runs on and its variables are defined, but not saved: {reason}."
    if state.get("unrestored") and status != "busy":
        return _lacking(int(state["unrestored"]), listed=listed)
    if status == "current":
        return (
            "The kernel runs on: variables, functions and imports are still defined as you left "
            "them, and saved in a snapshot. Nothing has to be run again."
        )
    if status == "busy" and listed:
        return (
            "The kernel is busy with a running cell: its variables are not saved as they are now, "
            "and what the cell does may have changed those listed here. Check with list_variables "
            "before you rely on one."
        )
    if status == "busy":
        return (
            "The kernel is busy with a running cell; its variables could not be read. Check with "
            "list_variables before you rely on one."
        )
    if status == "stale":
        return (
            "The kernel runs on and its variables are defined, but the last snapshot is older "
            "than they are."
        )
    return "No kernel runs for the notebook, or its variables cannot be read. Check first."


def _lacking(count: int, *, listed: bool) -> str:
    what = (
        "1 variable of the former one is"
        if count == 1
        else f"{count} variables of the former one are"
    )
    where = "those listed here" if listed else "what list_variables shows"
    return (
        f"The kernel was replaced by a fresh one, and {what} not restored. Rely only on {where}. "
        "The user can restore what was saved."
    )
