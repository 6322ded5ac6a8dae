"""A browser client for the lease, without a browser: it holds a notebook and applies operations."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import CellConflict, CellNotFound, source_hash
from prime_ext.notebook.lease import LeaseClient, LeaseHub
from prime_ext.notebook.operations import apply_operation, superseded


class FakeBrowser:
    """One page with one open notebook.

    ``answers`` switched off, it takes frames and stays silent, as a frozen tab does.
    """

    def __init__(self, hub: LeaseHub, path: str, notebook: dict[str, Any], key: str = "page-1"):
        self.hub = hub
        self.path = path
        self.notebook = copy.deepcopy(notebook)
        self.key = key
        self.version: str | None = None
        """Version of the file that the page says that it shows."""
        self.behind = False
        """Whether the page lacks changes of the file that it could not merge."""
        self.held = False
        self.answers = True
        self.applied: dict[str, dict[str, Any]] = {}
        """Acks by operation id: applied once, acknowledged as often as asked."""
        self.received: list[dict[str, Any]] = []
        self.saved: list[dict[str, Any]] = []
        self.runs: dict[str, str] = {}
        """Cell → run that it shows."""
        self.begun: set[str] = set()
        """Cells whose run has begun."""
        self.client: LeaseClient | None = None
        self._news = asyncio.Event()
        # What a test replaces to have the page do something else.
        self.apply: Callable[[dict[str, Any]], dict[str, Any]] = self._apply
        self.answer: Callable[[LeaseClient | None, dict[str, Any]], None] = self._answer

    def connect(self, *, claim: bool = True) -> FakeBrowser:
        self.client = self.hub.connect(self._receive)
        if claim:
            self.claim()
        return self

    def claim(self, path: str | None = None) -> None:
        self._say("claim", path or self.path)

    def release(self) -> None:
        self._say("release", self.path)

    def shows(self, action: str, version: str | None) -> None:
        """The page has ``saved`` or ``loaded`` a version of the file."""
        self.version = version
        self._say(action, self.path)

    def drop(self) -> None:
        """The connection breaks."""
        assert self.client is not None
        client, self.client, self.held = self.client, None, False
        client.disconnect()

    def cell(self, cell_id: str) -> dict[str, Any]:
        return next(cell for cell in self.notebook["cells"] if cell["id"] == cell_id)

    def ops(self, *kinds: str) -> list[dict[str, Any]]:
        return [f["op"] for f in self.received if f["type"] == "op" and f["op"]["op"] in kinds]

    async def until(self, condition: Any) -> None:
        """Wait until ``condition()`` holds, looking again after each frame."""
        while not condition():
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 10)

    def _say(self, action: str, path: str) -> None:
        assert self.client is not None
        self.client.receive(
            {
                "type": "lease",
                "action": action,
                "notebook": path,
                "client": self.key,
                "version": self.version,
            }
        )

    def _receive(self, frame: dict[str, Any]) -> None:
        self.received.append(copy.deepcopy(frame))
        self._news.set()
        if frame["type"] == "lease":
            self.held = frame["held"]
        elif frame["type"] == "op" and self.answers:
            # As over a socket: the answer comes later, never inside the call that asked.
            asyncio.get_running_loop().call_soon(self.answer, self.client, frame)

    def _answer(self, client: LeaseClient | None, frame: dict[str, Any]) -> None:
        op_id = frame["op_id"]
        if client is None or client is not self.client:
            return
        if op_id not in self.applied:
            self.applied[op_id] = self.ack(op_id, frame["op"])
        client.receive(self.applied[op_id])
        self._news.set()

    def ack(self, op_id: str, op: dict[str, Any]) -> dict[str, Any]:
        try:
            result = self.apply(op)
        except CellConflict as error:
            return self._error(op_id, error, source=error.current)
        except CellNotFound as error:
            behind = {"behind": True} if self.behind else {}
            return self._error(op_id, error, cell_id=error.cell_id, **behind)
        except PrimeError as error:
            return self._error(op_id, error)
        return {"type": "ack", "op_id": op_id, "ok": True, "result": result}

    @staticmethod
    def _error(op_id: str, error: PrimeError, **details: str | bool) -> dict[str, Any]:
        body = {"code": error.code, "message": error.message, **details}
        return {"type": "ack", "op_id": op_id, "ok": False, "error": body}

    def _apply(self, op: dict[str, Any]) -> dict[str, Any]:
        kind = op["op"]
        if kind == "read":
            cells = [
                {**cell, "index": i, "running": cell["id"] in self.runs}
                for i, cell in enumerate(self.notebook["cells"])
            ]
            if "cell_id" in op:
                found = [cell for cell in cells if cell["id"] == op["cell_id"]]
                if not found:
                    raise CellNotFound(op["cell_id"])
                return {"cells": found}
            page = cells[op["start"] : op["start"] + 300]
            end = op["start"] + len(page)
            return {"cells": page, "next": end if end < len(cells) else None}
        if kind == "save":
            self.saved.append(copy.deepcopy(self.notebook))
            return {}
        if kind.startswith("run_"):
            return self._run(kind, op)
        if kind == "late_outputs" and op["cell_id"] in self.runs:
            raise superseded(op["cell_id"])
        applied = apply_operation(self.notebook, op)
        return {"before": applied.before, "after": applied.after}

    def _run(self, kind: str, op: dict[str, Any]) -> dict[str, Any]:
        index = next(
            (i for i, c in enumerate(self.notebook["cells"]) if c["id"] == op["cell_id"]), None
        )
        if index is None:
            raise CellNotFound(op["cell_id"])
        cell = self.notebook["cells"][index]
        if kind == "run_start":
            if op["expected_hash"] and op["expected_hash"] != source_hash(cell["source"]):
                raise CellConflict(cell["id"], cell["source"], None)
            was = {"cell": copy.deepcopy(cell)} if cell["outputs"] else {}
            self.runs[cell["id"]] = op["run_id"]
            self.begun.discard(cell["id"])
            state = {"source": cell["source"], "cell_type": cell["cell_type"], "index": index}
            return {"before": {**state, **was}, "after": state}
        if self.runs.get(cell["id"]) != op["run_id"]:
            raise PrimeError("This page knows nothing of the run.", code="run_unknown")
        if cell["cell_type"] != "code":
            raise PrimeError(
                f"Cell {cell['id']} is a {cell['cell_type']} cell by now, which has no outputs.",
                code="not_a_code_cell",
            )
        if kind == "run_outputs":
            self.begun.add(cell["id"])
            cell["execution_count"] = None
            cell["outputs"][op["from"] :] = copy.deepcopy(op["outputs"])
        else:
            if cell["id"] in self.begun:
                cell["execution_count"] = op["execution_count"]
            del self.runs[cell["id"]]
        return {}
