"""Requests that nobody thought of, made from ``openapi.yaml``: none may break the server, and
every answer must be one that the description allows.

It is a program, so that the server under test has a process of its own: Hypothesis reads the
sources of lambdas, and CPython 3.11 does not bear two threads that parse at once (gh-106905).

    python -m tests.handlers.fuzz BASE_URL NOTEBOOK EXAMPLES < HEADERS_AS_JSON > STATUSES_AS_JSON
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import requests
import schemathesis
import schemathesis.specs.openapi.schemas
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.handlers.test_openapi import description

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

PATIENCE = 90.0
"""Seconds for one request. Each takes a fraction of one, even where turns and threads are slow; one
that hangs is still found, and named."""

# The stream is not HTTP; its own tests send it garbage.
LEFT_OUT = ("/sessions/{session_id}/stream",)


def fuzz(
    base_url: str, headers: dict[str, str], a_session: Callable[[], str], examples: int
) -> dict[str, set[int]]:
    """Call every operation ``examples`` times with requests that fit the description, and as often
    with ones that do not; the statuses seen, by operation.

    Parameters
    ----------
    a_session:
        Gives the id of a session that exists, for most of the paths that want one.
    """
    schema = schemathesis.openapi.from_dict(description())
    schema.config.update(base_url=base_url)
    seen: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.path in LEFT_OUT:
            continue
        seen[operation.label] = call_often(operation, "positive", headers, a_session, examples)
        # The free text of a path cannot be wrong.
        if operation.body or operation.query:
            seen[operation.label] |= call_often(operation, "negative", headers, a_session, examples)
    return seen


def call_often(
    operation: Any, mode: str, headers: dict[str, str], a_session: Callable[[], str], examples: int
) -> set[int]:
    """Call one operation with ``positive`` or ``negative`` requests; the statuses seen."""
    statuses: set[int] = set()
    calls = 0

    @seed(20_260_101)
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    def call(case: Any) -> None:
        nonlocal calls
        calls += 1
        if "session_id" in (case.path_parameters or {}) and calls % 5:
            case.path_parameters["session_id"] = a_session()
        case.headers = {**(case.headers or {}), **headers}
        response = case.call(timeout=PATIENCE)
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    call()
    return statuses


def sessions_over_http(base_url: str, headers: dict[str, str], notebook: str) -> Callable[[], str]:
    """The id of a session about ``notebook``, a new one whenever the last has been deleted."""
    current = ""

    def a_session() -> str:
        nonlocal current
        if current:
            found = requests.get(
                f"{base_url}/sessions/{current}", headers=headers, timeout=PATIENCE
            )
            if found.status_code == 200:
                return current
        made = requests.post(
            f"{base_url}/sessions",
            data=json.dumps({"notebook": notebook}),
            headers=headers,
            timeout=PATIENCE,
        )
        assert made.status_code == 201, made.text
        current = str(made.json()["id"])
        return current

    return a_session


def main() -> None:
    base_url, notebook, examples = sys.argv[1:]
    headers = json.load(sys.stdin)
    a_session = sessions_over_http(base_url, headers, notebook)
    seen = fuzz(base_url, headers, a_session, int(examples))
    json.dump({operation: sorted(statuses) for operation, statuses in seen.items()}, sys.stdout)


if __name__ == "__main__":
    main()
