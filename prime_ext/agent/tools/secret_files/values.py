"""Detection of secrets by their value: keys look random, passwords look chosen."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"(?i)[<${%(\[*|>!&]|x{3}|\.\.\.|…|os\.|your|example|dummy|placeholder|change_?me|insert|replace|"
    r"(?:test|sample|enter|some)(?:[^a-z0-9]|$)|"
    r"my[-_]?(?:key|token|pass|secret|api|client|user)|"
    r"(?:ask|prompt|keyring|default|disabled|enabled|empty|unset|todo|tbd|fixme|"
    r"secret|pass|password|passwd|pwd|none|null|true|false|yes|no|string|str|text|required|"
    r"optional|object|integer|hidden|varchar|token|key|tiger)$"
)

_SIGNS = frozenset("!@$%^&*?+~#")


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a secret to be filled in, or refers to one elsewhere."""
    return _PLACEHOLDER.match(value) is not None


def looks_random(value: str, length: int = 8, changes: int = 2) -> bool:
    """Return whether a word looks like a random key rather than natural language.

    Parameters
    ----------
    length:
        Minimum number of consecutive letters and digits.
    changes:
        Minimum number of changes between lower case, upper case and digits among them.
    """
    return not is_placeholder(value) and any(
        any(map(str.isdigit, part))
        and not part.isdigit()
        and len(re.findall(r"[a-z]+|[A-Z]+|\d+", part)) > changes
        and len(set(part)) >= length // 2
        for part in re.findall(rf"[A-Za-z0-9]{{{length},}}", value)
    )


def looks_chosen(word: str) -> bool:
    """Return whether a person may have chosen this word as a password: ``Hunter2``."""
    word = re.sub(r"^[^:=]{1,40}[:=]", "", word)
    return (
        6 <= len(word) <= 100
        and any(map(str.isalpha, word))
        and any(c.isdigit() or c in _SIGNS for c in word)
        and "/" not in word
        and not is_placeholder(word)
    )
