"""The server extension: configuration, wiring, start and stop."""

from __future__ import annotations

import asyncio
import difflib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir
from jupyter_core.utils import ensure_async
from jupyter_server.extension.application import ExtensionApp
from traitlets import TraitError, Unicode, default

from prime_ext.completed import all_completed
from prime_ext.config import ContextConfig, ModelConfig, PermissionConfig, SnapshotConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_server.serverapp import ServerApp

    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.kernel.snapshot_files import SnapshotFiles
    from prime_ext.session.records import AnyRecord
    from prime_ext.session.session import Session
    from prime_ext.session.stream import Activity

_WRITE_SECONDS = 10.0
"""Longest wait for what is being written while the server stops."""


class PrimeExtension(ExtensionApp):
    """Server extension that runs the agent working in the open notebook.

    The components are created when the server starts and closed when it stops. Modules that are
    slow to import are imported on first use.
    """

    name = "prime"
    # `jupyter server`, with only its own extensions, has no notebooks to work on.
    load_other_extensions = True
    classes = [ModelConfig, ContextConfig, SnapshotConfig, PermissionConfig]  # noqa: RUF012

    data_dir = Unicode(
        help="Folder of the sessions and of what the server keeps for them; only its owner can "
        "read it. Default: `prime` in Jupyter's data directory.",
    ).tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(Path(jupyter_data_dir()) / "prime")

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        # Created here because the server also calls `stop_extension` if starting failed.
        self._closing = AsyncExitStack()

    def initialize_settings(self) -> None:
        """Create the components and publish those that the handlers need in `settings`."""
        from prime_ext.agent.consent import ConsentStore
        from prime_ext.agent.service import AgentService
        from prime_ext.agent.services import AgentServices
        from prime_ext.agent.snapshot_limit import SnapshotLimit
        from prime_ext.agent.snapshot_switch import SnapshotSwitch
        from prime_ext.agent.tools.registry import ToolRegistry
        from prime_ext.events.emitter import register_schemas
        from prime_ext.kernel.notebook_kernels import NotebookKernels
        from prime_ext.kernel.server_kernels import (
            before_shutdown,
            follow_starts,
            prepare_shutdown,
        )
        from prime_ext.kernel.server_sessions import one_session_for_a_document
        from prime_ext.models.credentials import CredentialStore
        from prime_ext.models.log_redaction import LogRedaction
        from prime_ext.models.registry import ModelRegistry
        from prime_ext.notebook.documents import NotebookDocuments
        from prime_ext.notebook.lease import LeaseHub
        from prime_ext.notebook.notebook_locks import NotebookLocks
        from prime_ext.notebook.renames import follow_renames
        from prime_ext.notebook.writer_shared import shared_documents
        from prime_ext.session.store import SessionStore

        server = self._server
        self._warn_of_unknown_config()
        # Callbacks run in reverse order, so this one runs last, just before the server shuts its
        # kernels down.
        self._closing.push_async_callback(prepare_shutdown, server.kernel_manager)
        data_dir = Path(self.data_dir).expanduser()
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise TraitError(
                f"PrimeExtension.data_dir cannot be used: {error}. Give a folder that the server "
                "may write in."
            ) from error
        model_config = ModelConfig(parent=self)
        credentials = CredentialStore(model_config, data_dir / "credentials.json")
        redaction = LogRedaction(credentials.redact)
        server.log.addFilter(redaction)
        self._closing.callback(server.log.removeFilter, redaction)
        store = SessionStore(data_dir / "sessions", self.log)
        self._closing.push_async_callback(asyncio.to_thread, store.close)
        self._closing.callback(store.end_subscriptions)
        models = ModelRegistry(model_config, credentials, self.log)
        self._closing.push_async_callback(models.close)
        leases = LeaseHub(log=self.log)
        self._snapshots = SnapshotConfig(parent=self)
        kernels = NotebookKernels(
            server.session_manager, server.kernel_manager, self.log, self._snapshots.store
        )
        self._closing.push_async_callback(kernels.close)
        self._switch = SnapshotSwitch(data_dir / "snapshots.json")
        self._limit = SnapshotLimit(
            store,
            lambda session_id: self._snapshot_files(store.folder / session_id),
            self._snapshots.total_bytes,
            self.log,
        )
        documents = NotebookDocuments(
            leases, server.contents_manager, self.log, shared_documents(server)
        )
        self._closing.push_async_callback(documents.close)
        # Outputs of a run that was stopped, for example, may still be on their way to the file.
        self._closing.push_async_callback(all_completed, _WRITE_SECONDS)
        # Not in `data_dir`: a server or a run that keeps its sessions elsewhere takes the same.
        locks = NotebookLocks(
            Path(jupyter_data_dir()) / "prime" / "notebooks",
            lambda: server.connection_url,
            self.log,
        )
        service = AgentService(
            AgentServices(
                models=models,
                tools=ToolRegistry.default(),
                store=store,
                kernels=kernels,
                documents=documents,
                locks=locks,
                keeper=self._keeper,
                snapshot_files=self._snapshot_files,
                consents=ConsentStore(data_dir / "consent.json"),
                model_config=model_config,
                context_config=ContextConfig(parent=self),
                permission_config=PermissionConfig(parent=self),
                snapshot_config=self._snapshots,
                snapshot_switch=self._switch,
                snapshot_limit=self._limit,
                root=Path(server.root_dir),
                redact=credentials.redact,
                kernel_name=self._kernel_name,
                notebook_content=self._notebook_content,
                notebook_is_gone=self._notebook_is_gone,
                on_compaction=self._emit_compaction,
                on_activity=self._emit_activity,
                log=self.log,
            )
        )
        self._closing.push_async_callback(service.close)
        # A listener for all events only receives those whose schemas were registered before it
        # was added.
        if server.event_logger is not None:
            register_schemas(server.event_logger)
        self._closing.callback(follow_renames(server.event_logger, service.renamed))
        self._closing.callback(follow_starts(server.event_logger, kernels.started))
        ending: set[str] = set()
        self._closing.callback(
            before_shutdown(server.kernel_manager, service.before_shutdown, ending)
        )
        self._closing.callback(one_session_for_a_document(server.session_manager, ending))
        self.settings.update(
            prime_agent=service,
            prime_sessions=store,
            prime_leases=leases,
            prime_locks=locks,
        )

    def initialize_handlers(self) -> None:
        """Register the REST and WebSocket handlers."""
        from prime_ext.handlers import handlers

        self.handlers.extend(handlers())

    async def stop_extension(self) -> None:
        """Stop the agents and close all components; sessions can be resumed after a restart."""
        await self._closing.aclose()

    @property
    def _server(self) -> ServerApp:
        if self.serverapp is None:
            raise RuntimeError("The extension is used before its server is there.")
        return self.serverapp

    def _keeper(
        self, session: Session, kernel: NotebookKernel, awaits_restore: Callable[[], bool]
    ) -> SnapshotKeeper:
        from prime_ext.kernel.newest import newest_recorded
        from prime_ext.kernel.snapshot import SnapshotKeeper
        from prime_ext.kernel.unrestored import recorded_as_lacking

        return SnapshotKeeper(
            self._snapshot_files(session.folder),
            kernel,
            self._snapshots,
            self.log,
            off=lambda: self._switch.reason(session.notebook),
            awaits_restore=awaits_restore,
            on_saved=lambda written: self._limit.look() if written else None,
            newest=newest_recorded(session.log),
            lacks=lambda: recorded_as_lacking(session.log),
        )

    def _snapshot_files(self, folder: Path) -> SnapshotFiles:
        from prime_ext.kernel.snapshot_files import SnapshotFiles, derive_key

        secret = self._server.contents_manager.notary.secret
        return SnapshotFiles(folder, derive_key(secret, folder.name))

    async def _kernel_name(self, notebook: str) -> str:
        from prime_ext.kernel.kernelspec import kernelspec_of

        kernelspec = kernelspec_of(await self._notebook_content(notebook))
        return str(kernelspec.get("display_name") or kernelspec.get("name") or "the default kernel")

    async def _notebook_is_gone(self, notebook: str) -> bool:
        contents: Any = self._server.contents_manager
        try:
            return not await ensure_async(contents.file_exists(notebook))
        except Exception:  # The contents manager may be third-party and its storage unreachable.
            self.log.warning("It is not known whether %s is there", notebook, exc_info=True)
            return False

    async def _notebook_content(self, notebook: str) -> dict[str, Any]:
        from prime_ext.notebook_file import read_notebook

        return await read_notebook(self._server.contents_manager, notebook, self.log)

    def _emit_compaction(self, session: Session, record: AnyRecord) -> None:
        from prime_ext.events.emitter import emit_compaction

        logger = self._server.event_logger
        if logger is not None:
            emit_compaction(logger, session.id, record)

    def _emit_activity(self, session: Session, activity: Activity) -> None:
        from prime_ext.events.emitter import emit_session_activity

        logger = self._server.event_logger
        if logger is not None:
            emit_session_activity(logger, session, activity)

    def _warn_of_unknown_config(self) -> None:
        """Warn about misspelt class names, which traitlets ignores without a message."""
        known = {cls.__name__ for cls in (*self.classes, type(self))}
        for name in self.config:
            close = difflib.get_close_matches(name, known - {name}, n=1, cutoff=0.85)
            if close and name not in known and name not in _classes_of(self._server):
                self.log.warning(
                    "Configuration of %s is ignored: no such class; was %s meant?", name, close[0]
                )


def _classes_of(app: Any) -> set[str]:
    return {cls.__name__ for cls in app.classes}
