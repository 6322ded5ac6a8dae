"""Extractive summary of a conversation, made without a model.

The offline agent compacts this way, and it is the last resort for every other model. What the
summary keeps is quoted verbatim; what it leaves out stays in the session's records. The result is
deterministic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_ext.clean_text import without_escapes
from prime_ext.context.sections import (
    DONE_CALL,
    OPEN_REQUEST,
    SECTIONS,
    TOUR_STEP,
    parse,
    render,
    shorten,
)
from prime_ext.context.traceback_text import TRACEBACK, error_line, places

_DONE_CHARS = 300
"""Maximum length of the result of a call that was made for an open request."""
_OUTPUT_CHARS = 600
"""Outputs up to this length are kept whole."""
_LOOKING = (
    "list_variables", "inspect_variable", "read_notebook", "list_files", "read_file",
    "search_files", "session_search", "session_read",
)  # fmt: skip

_SUMMARY = re.compile(r"<compaction-summary>(.*?)(?:</compaction-summary>|\Z)", re.S)
_ASIDE = re.compile(
    r"<(recovery_hint|kernel_state|last_user_message|ledger|unverified|summary_above)>.*?(?:</\1>|\Z)",
    re.S,
)
_LAST_MESSAGE = re.compile(r"<last_user_message>\n?(.*?)\n?</last_user_message>", re.S)
_EVENT = re.compile(r"\s*<(kernel|notebook)-event>\s*(.*?)\s*</\1-event>\s*", re.S)
_ATTACHMENT = re.compile(r"\s*<attachment type=\"([^\"]*)\" name=\"([^\"]*)\">.*", re.S)
_CELL_ID = re.compile(r"\bcell (?:id |\[)([^\],\s]+)")
_PATH = re.compile(
    r"(?<![\w/.-])((?:~?/|\.{1,2}/)?(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.(?:csv|tsv|parquet|xlsx?|"
    r"jsonl?|"
    r"feather|arrow|h5|hdf5|nc|npy|npz|pkl|joblib|db|sqlite|sql|py|ipynb|md|txt|ya?ml|toml|ini|"
    r"cfg|log|html?|pdf|png|jpe?g|svg|zip|gz|pt|onnx|safetensors))(?![\w/])",
    re.I,
)
_VALUE = re.compile(
    r"^[ \t]*([A-Za-z_][\w .%/()\[\]'\"-]{0,60}?)\s*[:=]\s*(-?\d[\d.,_eE%+-]*\b.*)"
    r"$"
)
_DECISION = re.compile(
    r"\b(?:decid\w+|chose|chosen|instead of|rather than|rejected|because|we(?:'ll| will)"
    r" use|"
    r"i(?:'ll| will) use|let's use|go with|agreed|settled|turned out)\b",
    re.I,
)
_CONSTRAINT = re.compile(
    r"\b(?:must|don't|do not|never|always|only|avoid|without|prefer|should(?:n't| not)?|"
    r"at (?:most|least)|no more than|keep|make sure|not allowed|leave .{1,40} (?:alone|as))\b",
    re.I,
)
_NOTHING = re.compile(r"\W*(?:none|nothing|n/a)\W*", re.I)
"""Matches what models write under a heading that has no content."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(])|\n+")
_TOUR = re.compile(r"\bTour (\d+) of (\d+)\b|^/tour step (\d+) of (\d+)", re.M)


def digest(messages: Iterable[Mapping[str, Any]], *, max_chars: int) -> str:
    """Summarise ``messages`` by extraction.

    Parameters
    ----------
    messages:
        Messages in the Messages API's shape, oldest first. An earlier summary turn is merged into
        the result, not quoted. Content of an unknown shape is skipped.
    max_chars:
        Maximum characters of the result.

    Returns
    -------
    str
        Markdown with the headings of ``SECTIONS``, except for empty sections. The last user
        message is kept, and shortened in the middle only if it alone takes half of the room.
    """
    notes = _Notes()
    entries: Iterable[object] = messages  # An old log may hold other shapes.
    for message in entries:
        if not isinstance(message, Mapping):
            continue
        blocks = list(_blocks(message.get("content")))
        if message.get("role") == "assistant":
            notes.assistant(blocks)
        else:
            notes.user(blocks)
    return render(notes.close(), max_chars)


@dataclass
class _Call:
    name: str
    arguments: dict[str, Any]
    outcome: str | None = None
    """``ok: …`` or ``error: …``, once the result is known."""

    @property
    def noted(self) -> bool:
        """Whether the call is worth keeping. Calls that only look at something can be repeated, so
        they are kept only if their result is short."""
        return self.name not in _LOOKING or len(self.outcome or "") <= _DONE_CHARS

    def line(self) -> str:
        arguments = json.dumps(shortened(self.arguments), ensure_ascii=False, default=str)
        outcome = shorten(self.outcome or "no result yet", _DONE_CHARS)
        return f"{DONE_CALL}{self.name} {arguments} -> {json.dumps(outcome, ensure_ascii=False)}"


def shortened(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments with long strings shortened, as ``_Call.line`` shows them."""
    return {k: shorten(v, 600) if isinstance(v, str) else v for k, v in arguments.items()}


@dataclass
class _Notes:
    """Collects what is worth keeping, message by message."""

    items: dict[str, dict[str, None]] = field(
        default_factory=lambda: {section: {} for section in SECTIONS}
    )
    """Section → its items in order. The items are keys of a dict, so that a repeated item moves to
    the end."""
    request: str | None = None
    answered: bool = True
    calls: dict[str, _Call] = field(default_factory=dict)
    """Calls since the last user request, by id."""
    carried: list[str] = field(default_factory=list)
    """Lines of calls from an earlier summary, made for a request that is still open."""
    last_text: str = ""

    def add(self, section: str, item: str) -> None:
        item = item.strip()
        if item:
            self.items[section].pop(item, None)
            self.items[section][item] = None

    # --- reading -------------------------------------------------------------------------------

    def user(self, blocks: list[dict[str, Any]]) -> None:
        said: list[str] = []
        for block in blocks:
            if block.get("type") == "tool_result":
                self._result(block)
            elif block.get("type") == "text":
                text = _text(block.get("text"))
                summary = _SUMMARY.search(text)
                if summary is not None:
                    self._merge(summary[1])
                elif (event := _EVENT.fullmatch(text)) is not None:
                    self.add("State of work", f"{event[1].capitalize()}: {event[2]}")
                elif (attachment := _ATTACHMENT.fullmatch(text)) is not None:
                    self.add("Files and cells", f"Attached {attachment[1]} `{attachment[2]}`")
                elif text.strip():
                    said.append(text.strip())
        if said:
            self._request("\n\n".join(said))

    def assistant(self, blocks: list[dict[str, Any]]) -> None:
        called = False
        texts: list[str] = []
        for block in blocks:
            if block.get("type") == "compaction":
                self._merge(_text(block.get("content")))
                return
            if block.get("type") == "tool_use":
                called = True
                self._call(block)
            elif block.get("type") == "text":
                texts.append(_text(block.get("text")))
        text = "\n".join(texts).strip()
        if text:
            self.last_text = text
            self._said(text)
        if not called and (text or blocks):
            self.answered = True

    def _request(self, text: str) -> None:
        self.request = text
        self.answered = False
        self.calls.clear()
        self.carried.clear()
        self.add("Goal", text)
        for sentence in _SENTENCE.split(text):
            if _CONSTRAINT.search(sentence) and len(sentence) < 400:
                self.add("Constraints", sentence)
        self._paths(text)

    def _said(self, text: str) -> None:
        for tour in _TOUR.finditer(text):
            self._tour(tour)
        prose = re.sub(r"```.*?(?:```|\Z)", "", text, flags=re.S)
        for sentence in _SENTENCE.split(prose):
            if _DECISION.search(sentence) and len(sentence) < 400:
                self.add("Decisions", sentence)
        self._values(text)
        self._paths(prose)

    def _tour(self, match: re.Match[str]) -> None:
        for item in [i for i in self.items["State of work"] if i.startswith(TOUR_STEP)]:
            del self.items["State of work"][item]
        step, total = match[1] or match[3], match[2] or match[4]
        self.add("State of work", f"{TOUR_STEP}{step} of {total}")

    def _call(self, block: dict[str, Any]) -> None:
        arguments = block.get("input")
        call = _Call(
            _text(block.get("name")), dict(arguments) if isinstance(arguments, Mapping) else {}
        )
        self.calls[_text(block.get("id"))] = call
        for key in ("path", "file"):
            if isinstance(call.arguments.get(key), str):
                self.add("Files and cells", f"`{call.arguments[key]}` ({call.name})")

    def _result(self, block: dict[str, Any]) -> None:
        text = "\n".join(_text(b.get("text")) for b in _blocks(block.get("content")))
        text = without_escapes(text).strip()
        failed = bool(block.get("is_error"))
        call = self.calls.get(_text(block.get("tool_use_id")))
        if call is not None:
            call.outcome = f"{'error' if failed else 'ok'}: {text}"
            self._command(call, text, failed)
        if failed or TRACEBACK in text:
            self._error(text)
        elif call is None:
            self._values(text)
        elif call.name in ("run_code", "run_cell"):
            self._output(call, text)

    def _command(self, call: _Call, result: str, failed: bool) -> None:
        code = next(
            (v for k in ("code", "source") if isinstance(v := call.arguments.get(k), str)), None
        )
        cell = call.arguments.get("cell_id")
        if call.name == "insert_cell" and not failed:
            found = _CELL_ID.search(result)
            cell = found[1] if found else None
        where = f", cell `{cell}`" if isinstance(cell, str) else ""
        if code is not None:
            failure = ", failed" if failed else ""
            self.add("Commands and values", f"{call.name}{where}{failure}:\n{_fence(code)}")
        if where and call.name != "read_notebook":
            self.add("Files and cells", f"{call.name}{where}{': failed' if failed else ''}")

    def _output(self, call: _Call, text: str) -> None:
        """Keep a short output with numbers whole, and only the named values of a long one."""
        if not re.search(r"\d", text):
            return
        if len(text) > _OUTPUT_CHARS:
            self._values(text)
            return
        cell = call.arguments.get("cell_id")
        where = f" cell `{cell}`" if isinstance(cell, str) else ""
        self.add("Commands and values", f"Output of {call.name}{where}:\n{_fence(text)}")

    def _error(self, text: str) -> None:
        found = places(text)
        at = f" (at {'; '.join(found[-3:])})" if found else ""
        self.add("Errors", f"{shorten(error_line(text), 400)}{at}")

    def _values(self, text: str) -> None:
        for line in text.splitlines()[:400]:
            if len(line) <= 160 and _VALUE.match(line):
                self.add("Commands and values", f"`{line.strip()}`".replace("``", "`"))

    def _paths(self, text: str) -> None:
        for path in _PATH.findall(text[:20_000]):
            self.add("Files and cells", f"`{path}`")

    # --- an earlier summary --------------------------------------------------------------------

    def _merge(self, text: str) -> None:
        """Take over the items of an earlier summary, as the oldest items of their sections."""
        last = _LAST_MESSAGE.search(text)
        section = "State of work"
        for line_section, item in parse(_ASIDE.sub("", text)):
            section = line_section or section
            if item.startswith(OPEN_REQUEST):
                self.request, self.answered = item[len(OPEN_REQUEST) :], False
            elif item.startswith(DONE_CALL):
                self.carried.append(item)
            elif (tour := _TOUR.match(item)) is not None:
                self._tour(tour)
            elif not _NOTHING.fullmatch(item):
                self.add(section, item)
        if last is not None and last[1].strip():
            self.add("Goal", last[1])
            if not self.answered:
                self.request = last[1].strip()

    # --- the end -------------------------------------------------------------------------------

    def close(self) -> dict[str, list[str]]:
        if self.request is not None and not self.answered:
            self.add("Next steps", OPEN_REQUEST + self.request)
            for line in [*self.carried, *(c.line() for c in self.calls.values() if c.noted)]:
                self.add("State of work", line)
        elif self.last_text:
            self.add("State of work", f"Last reply: {shorten(self.last_text, 700)}")
        # The last item of a section is dropped last. These are the tour's step, and the newest
        # request among the goals.
        for item in [i for i in self.items["State of work"] if i.startswith(TOUR_STEP)]:
            self.add("State of work", item)
        found = {section: list(items) for section, items in self.items.items()}
        if self.request is not None:
            goals = [goal for goal in found["Goal"] if goal != self.request.strip()]
            found["Goal"] = [*goals, self.request.strip()] if self.request.strip() else goals
        return found


def _blocks(content: object) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, Iterable) and not isinstance(content, (bytes, Mapping)):
        for block in content:
            if isinstance(block, Mapping):
                yield dict(block)
            elif isinstance(block, str):
                yield {"type": "text", "text": block}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _fence(code: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}\n{code.strip()}\n{marks}"
