"""Passwords and keys in files of settings: ``config.ini``, ``app.toml``, ``settings.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .names import SHORT_FOR_PASSWORD, secret_of, words_of
from .values import is_placeholder, looks_chosen, looks_random

_FORMATS = frozenset((".ini", ".cfg", ".conf", ".cnf", ".toml", ".properties", ".yaml", ".yml"))
_TEXTS = frozenset((".properties", ".yaml", ".yml"))
"""Formats in which programs also keep the words that they show: ``password: Kennwort``."""
_NO_DATA = frozenset(("config", "configuration", "settings", "appsettings"))
"""A word of the names of those JSON files that hold settings."""

_COMMENT = ("#", ";", "//", "!")
_SETTING = re.compile(
    r"(?<![\w.-])(?P<key>[^\W\d][\w.-]{0,79})[\"']?[ \t]{0,9}[:=][ \t]{0,9}"
    r"(?:\"(?P<double>[^\"]{1,300})\"|'(?P<single>[^']{1,300})'|"
    r"(?P<bare>[^\s\"',]{1,300})(?=[ \t]{0,9}(?:[,}\]]|[ \t][#;]|$)))"
)
"""One setting of a line; without quotes its value is one word."""

_USER = frozenset(("user", "username", "login", "name"))
_KNOWN_TO_ALL = frozenset(("admin", "root", "postgres", "guest", "minioadmin"))
"""Passwords that programs come with."""
_ELSEWHERE = re.compile(
    r"(?i)[/~]|\.{1,2}/|(?:env|vault|op|file|arn|ssm|keyring|secret|enc)[:(\[]|ssh-|ecdsa-"
)
"""Begins what says where a secret is, an encrypted one, or the public half of one."""
_LEAST_CHARS = 4
_LEAST_DIGITS = 6


def secret_setting(name: str, text: str) -> str | None:
    """Name of the first setting that is set to a secret.

    ``None`` if there is none, and of every file that holds no settings by its name.
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
    """Whether a password is set to this value; if that is doubtful it has to look like one."""
    if len(value) < _LEAST_CHARS or is_placeholder(value) or value.lower() in _KNOWN_TO_ALL:
        return False
    digits = sum(map(str.isdigit, value))
    if not any(map(str.isalpha, value)):
        return digits >= _LEAST_DIGITS
    if not digits and any(map(secret_of, words_of(value))):
        return False  # a word for it, or a sentence about it
    return not doubtful or (" " not in value and looks_chosen(value))
