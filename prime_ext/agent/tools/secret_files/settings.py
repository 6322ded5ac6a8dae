"""Passwords and keys in settings files: ``config.ini``, ``app.toml``, ``settings.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .names import SHORT_FOR_PASSWORD, secret_of, words_of
from .values import is_placeholder, looks_chosen, looks_random

_FORMATS = frozenset((".ini", ".cfg", ".conf", ".cnf", ".toml", ".properties", ".yaml", ".yml"))
_TEXTS = frozenset((".properties", ".yaml", ".yml"))
"""Formats that are also used for translated texts: ``password: Kennwort``."""
_NO_DATA = frozenset(("config", "configuration", "settings", "appsettings"))
"""Words in the names of JSON files that hold settings, as opposed to data."""

_COMMENT = ("#", ";", "//", "!")
_SETTING = re.compile(
    r"(?<![\w.-])(?P<key>[^\W\d][\w.-]{0,79})[\"']?[ \t]{0,9}[:=][ \t]{0,9}"
    r"(?:\"(?P<double>[^\"]{1,300})\"|'(?P<single>[^']{1,300})'|"
    r"(?P<bare>[^\s\"',]{1,300})(?=[ \t]{0,9}(?:[,}\]]|[ \t][#;]|$)))"
)
"""One setting in a line; without quotes its value is a single word."""

_USER = frozenset(("user", "username", "login", "name"))
_KNOWN_TO_ALL = frozenset(("admin", "root", "postgres", "guest", "minioadmin"))
"""Well-known default passwords."""
_ELSEWHERE = re.compile(
    r"(?i)[/~]|\.{1,2}/|(?:env|vault|op|file|arn|ssm|keyring|secret|enc)[:(\[]|ssh-|ecdsa-"
)
"""Beginning of a value that refers to a secret, is encrypted, or is a public key."""
_LEAST_CHARS = 4
_LEAST_DIGITS = 6


def secret_setting(name: str, text: str) -> str | None:
    """Return the name of the first setting whose value is a secret.

    ``None`` if there is none, or if the name of the file is not that of a settings file.
    """
    path = Path(name)
    suffix = path.suffix.lower()
    if suffix == ".json" and _NO_DATA.isdisjoint(words_of(path.stem)):
        return None
    if suffix != ".json" and suffix not in _FORMATS:
        return None
    settings = list(_settings(text))
    users = {value for key, value in settings if _last_word(key) in _USER}
    for key, value in settings:
        kind = secret_of(key)
        if kind is None or value in users or _ELSEWHERE.match(value):
            continue
        doubtful = suffix in _TEXTS or _last_word(key) in SHORT_FOR_PASSWORD
        if looks_random(value) if kind == "key" else _is_password(value, doubtful=doubtful):
            return key
    return None


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if not line.lstrip().startswith(_COMMENT):
            for found in _SETTING.finditer(line):
                yield found["key"], found["double"] or found["single"] or found["bare"]


def _last_word(key: str) -> str:
    return next(reversed(words_of(key)), "")


def _is_password(value: str, *, doubtful: bool) -> bool:
    """Return whether the value of a password setting is a real password.

    If ``doubtful``, the value must also look like a chosen password.
    """
    if len(value) < _LEAST_CHARS or is_placeholder(value) or value.lower() in _KNOWN_TO_ALL:
        return False
    digits = sum(map(str.isdigit, value))
    if not any(map(str.isalpha, value)):
        return digits >= _LEAST_DIGITS
    if not digits and any(map(secret_of, words_of(value))):
        return False  # a word for "password", or a sentence about one
    return not doubtful or (" " not in value and looks_chosen(value))
