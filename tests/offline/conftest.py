"""Fixtures for the offline agent."""

from __future__ import annotations

import pytest

from tests.offline.world import World


@pytest.fixture
def world() -> World:
    return World()
