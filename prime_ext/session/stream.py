"""Subscriptions to a session: replay of the log, then live frames, without gaps or duplicates."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from prime_ext.session.log import decode_json
from prime_ext.session.progress import news

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from prime_ext.session.log import SessionLog

Frame = dict[str, Any]
"""One message of the stream, as ``src/api/frames.ts`` types it."""

EndReason = Literal["slow", "closed", "deleted"]

Activity = Literal["idle", "working", "waiting"]
"""Activity of a session. ``waiting`` means that it waits for the user."""

REPLAY_RECORDS = 200
REPLAY_BYTES = 1 << 20
"""Maximum size of the slices in which a replay reads the log."""

QUEUE_FRAMES = 2_000
QUEUE_BYTES = 32 << 20
"""Maximum backlog of a subscriber; beyond it, the subscription ends with the reason ``slow``."""

IDLE_STATE: dict[str, Any] = {
    "running": False,
    "phase": "idle",
    "turn": None,
    "context_tokens": None,
    "threshold": 0,
    "kernel": {"id": None, "state": "none"},
}


def activity_of(state: dict[str, Any]) -> Activity:
    """Return the activity that an ``ISessionState`` stands for."""
    if not state["running"]:
        return "idle"
    return "waiting" if state["phase"] == "approval" else "working"


class Subscription:
    """An async iterator over the frames of one session.

    It ends when the session is closed or deleted, or when the reader is too slow; ``ended`` then
    gives the reason. A reader that was too slow can subscribe again with ``after`` set to the last
    ``seq`` that it received, and misses no record.
    """

    def __init__(self, stream: Stream, after: int) -> None:
        self.ended: EndReason | None = None
        self._stream = stream
        self._after = max(after, 0)
        self._queue: deque[tuple[Frame, int]] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._frames = self._read()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        return await anext(self._frames)

    async def aclose(self) -> None:
        """End the subscription and drop its queued frames."""
        self._stream.subscribers.discard(self)
        await self._frames.aclose()

    def put(self, frame: Frame, size: int) -> None:
        """Queue a live frame of about ``size`` bytes."""
        full = len(self._queue) >= QUEUE_FRAMES or self._bytes + size > QUEUE_BYTES
        if full and self._queue:
            self.end("slow")
            return
        self._queue.append((frame, size))
        self._bytes += size
        self._wake.set()

    def end(self, reason: EndReason) -> None:
        """Accept no more frames. Queued ones are still delivered unless ``reason`` is ``slow``."""
        if self.ended is None:
            self.ended = reason
            if reason == "slow":
                self._queue.clear()
            self._stream.subscribers.discard(self)
            self._wake.set()

    async def _read(self) -> AsyncGenerator[Frame, None]:
        log = self._stream.log
        seq = self._after
        # Nothing is awaited between reaching the end of the log and joining the live subscribers,
        # so no record can be missed in between.
        while seq < log.last_seq:
            try:
                lines = await asyncio.to_thread(log.lines, seq, REPLAY_RECORDS, REPLAY_BYTES)
            except FileNotFoundError:  # The session was deleted in the meantime.
                self.end("deleted")
                return
            if not lines:
                break
            for _, line in lines:
                record = decode_json(line)
                if record is not None:
                    yield {"type": "record", "record": record}
            seq = lines[-1][0]
            if self._stream.ended is not None:
                break
        self._stream.join(self)
        while True:
            while self._queue:
                frame, size = self._queue.popleft()
                self._bytes -= size
                yield frame
            if self.ended is not None:
                return
            self._wake.clear()
            await self._wake.wait()


class Stream:
    """Sends frames to subscribers, and keeps those that later subscribers need to catch up.

    Not thread-safe: everything except reading the log happens on the event loop.
    """

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.state: dict[str, Any] = IDLE_STATE
        self.subscribers: set[Subscription] = set()
        self.ended: EndReason | None = None
        self._partial: dict[tuple[str, int], _PartialBlock] = {}
        """Blocks of the message that is being streamed, by message id and block index."""
        self._progress: dict[tuple[str, str | None], Frame] = {}
        """The newest ``progress`` frame of each activity, by ``what`` and call id. The frames of a
        tool call are merged into one."""
        self._going: set[tuple[str, str | None]] = set()
        """Keys in ``_progress`` of calls that were answered although their run continues."""

    def subscription(self, after: int) -> Subscription:
        """Return a subscription that replays the log after ``seq`` ``after``, then goes live."""
        return Subscription(self, after)

    def join(self, subscription: Subscription) -> None:
        """Make ``subscription`` live.

        It receives ``ready``, the current partial message and progress, and all later frames.
        """
        if self.ended is not None:
            subscription.end(self.ended)
            return
        ready = {"type": "ready", "last_seq": self.log.last_seq, "state": self.state}
        subscription.put(ready, 0)
        for block in self._partial.values():
            for frame in block.frames():
                subscription.put(frame, 0)
        for frame in self._progress.values():
            subscription.put(frame, 0)
        self.subscribers.add(subscription)

    def publish(self, frame: Frame, size: int | None = None) -> None:
        """Send a transient frame, at most ``size`` bytes long if known, to all live subscribers."""
        kind = frame["type"]
        if kind == "delta":
            key = (frame["message"], frame["index"])
            if frame["block"] == "start":
                self._partial[key] = _PartialBlock()
            self._partial.setdefault(key, _PartialBlock()).add(frame)
            self._forget_progress("retry", "wait")
        elif kind == "delta_reset":
            self._forget_message(frame["message"])
        elif kind == "progress":
            key = (frame["what"], frame.get("call_id"))
            before = self._progress.get(key)
            together = before is not None and frame["what"] == "tool"
            self._progress[key] = {**(before or {}), **frame} if together else frame
            # All live subscribers have received the previous frame.
            told = news(before, frame) if together else frame
            if told is None:
                return
            frame = told
        elif kind == "state":
            self.state = frame["state"]
        self._send(frame, size)

    def publish_record(self, record: dict[str, Any], size: int) -> None:
        """Send a newly appended record of ``size`` bytes to all live subscribers."""
        kind = record["kind"]
        if kind in ("assistant_message", "turn_end"):
            self._partial.clear()
            self._forget_progress("retry", "wait")
        if kind in ("tool_result", "run_end"):
            self._forget_call(record)
        elif kind == "compaction_end":
            self._forget_progress("compaction")
        elif kind == "turn_end":
            going = {key: self._progress[key] for key in self._going if key in self._progress}
            self._progress = going
        self._send({"type": "record", "record": record}, size)

    def end(self, reason: EndReason) -> None:
        """End every subscription, including those that are still replaying the log."""
        if self.ended is None:
            self.ended = reason
            for subscription in list(self.subscribers):
                subscription.end(reason)

    def _send(self, frame: Frame, size: int | None) -> None:
        if not self.subscribers:
            return
        size = _weight(frame) if size is None else size
        for subscription in list(self.subscribers):
            subscription.put(frame, size)

    def _forget_call(self, record: dict[str, Any]) -> None:
        """Drop the progress of a call that has its result, or of a run that has ended."""
        call_id, run = record["tool_use_id"], record.get("run")
        if run is not None and record.get("goes_on"):
            self._going.add(("tool", run))
        elif run is not None or record["kind"] == "run_end":
            self._going.discard(("tool", run or call_id))
            self._progress.pop(("tool", run or call_id), None)
        if ("tool", call_id) not in self._going:
            self._progress.pop(("tool", call_id), None)

    def _forget_message(self, message: str) -> None:
        for key in [key for key in self._partial if key[0] == message]:
            del self._partial[key]

    def _forget_progress(self, *whats: str) -> None:
        for key in [key for key in self._progress if key[0] in whats]:
            del self._progress[key]


class _PartialBlock:
    """The part of a content block that has been streamed so far."""

    def __init__(self) -> None:
        self._start: list[Frame] = []
        self._last: Frame | None = None
        self._text: list[str] = []

    def add(self, frame: Frame) -> None:
        if frame["block"] == "start":
            self._start = [frame]
        else:
            self._last = frame
            self._text.append(frame.get("text") or "")

    def frames(self) -> list[Frame]:
        if self._last is None:
            return self._start
        return [*self._start, {**self._last, "text": "".join(self._text)}]


def _weight(value: Any) -> int:
    """Return the approximate size of a frame in bytes; only long strings matter."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_weight(item) for item in value.values())
    if isinstance(value, list):
        return sum(_weight(item) for item in value)
    return 8
