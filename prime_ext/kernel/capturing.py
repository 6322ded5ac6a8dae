"""One capture of a kernel's variables: the request to the kernel, and the resulting record."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prime_ext.session.records import Snapshot

if TYPE_CHECKING:
    from prime_ext.config import SnapshotConfig
    from prime_ext.kernel.newest import Newest
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.snapshot_files import SnapshotFiles
    from prime_ext.state import Manifest


class Capturing:
    """One capture, within the configured limits."""

    def __init__(
        self, kernel: NotebookKernel, files: SnapshotFiles, config: SnapshotConfig
    ) -> None:
        self._kernel = kernel
        self._files = files
        self._config = config

    async def run(
        self, *, process: int, after: Newest, wait: float, on_lost: Callable[[], None]
    ) -> dict[str, Any]:
        """Capture the variables and return the report of the snapshot library.

        The report has no generation if the snapshot is not durable within ``wait`` seconds;
        ``on_lost`` is called if it fails to become durable later. The snapshot gets a higher
        generation number than ``after``. Raises ``kernel_replaced`` if ``process`` is no longer
        `NotebookKernel.generation`.
        """
        return await self._kernel.save_state(
            self._files.folder,
            self._files.key,
            options={
                "seconds_per_variable": self._config.seconds_per_variable,
                "seconds_total": self._config.seconds_total,
                "max_bytes": await self._limit(),
                "fork": self._config.fork,
                "kernelspec": self._kernel.kernel_name,
                "after_generation": after.generation,
            },
            generation=process,
            wait=wait,
            on_lost=on_lost,
        )

    def record(
        self, report: dict[str, Any], trigger: str, kernel_id: str, manifest: Manifest | None
    ) -> Snapshot:
        """Build the session's record; ``manifest`` is ``None`` until the snapshot is durable."""
        names = told_names(report["names"])
        return Snapshot(
            outcome="unchanged" if report["unchanged"] else "ok",
            trigger=trigger,
            snapshot_id=id_of(manifest),
            generation=manifest.generation if manifest is not None else 0,
            kernel_id=kernel_id,
            names=names,
            bytes=report["bytes"],
            pause_ms=round(report["pause_ms"]),
            reason="; ".join([*report["notes"], *self._too_large(names)]) or None,
        )

    async def _limit(self) -> int:
        """Size limit of the snapshot in bytes. Beyond it, the largest values are left out first."""
        if self._config.max_bytes:
            return self._config.max_bytes
        return (await asyncio.to_thread(shutil.disk_usage, self._files.folder)).free // 2

    def _too_large(self, names: dict[str, dict[str, Any]]) -> list[str]:
        left_out = [n for n, e in names.items() if "exceed its limit" in e.get("reason", "")]
        if not left_out:
            return []
        limit = "SnapshotConfig.max_bytes" if self._config.max_bytes else "half of the free disk"
        return [f"left out to keep within {limit}: {', '.join(sorted(left_out))}"]


def id_of(manifest: Manifest | None) -> str | None:
    """Return the id of a snapshot, or ``None`` without one."""
    return manifest.id if manifest is not None else None


def told_names(entries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the entries of ``entries`` without empty fields."""
    return {
        name: {field: value for field, value in entry.items() if value not in (None, "", 0, False)}
        for name, entry in entries.items()
    }
