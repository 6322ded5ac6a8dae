"""Fixtures and makers shared by the session tests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from prime_ext.session.records import SessionStart, Title
from prime_ext.session.store import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def session_start(**changes: Any) -> SessionStart:
    values: dict[str, Any] = {
        "version": "0.1.0",
        "notebook": "work/analysis.ipynb",
        "provider": "offline",
        "model": "offline-1",
        "permission_mode": "ask",
        "system": [{"type": "text", "text": "You work on a notebook."}],
        "tools": [],
    }
    return SessionStart(**{**values, **changes})


def title(text: str) -> Title:
    return Title(title=text)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    store = SessionStore(tmp_path / "sessions", logging.getLogger("prime.tests"))
    yield store
    store.close()
