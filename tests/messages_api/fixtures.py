"""pytest fixtures: a test API for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.messages_api.server import MessagesAPI


@pytest.fixture
def messages_api() -> Iterator[MessagesAPI]:
    """A strict Messages API on loopback, with virtual time and an empty script."""
    with MessagesAPI() as api:
        yield api
