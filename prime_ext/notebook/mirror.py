"""Shows a running cell's outputs in the open notebook, even if its writer changes meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from prime_ext.closing import cancelled
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import CellNotFound, CellNotInPage
from prime_ext.notebook.lease import LeaseHub, LeaseLost
from prime_ext.notebook.operations import Applied
from prime_ext.notebook.writer_browser import BrowserWriter

INTERVAL_S = 0.2
"""Shortest time between two updates of a cell's outputs."""
SHARE = 4.0
"""After an update that took the browser t seconds, the mirror pauses for SHARE * t seconds, …"""
LONGEST_S = 5.0
"""… but for at most this time. A page that has just taken over is sent everything at once."""
ATTEMPTS = 8
"""Maximum number of attempts to send the end of a run while pages keep taking over."""


class RunMirror:
    """Keeps one cell of an open notebook in sync with its run.

    The outputs are kept on the server. A browser that disconnects misses nothing: one that
    reconnects, or opens the notebook in the middle of the run, is sent all outputs.

    Parameters
    ----------
    path:
        Returns the current path of the notebook, which may change during the run.
    """

    def __init__(
        self,
        hub: LeaseHub,
        browser: BrowserWriter,
        path: Callable[[], str],
        cell_id: str,
        log: logging.Logger | logging.LoggerAdapter[Any],
    ) -> None:
        self._hub = hub
        self._browser = browser
        self._path = path
        self._cell_id = cell_id
        self._log = log
        self._run_id = uuid.uuid4().hex
        self._outputs: list[dict[str, Any]] = []
        self._shown: list[dict[str, Any]] | None = None
        """Outputs of the run that the page shows; ``None`` while it still shows the old outputs."""
        self._sending = asyncio.Lock()
        self._epoch: int | None = None
        """Epoch of the lease in which the holder was told of the run."""
        self._has_begun = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return self._outputs

    @property
    def has_begun(self) -> bool:
        """Whether the cell shows the run. Until then it keeps its old outputs."""
        return self._has_begun

    def begin(self) -> None:
        """Replace the cell's old outputs, because the kernel has started the run."""
        self._has_begun = True
        self._news.set()

    def update(self, outputs: list[dict[str, Any]]) -> None:
        """Set all outputs so far: a new list each time, whose items are never modified."""
        self._outputs = outputs
        self._news.set()

    async def start(self, expected_hash: str | None) -> Applied:
        """Claim the cell for this run and show it as running.

        Raises ``LeaseLost``, ``CellNotFound`` or ``CellConflict``; then nothing has changed.
        """
        epoch = self._hub.epoch(self._path())
        applied = await self._browser.apply(
            self._path(),
            {
                "op": "run_start",
                "cell_id": self._cell_id,
                "run_id": self._run_id,
                "expected_hash": expected_hash,
            },
        )
        self._epoch = epoch
        return applied

    def follow(self) -> None:
        """Send outputs as they arrive, from now until ``finish``."""
        self._hub.on_granted.add(self._on_granted)
        self._task = asyncio.create_task(self._follow())

    async def finish(self, execution_count: int | None, status: str) -> bool:
        """Send the remaining outputs and the end of the run; ``False`` if no browser is attached.

        Raises ``PrimeError`` if the cell is gone or no browser accepts the outputs.
        """
        await self._stop()
        for _ in range(ATTEMPTS):
            if not await self._hub.attached(self._path()):
                return False
            try:
                await self._show()
                await self._browser.apply(
                    self._path(),
                    {
                        "op": "run_end",
                        "cell_id": self._cell_id,
                        "run_id": self._run_id,
                        "execution_count": execution_count,
                        "status": status,
                    },
                )
            except LeaseLost:
                continue
            except PrimeError as error:
                if error.code != "run_unknown":
                    raise
                self._epoch = None
            else:
                return True
        raise PrimeError(
            "The browser does not take the outputs of the run.", code="run_not_shown", status=502
        )

    async def _stop(self) -> None:
        self._hub.on_granted.discard(self._on_granted)
        if self._task is None:
            return
        # Wait for the update in flight. If it were sent again, the outputs would be rendered again
        # and their scripts would run twice.
        async with self._sending:
            await cancelled([self._task])
            self._task = None

    def _on_granted(self, path: str) -> None:
        if path == self._path():
            self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if not self._hub.held(self._path()):
                continue
            began = time.monotonic()
            is_clearing = self._shown is None and not self._outputs
            try:
                async with self._sending:
                    await self._show()
            except LeaseLost:
                continue
            except CellNotInPage:
                pass  # The page may still be brought up to date with the file.
            except CellNotFound:
                # The cell was deleted. `finish` reports that, unless the cell is back by then.
                return
            except PrimeError as error:
                # A failing client must not break the run; `finish` tries again.
                self._log.warning("%s: outputs were not shown: %s", self._path(), error)
            if is_clearing:
                continue  # so that the first output is shown at once
            rest = INTERVAL_S
            if self._hub.epoch(self._path()) == self._epoch:
                rest = max(rest, min(SHARE * (time.monotonic() - began), LONGEST_S))
            await asyncio.sleep(rest)

    async def _show(self) -> None:
        """Send the outputs that the page does not show yet."""
        if self._hub.epoch(self._path()) != self._epoch:
            self._shown = None
            await self.start(None)
        if not self._has_begun:
            return
        outputs = self._outputs
        same = 0
        for shown, output in zip(self._shown or [], outputs, strict=False):
            if shown != output:
                break
            same += 1
        if self._shown is not None and same == len(outputs) == len(self._shown):
            return
        try:
            await self._browser.apply(
                self._path(),
                {
                    "op": "run_outputs",
                    "cell_id": self._cell_id,
                    "run_id": self._run_id,
                    "from": same,
                    "outputs": outputs[same:],
                },
            )
        except PrimeError as error:
            if error.code != "run_unknown":
                raise
            # Another page has taken over and must be told of the run first.
            self._epoch = None
            self._news.set()
        else:
            self._shown = outputs
