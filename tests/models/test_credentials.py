"""Which key is used, how it is kept, and that it is found nowhere else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from prime_ext.config import ModelConfig
from prime_ext.errors import PrimeError
from prime_ext.models.credentials import CredentialStore

KEY = "sk-test-0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prime" / "credentials.json"


def store(path: Path, environ: dict[str, str] | None = None, **traits: str) -> CredentialStore:
    return CredentialStore(ModelConfig(**traits), path, {} if environ is None else environ)


def test_the_order_of_sources(path: Path) -> None:
    store(path).set("anthropic", "sk-stored-0123456789")
    shared = {"ANTHROPIC_API_KEY": "sk-shared-0123456789", "ANTHROPIC_AUTH_TOKEN": "token-0123456"}

    prime = store(path, {"PRIME_API_KEY": KEY, **shared}, api_key="sk-config-0123456789").current()
    assert (prime.source, prime.origin, prime.api_key) == ("environment", "PRIME_API_KEY", KEY)
    config = store(path, dict(shared), api_key="sk-config-0123456789").current()
    assert (config.source, config.api_key) == ("config", "sk-config-0123456789")
    stored = store(path, dict(shared)).current()
    assert (stored.source, stored.api_key) == ("stored", "sk-stored-0123456789")
    store(path).clear()
    key = store(path, dict(shared)).current()
    assert (key.source, key.origin) == ("environment", "ANTHROPIC_API_KEY")
    del shared["ANTHROPIC_API_KEY"]
    token = store(path, dict(shared)).current()
    assert (token.api_key, token.auth_token) == (None, "token-0123456")
    assert store(path).source() == "none"
    assert not store(path).configured()


def test_only_our_own_variable_is_taken_out_of_the_environment(path: Path) -> None:
    environ = {"PRIME_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-shared-0123456789"}
    store(path, environ)
    assert environ == {"ANTHROPIC_API_KEY": "sk-shared-0123456789"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_key_is_gone_from_the_process_and_its_children(path: Path) -> None:
    program = f"""
import os, subprocess, sys
from pathlib import Path
from prime_ext.config import ModelConfig
from prime_ext.models.credentials import CredentialStore
store = CredentialStore(ModelConfig(), Path({str(path)!r}))
assert store.api_key() == {KEY!r}
block = Path("/proc/self/environ").read_bytes()
assert {KEY.encode()!r} not in block
assert b"\\0AFTER=kept\\0" in b"\\0" + block, block
assert os.environ["AFTER"] == "kept"
child = subprocess.run(["env"], capture_output=True, check=True).stdout
assert b"PRIME_API_KEY" not in child
"""
    environ = {**os.environ, "BEFORE": "kept", "PRIME_API_KEY": KEY, "AFTER": "kept"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_is_entered_is_kept_for_its_owner_alone(path: Path) -> None:
    first = store(path)
    first.set("anthropic", f"  {KEY}\n", "https://models.example.org/v1")
    assert first.version == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["credentials.json"]
    again = store(path).current()
    assert (again.api_key, again.base_url) == (KEY, "https://models.example.org/v1")
    first.clear()
    assert not path.exists()
    first.clear()


def test_a_stored_server_is_sent_no_key_of_the_environment(path: Path) -> None:
    opened = store(path, {"ANTHROPIC_API_KEY": KEY})
    opened.set("anthropic", None, "http://127.0.0.1:8080")
    current = opened.current()
    assert current.base_url == "http://127.0.0.1:8080"
    assert not current.has_key
    assert opened.configured()


def test_a_key_of_the_environment_is_not_sent_to_a_stored_server(path: Path) -> None:
    store(path).set("anthropic", "sk-stored-0123456789", "https://models.example.org")
    current = store(path, {"PRIME_API_KEY": KEY}).current()
    assert (current.api_key, current.base_url) == (KEY, None)


def test_base_url_of_the_environment_and_the_trait(path: Path) -> None:
    environ = {"ANTHROPIC_BASE_URL": "https://a.example.org", "ANTHROPIC_API_KEY": KEY}
    assert store(path, environ).base_url() == "https://a.example.org"
    assert store(path, environ, base_url="https://b.example.org").base_url() == (
        "https://b.example.org"
    )
    assert store(path, {"ANTHROPIC_BASE_URL": "https://a.example.org"}).configured()


@pytest.mark.parametrize(
    ("environ", "traits", "origin"),
    [
        ({"PRIME_API_KEY": KEY}, {}, "PRIME_API_KEY"),
        ({}, {"api_key": KEY}, "ModelConfig.api_key"),
    ],
)
def test_a_key_that_would_not_be_used_is_refused(
    path: Path, environ: dict[str, str], traits: dict[str, str], origin: str
) -> None:
    with pytest.raises(PrimeError) as caught:
        store(path, environ, **traits).set("anthropic", "sk-other-0123456789")
    assert caught.value.code == "credentials_fixed"
    assert origin in caught.value.hint
    assert not path.exists()


@pytest.mark.parametrize(
    ("provider", "key", "url"),
    [
        ("anthropic", "", ""),
        ("anthropic", "two words", None),
        ("anthropic", "sk-ünicode-0123456789", None),
        ("anthropic", "x" * 5_000, None),
        ("anthropic", "line\nbreak", None),
        ("vertex", KEY, None),
        ("nobody", KEY, None),
        ("anthropic", KEY, "ftp://example.org"),
        ("anthropic", KEY, "example.org"),
        ("anthropic", KEY, "https://"),
        ("anthropic", KEY, "https://user:pass@example.org"),
        ("anthropic", KEY, "https://example.org/?key=1"),
        ("anthropic", KEY, "https://example.org:99999"),
        ("anthropic", KEY, "https://[::1"),
        ("anthropic", KEY, "http://example.org"),
    ],
)
def test_what_cannot_be_a_key_or_a_server_is_refused(
    path: Path, provider: str, key: str, url: str | None
) -> None:
    with pytest.raises(PrimeError) as caught:
        store(path).set(provider, key, url)
    assert caught.value.code == "credentials_invalid"
    assert caught.value.hint
    assert KEY not in caught.value.message + caught.value.hint


def test_an_unencrypted_server_is_fine_here_or_without_a_key(path: Path) -> None:
    store(path).set("anthropic", KEY, "http://localhost:11434")
    store(path).set("anthropic", None, "http://10.0.0.5:8000")


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_a_file_that_others_can_read_is_not_used(path: Path) -> None:
    store(path).set("anthropic", KEY)
    path.chmod(0o640)
    opened = store(path)
    assert opened.source() == "none"
    assert "chmod 600" in opened.problem


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_symbolic_links_are_neither_followed_nor_replaced(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    store(elsewhere).set("anthropic", KEY)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(elsewhere)
    opened = store(path)
    assert opened.source() == "none"
    assert "symbolic link" in opened.problem
    before = elsewhere.read_bytes()
    with pytest.raises(PrimeError, match="symbolic link"):
        opened.set("anthropic", "sk-other-0123456789")
    assert elsewhere.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"provider": "x"}', '{"api_key": "y"}'])
def test_a_damaged_file_is_not_used_and_can_be_replaced(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.touch(0o600)
    path.write_text(content)
    opened = store(path)
    assert opened.source() == "none"
    assert "damaged" in opened.problem
    opened.set("anthropic", KEY)
    assert store(path).api_key() == KEY


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    opened = store(blocked / "credentials.json")
    with pytest.raises(PrimeError) as caught:
        opened.set("anthropic", KEY)
    assert caught.value.code == "credentials_unwritable"
    assert opened.source() == "none"


def test_secrets_are_all_known_and_the_longest_come_first(path: Path) -> None:
    environ = {
        "PRIME_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY + "-longer",
        "AWS_SECRET_ACCESS_KEY": "aws-0123456789",
        "ANTHROPIC_AUTH_TOKEN": "short",
    }
    store(path).set("anthropic", "sk-stored-0123456789")
    assert store(path, environ).secrets() == [
        KEY + "-longer",
        "sk-stored-0123456789",
        KEY,
        "aws-0123456789",
    ]


def test_a_credential_does_not_show_its_key(path: Path) -> None:
    current = store(path, {"PRIME_API_KEY": KEY}).current()
    assert KEY not in repr(current)
    assert KEY not in str(current)


def test_the_file_holds_what_is_needed_and_no_more(path: Path) -> None:
    store(path).set("foundry", KEY)
    assert json.loads(path.read_text()) == {"provider": "foundry", "api_key": KEY}
