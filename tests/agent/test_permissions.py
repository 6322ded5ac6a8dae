"""Permission decisions and consent, as pure functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_ext.agent.consent import ConsentStore, explanation, is_local, needed
from prime_ext.agent.permissions import decide, in_force
from prime_ext.agent.tools.tool import ApprovalClass


@pytest.mark.parametrize(
    ("mode", "approval", "decision"),
    [
        ("ask", "read", "allow"),
        ("ask", "edit", "ask"),
        ("ask", "run", "ask"),
        ("edit", "edit", "allow"),
        ("edit", "write", "ask"),
        ("edit", "run", "ask"),
        ("auto", "write", "allow"),
        ("plan", "write", "refuse"),
        ("auto", "run", "allow"),
        ("plan", "read", "allow"),
        ("plan", "edit", "refuse"),
        ("plan", "run", "refuse"),
    ],
)
def test_modes(mode: str, approval: ApprovalClass, decision: str) -> None:
    assert decide(mode, approval, "a_tool", ()) == decision


def test_a_grant_for_the_session_saves_asking_but_not_in_plan_mode() -> None:
    assert decide("ask", "run", "run_code", {"run_code"}) == "allow"
    assert decide("ask", "run", "run_cell", {"run_code"}) == "ask"
    assert decide("plan", "run", "run_code", {"run_code"}) == "refuse"


def test_a_mode_that_is_no_longer_allowed_falls_back() -> None:
    assert in_force("auto", ["ask", "auto"], "ask") == "auto"
    assert in_force("auto", ["plan", "ask"], "ask") == "ask"
    assert in_force("auto", ["plan"], "ask") == "plan"


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("localhost", True),
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("api.anthropic.com", False),
        ("localhost.example.org", False),
        ("10.0.0.1", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_loopback(endpoint: str, local: bool) -> None:
    assert is_local(endpoint) is local
    assert needed("remote", endpoint) is not local


def test_when_consent_is_needed() -> None:
    assert not needed("always", None)
    assert needed("always", "127.0.0.1")
    assert not needed("never", "api.anthropic.com")


def test_who_consents_is_told_of_a_connection_that_others_can_read() -> None:
    plain = {host: explanation(host, "m", encrypted=False) for host in ("models.lan", "127.0.0.1")}
    assert "plain http" in plain["models.lan"]
    assert "plain http" not in plain["127.0.0.1"]
    assert "plain http" not in explanation("models.lan", "m", encrypted=True)


def test_consent_is_kept_for_each_person_and_server_in_a_private_file(tmp_path: Path) -> None:
    store = ConsentStore(tmp_path / "prime" / "consent.json")
    assert not store.given("ada", "a.example")
    store.give("ada", "a.example")
    again = ConsentStore(tmp_path / "prime" / "consent.json")
    assert again.given("ada", "a.example")
    assert not again.given("bob", "a.example")
    assert not again.given("ada", "b.example")
    assert (tmp_path / "prime" / "consent.json").stat().st_mode & 0o777 == 0o600


def test_a_damaged_consent_file_counts_as_no(tmp_path: Path) -> None:
    path = tmp_path / "consent.json"
    path.write_text("[1")
    store = ConsentStore(path)
    assert not store.given("ada", "a.example")
    store.give("ada", "a.example")
    assert store.given("ada", "a.example")
