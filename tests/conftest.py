"""Fixtures of a real Jupyter server for all tests."""

from __future__ import annotations

pytest_plugins = ["pytest_jupyter.jupyter_server"]
