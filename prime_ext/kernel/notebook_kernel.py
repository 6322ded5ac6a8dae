"""The kernel of one notebook: code run in it, its variables, and when they are lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prime_ext.kernel.connection import KernelConnection, Reason
from prime_ext.kernel.execution import Execution, Interrupt, execute
from prime_ext.kernel.freshness import Moment
from prime_ext.kernel.missed_runs import KEPT_RUNS, Run
from prime_ext.kernel.outputs import Output
from prime_ext.kernel.state import READ_SECONDS, STATE_SECONDS, KernelState

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernels import NotebookKernels


class NotebookKernel:
    """One notebook's kernel, whichever process that is at the moment."""

    def __init__(self, path: str, kernels: NotebookKernels) -> None:
        self.path = path
        self.generation = 0
        """Grows whenever the process that the agent knew is gone, before another takes its place:
        whoever sees it grow knows that the variables are gone too."""
        self._is_lost = False
        self.loss: Reason | None = None
        """Why `generation` grew last; ``None`` if it never did."""
        self.on_state: list[Callable[[str], None]] = []
        """Called with each new `state`."""
        self.on_restarted: list[Callable[[Reason], None]] = []
        """Called when a fresh process is there, with ``"crash"``, ``"user"`` (restarted by a
        person) or ``"new"`` (another kernel than before)."""
        self.saver: object | None = None
        """Which of several sessions saves what people run: the one that was used last."""
        self._kernels = kernels
        self._connection: KernelConnection | None = None
        self._saved = KernelState(self._connect, kernels.store, kernels.log)
        self._heard: deque[tuple[Moment, Run]] = deque(maxlen=KEPT_RUNS)
        self._ensuring = asyncio.Lock()
        self._starting = False
        self._state = "none"

    @property
    def kernel_id(self) -> str | None:
        connection = self._connection
        return connection.kernel_id if connection is not None and not connection.gone else None

    @property
    def state(self) -> Literal["none", "starting", "idle", "busy", "dead"]:
        if self._starting:
            return "starting"
        if self._connection is None or self._connection.gone:
            return "none"
        return self._connection.state  # type: ignore[return-value]

    @property
    def language(self) -> str:
        """Language of the kernel in lower case; empty while it is unknown."""
        return self._connection.language if self._connection is not None else ""

    @property
    def outlives_server(self) -> bool:
        """Whether the kernel, if there is one, goes on when the server ends."""
        return self._connection is not None and self._connection.outlives_server

    @property
    def kernel_name(self) -> str:
        """Name of the kernelspec; empty while there is no kernel."""
        return self._connection.kernel_name if self._connection is not None else ""

    @property
    def runs(self) -> int:
        """Runs of code in the present process that were heard of, the user's included."""
        return self._connection.runs if self._connection is not None else 0

    @property
    def moment(self) -> Moment:
        """Which process is there, and how far it has come."""
        return Moment(self.kernel_id, self.generation, self.runs)

    @property
    def lost_runs(self) -> list[tuple[Moment, Run]]:
        """The last runs in processes that are gone, in order, each with the moment it began."""
        gone = self.kernel_id is None
        return [heard for heard in self._heard if gone or heard[0].generation < self.generation]

    async def find(self) -> str | None:
        """Id of the kernel that the notebook runs in; ``None`` if there is none."""
        model = await self._kernels.session_of(self.path)
        if model is None:
            return None
        self._attach(model["kernel"]["id"])
        return self.kernel_id

    async def follow(self) -> bool:
        """Open channels to the notebook's kernel, if one runs; return whether one does.

        From then on `on_state` and `runs` tell what anyone runs in it.

        Raises
        ------
        PrimeError
            ``kernel_dead`` or ``kernel_no_answer``.
        """
        if await self.find() is None or self._connection is None:
            return False
        await self._connection.channels()
        self._changed()
        return True

    async def ensure(self) -> str:
        """Id of the notebook's kernel, which is started if none runs.

        Raises
        ------
        PrimeError
            ``notebook_not_found``, ``notebook_invalid``, ``kernel_start_failed``,
            ``kernel_dead`` or ``kernel_no_answer``.
        """
        async with self._ensuring:
            model = await self._kernels.session_of(self.path)
            if model is not None:
                connection = self._attach(model["kernel"]["id"])
                await connection.channels()
                return connection.kernel_id
            self._starting = True
            self._changed()
            try:
                connection = await self._kernels.start(self.path)
                return self._attach(connection.kernel_id).kernel_id
            finally:
                self._starting = False
                self._changed()

    async def execute(
        self,
        code: str,
        *,
        store_history: bool,
        on_outputs: Callable[[list[Output]], None] | None = None,
        on_busy: Callable[[], None] | None = None,
        on_count: Callable[[int], None] | None = None,
        on_begun: Callable[[Interrupt], None] | None = None,
        cell_id: str | None = None,
        follow: bool = False,
    ) -> Execution:
        """Run ``code`` and return what it came to. There is no time limit.

        Parameters
        ----------
        store_history:
            True for a cell: a normal execution. False: shown to nobody's history; ``In``,
            ``Out``, ``_`` and the execution count stay as they were (in kernels built on
            ipykernel; elsewhere the kernel's own handling of ``store_history`` holds).
        on_outputs:
            Called with all outputs so far, at most ten times a second.
        on_busy:
            Called once if the run has to wait for its turn.
        on_count:
            Called with the execution count when the code begins.
        on_begun:
            Called when the code begins, with a function that interrupts it. The run is then awaited
            as before, since code may catch an interrupt and go on.
        cell_id:
            Id of the cell, for kernels that want to know.
        follow:
            Go on listening to what comes behind the end (``Execution.late``).

        Cancelling the task gives the run up: it withdraws the code from the queue, or interrupts
        the kernel if it is this code that runs, and waits no longer than seconds for that to take
        effect; ``on_outputs`` is then called with what came of it. A kernel that dies ends the run
        with status ``"died"``.
        """
        await self.ensure()
        assert self._connection is not None
        return await execute(
            self._connection,
            code,
            store_history=store_history,
            on_outputs=on_outputs,
            on_busy=on_busy,
            on_count=on_count,
            on_begun=on_begun,
            cell_id=cell_id,
            follow=follow,
        )

    async def interrupt(self) -> None:
        """Interrupt whatever the kernel runs."""
        if await self.find() is not None and self._connection is not None:
            await self._connection.interrupt()

    async def ask(
        self, op: str, params: dict[str, Any], *, timeout: float = READ_SECONDS
    ) -> dict[str, Any]:
        """Have the kernel process do one of our operations, without a trace.

        It answers while a cell runs. Raises `PrimeError`, ``kernel_language`` where the kernel
        is not a Python one.
        """
        await self.ensure()
        assert self._connection is not None
        return await self._connection.private.ask(op, params, timeout=timeout)

    async def save_state(
        self,
        folder: Path,
        key: bytes,
        *,
        options: dict[str, Any],
        generation: int | None = None,
        wait: float = STATE_SECONDS,
        on_lost: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Save the namespace into ``folder``; returns ``prime_ext.state``'s report as a dict.

        Parameters
        ----------
        key:
            Signs the snapshot: the session's own, never the server's.
        options:
            Keyword arguments of ``prime_ext.state.begin``.
        generation:
            Only if `generation` is still this when the kernel gets to it.
        wait:
            Seconds to wait until the capture is durable. It becomes so by itself; a report from
            before that has no ``generation``.
        on_lost:
            Called if it then does not become durable after all.

        Raises
        ------
        PrimeError
            ``kernel_busy`` at once if a cell runs, ``kernel_replaced``, ``snapshot_busy``,
            ``snapshot_write_error``, and what `ask` raises.
        """
        return await self._saved.save(
            folder,
            key,
            options=options,
            still=lambda: generation in (None, self.generation),
            wait=wait,
            on_lost=on_lost,
        )

    async def load_state(
        self, folder: Path, key: bytes, *, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Restore the namespace from ``folder``; returns ``prime_ext.state``'s report.

        ``options`` are keyword arguments of ``prime_ext.state.load``. Waits for a running cell.
        Raises `PrimeError`: ``snapshot_missing``, ``snapshot_refused``, ``snapshot_corrupt``,
        ``store_unavailable``, ``restore_interrupted``, ``withdrawn`` (see `stop_loading`), and what
        `ask` raises.
        """
        return await self._saved.load(folder, key, options=options)

    async def stop_loading(self) -> None:
        """Give up a `load_state` that goes on, which then raises ``restore_interrupted``.

        Code that ignores the interrupt is waited for, as long as its own limit allows.
        """
        if self._connection is not None:
            await self._connection.private.give_up("state_load")

    async def state_current(self, folder: Path, key: bytes) -> bool:
        """Whether the snapshot in ``folder`` is what saving would give now."""
        return await self._saved.is_current(folder, key)

    async def _connect(self) -> KernelConnection:
        await self.ensure()
        assert self._connection is not None
        return self._connection

    async def variables(self) -> list[dict[str, Any]]:
        """The user's variables, oldest first: ``{name, type, kind, repr, shape?, size?}``.

        ``kind`` is ``data``, ``function``, ``class`` or ``module``; ``size`` is in bytes, without
        what the value refers to. Nothing is computed and no attribute of a user's class is read.
        """
        variables: list[dict[str, Any]] = (await self.list_variables())["variables"]
        return variables

    async def list_variables(self) -> dict[str, Any]:
        """``{variables, omitted}``: as `variables`, and how many older ones are left out."""
        return await self.ask("variables", {})

    async def inspect(self, name: str, expression: str | None = None) -> dict[str, Any]:
        """One variable in full: ``{name, expression?, type, text, image?}``.

        ``image`` is ``{media_type, data}`` (base64) for figures and pictures; it is left out
        while a cell runs, since drawing would share the figure with it.

        Raises
        ------
        PrimeError
            ``variable_not_found``, ``expression_refused`` (it does more than look),
            ``expression_failed``, ``too_slow``, and what `ask` raises.
        """
        await self.ensure()
        return await self.ask(
            "inspect",
            {"name": name, "expression": expression, "image": self.state == "idle"},
        )

    async def _sources(self) -> list[str]:
        return await self._kernels.sources(self.path)

    def _attach(self, kernel_id: str) -> KernelConnection:
        current = self._connection
        if current is not None and current.kernel_id == kernel_id and not current.gone:
            return current
        connection = self._kernels.connection(kernel_id)
        connection.on_state.append(self._changed)
        connection.on_lost.append(self._lost)
        connection.on_renewed.append(self._renewed)
        connection.on_run.append(self._hear)
        connection.private.sources = self._sources
        self._connection = connection
        if current is not None:
            with contextlib.suppress(ValueError):
                current.on_state.remove(self._changed)
                current.on_lost.remove(self._lost)
                current.on_renewed.remove(self._renewed)
                current.on_run.remove(self._hear)
            self._lost("new")
            self._renewed("new")
        return connection

    def _lost(self, reason: Reason) -> None:
        # A kernel that is shut down may be missed before the server says that it is gone, and once
        # more when another takes its place: it is one loss all the same.
        if not self._is_lost:
            self._is_lost = True
            self.generation += 1
        self.loss = reason

    def _renewed(self, reason: Reason) -> None:
        self._is_lost = False
        for callback in list(self.on_restarted):
            callback(reason)

    def _hear(self, run: Run) -> None:
        self._heard.append((self.moment, run))

    def _changed(self) -> None:
        state = self.state
        if state != self._state:
            self._state = state
            for callback in list(self.on_state):
                callback(state)
