"""Reads a request's messages: the current question, and the tool calls made for it so far."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prime_ext.clean_text import without_escapes
from prime_ext.context.sections import DONE_CALL, LEFT_OUT, OPEN_REQUEST, TOUR_STEP
from prime_ext.models.model import ModelRequest

CHANGING = frozenset(
    ("run_code", "run_cell", "insert_cell", "edit_cell", "delete_cell", "move_cell", "edit_file",
     "write_file", "compact_context")
)  # fmt: skip
"""Tools that run code or change something."""

_LAST_MESSAGE = re.compile(r"<last_user_message>\n?(.*?)\n?</last_user_message>", re.S)
_ATTACHMENT = re.compile(
    r"\s*<attachment type=\"([^\"]*)\" name=\"([^\"]*)\">\n?(.*?)"
    r"\n?</attachment>\s*",
    re.S,
)
_MENTION = re.compile(r"In the message it is called (@\S+)\.\n")
_DONE = re.compile(rf"^- {DONE_CALL}(\w+) (\{{.*\}}) -> (\".*\")$", re.M)
_OPEN = re.compile(rf"^- {OPEN_REQUEST}(.*(?:\n  .*)*)", re.M)
_TOUR_STEP = re.compile(rf"^- {TOUR_STEP}(\d+) of \d+", re.M)
_NOTEBOOK = re.compile(r"`([^`\n]+\.ipynb)`")
_DECLINED = ("The user declined", "Plan mode")
"""Prefixes of the results of calls that the user or the permission mode did not allow."""


@dataclass(frozen=True)
class Call:
    """A tool call that was made or is to be made."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The result of a call."""

    text: str
    is_error: bool = False
    images: int = 0

    @property
    def declined(self) -> bool:
        """Whether the user or the permission mode did not allow the call."""
        return self.is_error and self.text.startswith(_DECLINED)


@dataclass(frozen=True)
class Round:
    """A reply with tool calls, and their results in the same order."""

    text: str
    calls: tuple[Call, ...]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Attachment:
    kind: str
    name: str
    text: str


@dataclass(frozen=True)
class Conversation:
    """A request to the model, in the form that plans use."""

    question: str
    """The user's message being worked on; empty if the conversation does not contain one."""
    attachments: tuple[Attachment, ...]
    rounds: tuple[Round, ...]
    """Calls made for the question, oldest first."""
    recalled: tuple[Round, ...]
    """Calls made for the question before ``rounds``, as far as the summary lists them."""
    question_from_summary: bool
    """Whether the question was compacted away and is only known from the summary."""
    previous: tuple[str, str]
    """The previous question and the last text of its answer; empty if there are none."""
    earlier: tuple[str, ...]
    """Texts, code and results before the question, newest first."""
    earlier_rounds: tuple[Round, ...]
    """Calls made for earlier questions, oldest first."""
    summary: str
    """The summary that replaces the compacted messages; empty without one."""
    notebook: str
    """Path of the notebook, relative to the server's root; empty if unknown."""
    tools: frozenset[str]
    fingerprint: str
    """Hash of the messages, for call ids that are unique within a conversation."""

    @property
    def summary_tour_step(self) -> int | None:
        """The last tour step that was shown according to the summary."""
        steps = _TOUR_STEP.findall(self.summary)
        return int(steps[-1]) if steps else None


def read(request: ModelRequest) -> Conversation:
    """Read a request's system prompt, tools and messages."""
    summary = ""
    question = ""
    attachments: tuple[Attachment, ...] = ()
    start = 0
    for index, message in enumerate(request.messages):
        if message.get("role") != "user":
            continue
        said, attached, summed_up = _said(message)
        summary = summed_up or summary
        if said or attached:
            question, attachments, start = said, attached, index + 1
    rounds = list(_rounds(request.messages[start:]))
    recalled: list[Round] = []
    from_summary = not question and not attachments and bool(summary)
    if from_summary:
        last = _LAST_MESSAGE.search(summary)
        opened = _OPEN.search(summary)
        if last is not None:
            question = last[1].strip()
        elif opened is not None:
            question = "\n".join(
                line[2:] if n else line for n, line in enumerate(opened[1].splitlines())
            )
        if question:
            recalled = list(_summed_up_rounds(summary))
    return Conversation(
        question=question,
        attachments=attachments,
        rounds=tuple(rounds),
        recalled=tuple(recalled),
        question_from_summary=from_summary,
        previous=_previous(request.messages[: max(start - 1, 0)]),
        earlier=tuple(_texts(request.messages[: max(start - 1, 0)])),
        earlier_rounds=tuple(_rounds(request.messages[: max(start - 1, 0)])),
        summary=summary,
        notebook=_notebook(request.system),
        tools=frozenset(str(tool.get("name")) for tool in request.tools),
        fingerprint=_fingerprint(request.messages),
    )


def _previous(messages: list[dict[str, Any]]) -> tuple[str, str]:
    answer = ""
    for message in reversed(messages):
        if message.get("role") == "assistant":
            text = "".join(
                str(b.get("text", "")) for b in blocks(message) if b.get("type") == "text"
            )
            answer = answer or text
        elif said := _said(message)[0]:
            return said, answer
    return "", answer


def _said(message: dict[str, Any]) -> tuple[str, tuple[Attachment, ...], str]:
    """Return the user's own text in a message, its attachments, and its compaction summary."""
    said: list[str] = []
    attached: list[Attachment] = []
    summary = ""
    for block in blocks(message):
        if block.get("type") != "text":
            continue
        text = str(block.get("text", ""))
        attachment = _ATTACHMENT.fullmatch(text)
        if text.lstrip().startswith("<compaction-summary>"):
            summary = text
        elif text.lstrip().startswith(("<kernel-event>", "<notebook-event>")):
            continue
        elif attachment is not None:
            attached.append(Attachment(attachment[1], attachment[2], attachment[3]))
        elif text.strip():
            said.append(text.strip())
    return _without_marks("\n\n".join(said), attached), tuple(attached), summary


def _without_marks(said: str, attached: list[Attachment]) -> str:
    """Replace mentions in the text by what they stand for, such as ``@df`` by ``df``."""
    for attachment in attached:
        mention = _MENTION.match(attachment.text)
        if mention is not None and attachment.kind in ("variable", "file", "folder"):
            said = said.replace(mention[1], mention[1][1:])
        elif mention is not None and attachment.kind == "error":
            said = said.replace(mention[1], "the error")
    return said


def _rounds(messages: list[dict[str, Any]]) -> Iterator[Round]:
    results: dict[str, Result] = {}
    for message in messages:
        for block in blocks(message):
            if block.get("type") == "tool_result":
                results[str(block.get("tool_use_id"))] = _result(block)
    for message in messages:
        if message.get("role") != "assistant":
            continue
        text: list[str] = []
        calls: list[Call] = []
        answers: list[Result] = []
        for block in blocks(message):
            if block.get("type") == "text":
                text.append(str(block.get("text", "")))
            elif block.get("type") == "tool_use":
                given = block.get("input")
                calls.append(Call(str(block.get("name")), given if isinstance(given, dict) else {}))
                answers.append(
                    results.get(str(block.get("id")), Result("No result was recorded.", True))
                )
        if calls:
            yield Round("\n".join(text), tuple(calls), tuple(answers))


def _result(block: dict[str, Any]) -> Result:
    parts = list(blocks(block))
    text = "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
    images = sum(part.get("type") == "image" for part in parts)
    return Result(without_escapes(text), bool(block.get("is_error")), images)


def _summed_up_rounds(summary: str) -> Iterator[Round]:
    """Parse the calls for the open question that a digest lists.

    A read-only call whose result was shortened is omitted, since it can be repeated. A call that
    changed something is always included, so that it is not made twice.
    """
    for name, arguments, outcome in _DONE.findall(summary):
        try:
            given, text = json.loads(arguments), json.loads(outcome)
        except ValueError:
            continue
        status, _, rest = str(text).partition(": ")
        if LEFT_OUT in rest and name not in CHANGING:
            continue
        yield Round("", (Call(name, given),), (Result(rest, status == "error"),))


def _texts(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in reversed(messages):
        for block in reversed(list(blocks(message))):
            if block.get("type") == "text":
                yield str(block.get("text", ""))
            elif block.get("type") == "tool_use":
                given = block.get("input")
                values = given.values() if isinstance(given, dict) else ()
                yield "\n".join(value for value in values if isinstance(value, str))


def blocks(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the content blocks of a message or tool result; a string counts as a text block."""
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _notebook(system: list[dict[str, Any]]) -> str:
    for block in system:
        found = _NOTEBOOK.search(str(block.get("text", "")))
        if found is not None:
            return found[1]
    return ""


def _fingerprint(messages: list[dict[str, Any]]) -> str:
    """Hash the messages without ``cache_control``, which moves from request to request."""
    bare = [
        {
            "role": message.get("role"),
            "content": [
                {key: value for key, value in block.items() if key != "cache_control"}
                for block in blocks(message)
            ],
        }
        for message in messages
    ]
    text = json.dumps(bare, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
