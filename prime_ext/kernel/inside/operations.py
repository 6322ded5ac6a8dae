"""Operations that our message types offer inside the kernel. Sent like ``bootstrap``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATIONS: dict[str, Callable[[Any, dict[str, Any], Any], dict[str, Any]]] = {}
