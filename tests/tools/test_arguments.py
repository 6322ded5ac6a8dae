"""What a model is told of arguments that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from prime_ext.agent.tools.registry import MAX_ERROR_CHARS, ToolRegistry
from prime_ext.errors import PrimeError


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("session_search", {"query": "x" * 5_000}, "is too long"),
        ("session_read", {"seqs": [0] * 5_000}, "is too long"),
        ("run_code", {"code": ["print(1)"] * 1_000}, "is not of type 'string'"),
        ("read_notebook", {"start": 1, "y" * 5_000: 1}, "unexpected"),
    ],
)
def test_what_is_wrong_is_said_without_sending_it_all_back(
    name: str, arguments: dict[str, Any], says: str
) -> None:
    registry = ToolRegistry.default()
    with pytest.raises(PrimeError) as caught:
        registry.check(registry.get(name), arguments)
    assert caught.value.code == "invalid_arguments"
    assert says in caught.value.message
    assert len(caught.value.message) < MAX_ERROR_CHARS + 150
