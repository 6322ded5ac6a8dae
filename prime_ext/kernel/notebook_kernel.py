"""The kernel of one notebook: running code, its variables, and notice of their loss."""

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
    """One notebook's kernel, independent of the process behind it."""

    def __init__(self, path: str, kernels: NotebookKernels) -> None:
        self.path = path
        self.generation = 0
        """Number of times that the kernel's process, and so its variables, were lost.

        It grows as soon as a loss is noticed, before another process takes the place of the lost
        one.
        """
        self._is_lost = False
        self.loss: Reason | None = None
        """Reason of the last loss; ``None`` if there was none."""
        self.on_state: list[Callable[[str], None]] = []
        """Called with each new `state`."""
        self.on_restarted: list[Callable[[Reason], None]] = []
        """Called when a new process is ready, with the reason: ``"crash"``, ``"user"`` (restarted
        by a person) or ``"new"`` (the notebook has another kernel)."""
        self.saver: object | None = None
        """Of several sessions about this notebook, the last one used: it saves what people run."""
        self._kernels = kernels
        self._connection: KernelConnection | None = None
        self._saved = KernelState(self._connect, kernels.store, kernels.log)
        self._heard: deque[tuple[Moment, Run]] = deque(maxlen=KEPT_RUNS)
        self._ensuring = asyncio.Lock()
        self._starting = False
        self._state = "none"

    @property
    def kernel_id(self) -> str | None:
        """Id of the kernel; ``None`` if none runs or it is not known yet."""
        connection = self._connection
        return connection.kernel_id if connection is not None and not connection.gone else None

    @property
    def state(self) -> Literal["none", "starting", "idle", "busy", "dead"]:
        """State of the kernel as far as it is known; ``none`` if there is none."""
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
        """Whether the kernel, if there is one, survives the end of the server."""
        return self._connection is not None and self._connection.outlives_server

    @property
    def kernel_name(self) -> str:
        """Name of the kernelspec; empty while there is no kernel."""
        return self._connection.kernel_name if self._connection is not None else ""

    @property
    def runs(self) -> int:
        """Number of runs observed on the present connection, including the user's."""
        return self._connection.runs if self._connection is not None else 0

    @property
    def moment(self) -> Moment:
        """The present process and the number of runs in it."""
        return Moment(self.kernel_id, self.generation, self.runs)

    @property
    def lost_runs(self) -> list[tuple[Moment, Run]]:
        """The last runs in lost processes, oldest first, each with the moment at which it began."""
        gone = self.kernel_id is None
        return [heard for heard in self._heard if gone or heard[0].generation < self.generation]

    async def find(self) -> str | None:
        """Return the id of the notebook's running kernel; ``None`` if there is none."""
        model = await self._kernels.session_of(self.path)
        if model is None:
            return None
        self._attach(model["kernel"]["id"])
        return self.kernel_id

    async def follow(self) -> bool:
        """Connect to the notebook's kernel, if one runs; return whether one does.

        From then on `on_state` and `runs` reflect the code of all clients.

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
        """Return the id of the notebook's kernel; start one if none runs.

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
        """Run ``code`` and return the result. There is no time limit.

        Parameters
        ----------
        store_history:
            True for a cell: a normal execution. False: the code enters no history, and ``In``,
            ``Out``, ``_`` and the execution count stay as they were. That holds for kernels built
            on ipykernel; others handle ``store_history`` in their own way.
        on_outputs:
            Called with all outputs so far, at most ten times a second.
        on_busy:
            Called once if the run has to wait in the queue.
        on_count:
            Called with the execution count when the code begins.
        on_begun:
            Called when the code begins, with a function that interrupts it. An interrupt does not
            end the wait for the run, since code may catch it and go on.
        cell_id:
            Id of the cell, sent in the metadata of the request.
        follow:
            Continue to listen for outputs after the end of the run (``Execution.late``).

        Cancelling the task withdraws the code from the queue or, if it is running, interrupts it
        and waits a few seconds for the interrupt to take effect; ``on_outputs`` then receives the
        last outputs. If the kernel dies, the run ends with the status ``"died"``.
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

    async def metadata(self) -> dict[str, Any]:
        """Return the kernel's ``kernelspec`` and ``language_info`` for a notebook's metadata.

        Empty if no kernel has answered yet, or one that does not name its language.
        """
        connection = self._connection
        if connection is None or not connection.language_info.get("name"):
            return {}
        return {
            "kernelspec": await self._kernels.kernelspec(connection.kernel_name),
            "language_info": connection.language_info,
        }

    async def interrupt(self) -> None:
        """Interrupt the kernel, no matter whose code it runs."""
        if await self.find() is not None and self._connection is not None:
            await self._connection.interrupt()

    async def ask(
        self, op: str, params: dict[str, Any], *, timeout: float = READ_SECONDS
    ) -> dict[str, Any]:
        """Have the kernel process perform one of our operations; see `PrivateMessages.ask`.

        The kernel answers even while a cell runs, and no other client sees the request. Raises
        `PrimeError` with ``kernel_language`` if the kernel is not built on ipykernel.
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
        """Save the namespace into ``folder``; return the report of ``prime_ext.state`` as a dict.

        Parameters
        ----------
        key:
            Key that signs the snapshot: the session's own, never the server's secret.
        options:
            Keyword arguments of ``prime_ext.state.begin``.
        generation:
            Save only if `generation` still has this value when the request is sent.
        wait:
            Seconds to wait until the snapshot is durable. Writing continues in the background; a
            report returned before its end has no ``generation``.
        on_lost:
            Called if the snapshot then fails to become durable.

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
        """Restore the namespace from ``folder``; return the report of ``prime_ext.state``.

        ``options`` are keyword arguments of ``prime_ext.state.load``. Waits for a running cell.
        Raises `PrimeError`: ``snapshot_missing``, ``snapshot_refused``, ``snapshot_corrupt``,
        ``store_unavailable``, ``restore_interrupted``, ``withdrawn`` (see `stop_loading`), and what
        `ask` raises.
        """
        return await self._saved.load(folder, key, options=options)

    async def stop_loading(self) -> None:
        """Interrupt a `load_state` in progress, which then raises ``restore_interrupted``.

        One that still waits behind a cell raises ``withdrawn``. Code that ignores the interrupt is
        waited for until `load_state` itself times out.
        """
        if self._connection is not None:
            await self._connection.private.give_up("state_load")

    async def state_current(self, folder: Path, key: bytes) -> bool:
        """Whether saving now would give the same snapshot as the one in ``folder``."""
        return await self._saved.is_current(folder, key)

    async def _connect(self) -> KernelConnection:
        await self.ensure()
        assert self._connection is not None
        return self._connection

    async def variables(self) -> list[dict[str, Any]]:
        """Return the user's variables, oldest first: ``{name, type, kind, repr, shape?, size?}``.

        ``kind`` is ``data``, ``function``, ``class`` or ``module``; ``size`` is in bytes, without
        the objects that the value refers to. Nothing is computed, and no attribute of a class that
        the user has written is read.
        """
        variables: list[dict[str, Any]] = (await self.list_variables())["variables"]
        return variables

    async def list_variables(self) -> dict[str, Any]:
        """Return ``{variables, omitted}``: `variables`, and the number of older ones left out."""
        return await self.ask("variables", {})

    async def inspect(self, name: str, expression: str | None = None) -> dict[str, Any]:
        """Describe one variable in full: ``{name, expression?, type, text, image?}``.

        ``image`` is ``{media_type, data}`` (base64) for figures and pictures. It is left out while
        a cell runs, which may be using the figure.

        Raises
        ------
        PrimeError
            ``variable_not_found``, ``expression_refused`` (it might have side effects),
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
        # One loss may be reported twice: when the process of a kernel that is shut down disappears,
        # and when another kernel takes its place.
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
