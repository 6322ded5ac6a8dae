"""Other ways of keeping a context small, played over the same script.

They go by the same rules as the agent: the test API's token counts and prompt cache, the same
prompt, tools and cache marks, the same prices, latency and summary. What differs is when they
compact, what they send for it, and who waits. They know each size exactly and never fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from bench.context_figures import Purpose, Run, Sent, Wait, common_tokens
from bench.session_script import Call, Script, Step
from prime_ext.context.breakpoints import EPHEMERAL, LOOK_BACK_MARK, ONE_HOUR
from prime_ext.context.summary import INSTRUCTION
from prime_ext.models.model import Price
from tests.messages_api.cache import PromptCache
from tests.messages_api.catalogue import ModelSpec
from tests.messages_api.prompt import REQUEST_OVERHEAD, Position, positions
from tests.messages_api.script import Latency, Part, Reply, Text, ToolCall
from tests.messages_api.stream import render


@dataclass(frozen=True)
class World:
    """What all policies have in common."""

    spec: ModelSpec
    price: Price
    latency: Latency
    frozen: dict[str, list[dict[str, Any]]]
    """``system`` and ``tools`` of a request."""
    summary: str
    """What the model answers when it is asked for one."""

    def output_tokens(self, *parts: Part) -> int:
        """Tokens that it takes to write a reply, as the test API counts them."""
        room = self.spec.max_output
        rendered = render(
            Reply(parts),
            self.spec,
            max_tokens=room,
            room=room,
            shows_thinking=False,
            thinks=False,
            sign=lambda _text, _before: "",
            new_tool_id=str,
        )
        return rendered.output_tokens

    @cached_property
    def summary_tokens(self) -> int:
        return self.output_tokens(Text(self.summary))


@dataclass(frozen=True)
class Message:
    """One message, as the model reads it."""

    positions: tuple[Position, ...]
    is_answer: bool
    """It holds the results of calls, and so belongs to the message before it."""
    is_question: bool
    """A person wrote it."""

    @property
    def tokens(self) -> int:
        return sum(position.tokens for position in self.positions)


class Conversation:
    """A context, the prompt cache behind it, and the time."""

    def __init__(self, world: World, run: Run) -> None:
        self.world = world
        self.run = run
        self.now = 0.0
        self.messages: list[Message] = []
        self.frozen: list[Position] = []
        """Tools and system prompt."""
        self.freeze()
        self._cache = PromptCache()
        self._before: list[Position] = []
        self._before_at = 0.0
        self._rewritten = ""

    def freeze(self, summary: str | None = None) -> None:
        """Make the system prompt anew, with a summary at its end."""
        added = [] if summary is None else [{"type": "text", "text": summary}]
        world = self.world
        system, tools = world.frozen["system"], world.frozen["tools"]
        self.frozen = positions([*system, *added], tools, [], world.spec, None)

    def message(self, role: str, content: list[dict[str, Any]], *, asks: bool = False) -> Message:
        wire = {"role": role, "content": content}
        found = positions([], [], [wire], self.world.spec, None)
        return Message(tuple(found), content[0]["type"] == "tool_result", asks)

    def say(self, text: str, *, asks: bool = False) -> Message:
        """A message of the user role."""
        return self.message("user", [{"type": "text", "text": text}], asks=asks)

    def prompt(self, messages: Sequence[Message] | None = None) -> list[Position]:
        """Tools, system prompt and messages, with cache marks."""
        messages = self.messages if messages is None else messages
        flat = [position for message in messages for position in message.positions]
        return _marked(self.frozen, flat)

    @property
    def tokens(self) -> int:
        """Of the next request."""
        return sum(p.tokens for p in self.frozen) + sum(m.tokens for m in self.messages)

    def newest(self) -> list[Message]:
        """The last question, and the call whose results the model has not seen yet."""
        question = max(i for i, message in enumerate(self.messages) if message.is_question)
        pending = self.messages[-2:] if self.messages[-1].is_answer else []
        return [self.messages[question], *pending]

    def since(self, tokens: int) -> int:
        """Index from which on the newest messages have at least ``tokens``."""
        kept = 0
        for index in range(len(self.messages) - 1, -1, -1):
            kept += self.messages[index].tokens
            if kept >= tokens and not self.messages[index].is_answer:
                return index
        return 0

    def send(self, prompt: Sequence[Position], output: int, purpose: Purpose) -> float:
        """Send a request; returns when its reply is whole."""
        world = self.world
        lookup = self._cache.look_up(prompt, "", world.spec, self.now)
        begun = self.now + world.latency.before_first(lookup.uncached_tokens)
        self._cache.commit(lookup, self.now, begun)
        usage = {**lookup.usage, "output_tokens": output}
        usage["input_tokens"] += REQUEST_OVERHEAD
        self.run.requests.append(
            Sent(
                purpose,
                self.now,
                lookup.total_tokens + REQUEST_OVERHEAD,
                usage["cache_read_input_tokens"],
                output,
                world.price.cost(usage),
                common_tokens(prompt, self._before),
                self.now - self._before_at,
                self._rewritten if purpose == "turn" else "",
            )
        )
        if purpose == "turn":
            self._before, self._before_at, self._rewritten = list(prompt), self.now, ""
        return begun + world.latency.of_output(output)

    def compact(
        self,
        path: str,
        summarise: Sequence[Position],
        then: Sequence[Message],
        late_s: float = 0.0,
    ) -> None:
        """Have a summary made of what the request ``summarise`` says while the person waits, and
        go on from the messages ``then``. What it needs is ready in ``late_s`` seconds."""
        before, since = self.tokens, self.now
        self.now += late_s
        self.now = self.send(summarise, self.world.summary_tokens, "summary")
        sent = self.run.requests[-1].tokens
        self.messages = list(then)
        self._rewritten = path
        self.run.waits.append(Wait(path, self.now - since, sent, before, self.tokens))


class Policy(Protocol):
    """When and how a context is made smaller."""

    name: str
    threshold: int
    """Tokens of the next request from which on it acts; 0: never."""

    def act(self, conversation: Conversation) -> None:
        """Called before each request."""


@dataclass
class Never:
    """Nothing is ever compacted."""

    name: str = "nothing compacted"
    threshold: int = 0

    def act(self, conversation: Conversation) -> None:
        pass


@dataclass
class SystemPromptSummary:
    """One request with the whole conversation, as text, to a summariser with a prompt of its own;
    its answer goes into the system prompt."""

    threshold: int
    name: str = "single pass, summary in the system prompt"

    def act(self, conversation: Conversation) -> None:
        if conversation.tokens >= self.threshold:
            text = _as_text(conversation, conversation.messages)
            conversation.freeze(conversation.world.summary)
            conversation.compact("single_pass", text, conversation.newest())


RESERVE_TOKENS, KEEP_TOKENS = 16_384, 20_000


@dataclass
class FullHistorySummary:
    """Close to the window, one request with the history, as text, but for its newest part, which
    stays as it is behind the summary."""

    threshold: int
    name: str = "full history at window - 16k, keeps 20k"

    def act(self, conversation: Conversation) -> None:
        if conversation.tokens >= self.threshold:
            cut = conversation.since(KEEP_TOKENS)
            older, newer = conversation.messages[:cut], conversation.messages[cut:]
            summary = conversation.say(conversation.world.summary)
            conversation.compact("single_pass", _as_text(conversation, older), [summary, *newer])


PREFIRE_SHARE, PREFIX_SHARE = 0.9, 0.95


@dataclass
class TwoPass:
    """A note ahead of need, as the agent makes it, but each time a second request, which merges it
    with what came since, is waited for; so is a note that is late."""

    threshold: int
    name: str = "two passes, merge always waited for"
    _noted: int | None = None
    """How many messages the note covers."""
    _ready_at: float = 0.0

    def act(self, conversation: Conversation) -> None:
        tokens = conversation.tokens
        if self._noted is None and tokens >= PREFIRE_SHARE * self.threshold:
            self._make_note(conversation, tokens)
        if tokens < self.threshold:
            return
        note = conversation.say(conversation.world.summary)
        tail = conversation.messages[self._noted or 0 :]
        merge = conversation.prompt([note, *tail, conversation.say(INSTRUCTION)])
        late = max(0.0, self._ready_at - conversation.now)
        conversation.compact("merge", merge, [note, *conversation.newest()], late)
        conversation.run.notes["used"] += 1
        self._noted = None

    def _make_note(self, conversation: Conversation, tokens: int) -> None:
        messages = conversation.messages
        cut = conversation.since(int((1 - PREFIX_SHARE) * tokens))
        prompt = conversation.prompt([*messages[:cut], conversation.say(INSTRUCTION)])
        output = conversation.world.summary_tokens
        self._ready_at = conversation.send(prompt, output, "note")
        self._noted = cut


def play(script: Script, policy: Policy, world: World) -> Run:
    """``script`` under ``policy``."""
    run = Run(script.name, policy.name, script.window, policy.threshold, turns=len(script.turns))
    conversation = Conversation(world, run)
    for turn in script.turns:
        conversation.now += turn.pause_s
        conversation.messages.append(conversation.say(turn.text, asks=True))
        for step in turn.steps:
            policy.act(conversation)
            reply = _reply(conversation, step)
            output = world.output_tokens(Text(step.text), *map(_written, step.calls))
            conversation.now = conversation.send(conversation.prompt(), output, "turn")
            conversation.messages.append(reply)
            if step.calls:
                conversation.now += sum(call.seconds for call in step.calls)
                conversation.messages.append(_results(conversation, step))
    run.hours = conversation.now / 3600
    return run


def _written(call: Call) -> ToolCall:
    return ToolCall(call.name, call.arguments, call.id)


def _reply(conversation: Conversation, step: Step) -> Message:
    content: list[dict[str, Any]] = [{"type": "text", "text": step.text}]
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in step.calls
    ]
    return conversation.message("assistant", content)


def _results(conversation: Conversation, step: Step) -> Message:
    content: list[dict[str, Any]] = [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": [{"type": "text", "text": call.result}],
            **({"is_error": True} if call.is_error else {}),
        }
        for call in step.calls
    ]
    return conversation.message("user", content)


def _as_text(conversation: Conversation, messages: Sequence[Message]) -> list[Position]:
    """A conversation as the text of a request to a summariser; no cache has any of it."""
    spec = conversation.world.spec
    prompt = positions([{"type": "text", "text": INSTRUCTION}], [], [], spec, None)
    return [*prompt, *(position for message in messages for position in message.positions)]


def _marked(frozen: Sequence[Position], messages: Sequence[Position]) -> list[Position]:
    """The prompt with the agent's cache marks: its system prompt's end, its last block, and one
    inside the look-back from there."""
    prompt = [*frozen, *messages]
    marks = {len(frozen) - 1: ONE_HOUR, len(prompt) - 1: EPHEMERAL}
    counted = 0
    for index in range(len(prompt) - 1, len(frozen) - 1, -1):
        counted += not prompt[index].in_run
        if counted > LOOK_BACK_MARK:
            marks[index] = EPHEMERAL
            break
    for index, mark in marks.items():
        prompt[index] = replace(prompt[index], mark=mark)
    return prompt
