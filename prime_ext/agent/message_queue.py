"""Messages to an agent: sent at once, or queued while the agent is busy."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from prime_ext.agent.prompts import user_content
from prime_ext.agent.titles import title_of
from prime_ext.errors import PrimeError
from prime_ext.session.records import Queued, Title, Unqueued, UserMessage

if TYPE_CHECKING:
    from prime_ext.agent.history import History
    from prime_ext.agent.tools.runs import Runs
    from prime_ext.session.session import Session


class MessageQueue:
    """Queue of one session, which turns messages into the records that begin turns.

    Attachments have the form that ``AttachmentReader.read`` returns. The queue itself is kept in
    the records, and its state in ``History.queue``.
    """

    def __init__(self, session: Session, history: History, runs: Runs) -> None:
        self._session = session
        self._history = history
        self._runs = runs

    def __len__(self) -> int:
        return len(self._history.queue)

    def put(self, text: str, attachments: list[dict[str, Any]], user: str | None) -> int:
        """Queue a message, and return ``seq`` of its ``queued`` record."""
        queued = Queued(text=text, attachments=attachments, user=user)
        return self._session.append(queued, sync=True).seq

    def take_back(self, seq: int, user: str | None) -> None:
        """Remove a message from the queue.

        Raises
        ------
        PrimeError
            ``not_queued`` (404) if it was sent or removed already.
        """
        if seq not in self._history.queue:
            raise PrimeError(
                f"Record {seq} is not a message that waits in the queue.",
                code="not_queued",
                hint="It may have been sent or removed meanwhile.",
                status=404,
            )
        self._session.append(Unqueued(queued_seq=seq, reason="deleted", user=user))

    def send_next(self) -> UserMessage:
        """Send the oldest message of the queue. See ``send``."""
        seq, queued = next(iter(self._history.queue.items()))
        self._session.append(Unqueued(queued_seq=seq, reason="sent"))
        return self.send(queued.text, queued.attachments, queued.user)

    def send(self, text: str, attachments: list[dict[str, Any]], user: str | None) -> UserMessage:
        """Write the ``user_message`` record that begins a turn, and return it.

        Its content also reports what has happened since the previous message.
        """
        content, shown = user_content(
            text,
            attachments,
            [*self._history.kernel_events, *filter(None, [self._runs.notice()])],
            [end.content for end in self._history.run_ends.values()],
            self._history.notebook_events,
        )
        record = self._session.append(
            UserMessage(
                text=text,
                attachments=shown,
                content=content,
                user=user,
                turn=uuid.uuid4().hex,
            ),
            sync=True,
        )
        assert isinstance(record, UserMessage)
        # A session that begins without words is named after the first ones.
        if self._session.title is None and text.strip():
            self._session.append(Title(title=title_of(text)))
        return record
