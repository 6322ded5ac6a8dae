"""Services that all agents of the server share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from prime_ext.agent.consent import ConsentStore
    from prime_ext.agent.snapshot_limit import SnapshotLimit
    from prime_ext.agent.snapshot_switch import SnapshotSwitch
    from prime_ext.agent.tools.registry import ToolRegistry
    from prime_ext.config import ContextConfig, ModelConfig, PermissionConfig, SnapshotConfig
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.notebook_kernels import NotebookKernels
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.kernel.snapshot_files import SnapshotFiles
    from prime_ext.models.registry import ModelRegistry
    from prime_ext.notebook.documents import NotebookDocuments
    from prime_ext.notebook.notebook_locks import NotebookLocks
    from prime_ext.redaction import Redaction
    from prime_ext.session.records import AnyRecord
    from prime_ext.session.session import Session
    from prime_ext.session.store import SessionStore
    from prime_ext.session.stream import Activity


class KernelTurns:
    """Locks that let only one turn at a time work in a notebook's kernel."""

    def __init__(self) -> None:
        # Keyed by kernel, not by path: the notebook may be renamed during a turn.
        self._locks: WeakKeyDictionary[NotebookKernel, asyncio.Lock] = WeakKeyDictionary()

    @asynccontextmanager
    async def one(self, kernel: NotebookKernel, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        """Hold the kernel's lock, after waiting for the turns of other sessions to end.

        Parameters
        ----------
        on_wait:
            Called once if the lock is held by another turn.
        """
        lock = self._locks.setdefault(kernel, asyncio.Lock())
        if lock.locked():
            on_wait()
        async with lock:
            yield


@dataclass(frozen=True)
class AgentServices:
    """The services from which agents are built; one instance for the whole server."""

    models: ModelRegistry
    tools: ToolRegistry
    store: SessionStore
    kernels: NotebookKernels
    documents: NotebookDocuments
    locks: NotebookLocks
    keeper: Callable[[Session, NotebookKernel, Callable[[], bool]], SnapshotKeeper]
    """Creates the snapshot keeper of a session's kernel.

    The last argument is passed to the keeper as ``awaits_restore``.
    """
    snapshot_files: Callable[[Path], SnapshotFiles]
    """Returns the snapshots in the folder of a session."""
    consents: ConsentStore
    model_config: ModelConfig
    context_config: ContextConfig
    permission_config: PermissionConfig
    snapshot_config: SnapshotConfig
    snapshot_switch: SnapshotSwitch
    snapshot_limit: SnapshotLimit
    root: Path
    redact: Redaction
    """Removes the keys that the server knows."""
    kernel_name: Callable[[str], Awaitable[str]]
    """Returns the display name of the kernel for the notebook at a path."""
    notebook_content: Callable[[str], Awaitable[dict[str, Any]]]
    """Returns the content of the notebook at a path, as nbformat 4."""
    notebook_is_gone: Callable[[str], Awaitable[bool]]
    """Returns whether the notebook at a path is known to be missing, without reading it."""
    on_compaction: Callable[[Session, AnyRecord], None]
    on_activity: Callable[[Session, Activity], None]
    """Called with the new activity of a session whenever it changes."""
    log: logging.Logger
    turns: KernelTurns = field(default_factory=KernelTurns)
