"""Detection of secrets in the beginning of a file.

Secrets of an unmistakable form are detected in any file: a private key, the key file of a service
account, a token with the prefix of its service. In settings files, values of password settings are
detected too. In a file with a suspicious name, any assignment of a value that looks like a key or
password is enough.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from .names import CODE, Suspicion, speaks_of_secrets, suspicion
from .settings import secret_setting
from .values import is_placeholder, looks_chosen, looks_random

LOOKED_AT_BYTES = 1 << 16
"""Number of bytes at the beginning of a file that are checked."""

_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SNIFFED_BYTES = 8192
"""Bytes in which a NUL marks a file as binary, as in ``text_files``."""

LIKELY = "what looks like a key or password"
"""Result of ``secret_inside`` for evidence that only counts because of the file's name."""

_SHAPES: tuple[tuple[tuple[bytes, ...], re.Pattern[bytes], str], ...] = (
    (
        (b"private key",),
        re.compile(
            rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            rb"(?:\\n|\s){1,4}[A-Za-z0-9+/=:,.\-\s\\]{40}"
        ),
        "a private key",
    ),
    (
        (b"service_account", b"authorized_user"),
        re.compile(rb'"type"\s{0,9}:\s{0,9}"(?:service_account|authorized_user)"'),
        "the key of a Google account",
    ),
    (
        (b"client_secret", b"refresh_token", b"private_key"),
        re.compile(
            rb'"(?:client_secret|refresh_token|private_key)"\s{0,9}:\s{0,9}'
            rb'"(?P<value>[^"\s<${]{8,9999})"'
        ),
        "a client's secret",
    ),
    (
        (b"aws_secret_access_key",),
        re.compile(rb"(?i)aws_secret_access_key[\"']?\s{0,9}[=:]\s{0,9}[\"']?[A-Za-z0-9/+]{30}"),
        "an AWS key",
    ),
    (
        (b"secret access key",),
        re.compile(rb"(?i)access key id,\s{0,9}secret access key"),
        "an AWS key",
    ),
    (
        (b"machine",),
        re.compile(
            rb"(?<!\S)machine\s{1,9}\S{1,300}\s{1,9}login\s{1,9}\S{1,300}"
            rb"\s{1,9}password\s{1,9}\S"
        ),
        "a password",
    ),
    (
        (b":_auth", b":_password"),
        re.compile(rb":_(?:authToken|password|auth)\s{0,9}=\s{0,9}[^\s$]{8}"),
        "a registry's token",
    ),
    (
        (b'"auths"',),
        re.compile(rb'"auths"\s{0,9}:\s{0,9}\{[^}]{0,2000}"auth"\s{0,9}:\s{0,9}"[^"]{8}'),
        "a registry's password",
    ),
    (
        (b"client-key-data",),
        re.compile(rb"(?m)^[ \t]{0,40}client-key-data:[ \t]{0,9}\S{8}"),
        "the key of a cluster",
    ),
    (
        (b"token:",),
        re.compile(rb"\buser:\s{1,40}token:[ \t]{0,9}[\"']?[^\s\"'<${]{8}"),
        "the token of a cluster",
    ),
    (
        (b"password",),
        re.compile(
            rb"(?i)\A(?:\xef\xbb\xbf)?(?=[^\n]{0,300}\burl\b)(?=[^\n]{0,300}username\b)"
            rb"[^\n,]{0,60},[^\n]{0,300}\bpassword\b"
        ),
        "the passwords of a browser",
    ),
    (
        (b"eyj",),
        re.compile(
            rb"(?<![\w.-])eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.(?P<value>[\w-]{20,1000})(?![\w-])"
        ),
        "an access token",
    ),
)
"""For each kind of secret: words of which one must occur (in lower case), a pattern, and a name.

A group ``value`` in the pattern must also look random. Checking for the words first is fast.
Repetitions have an upper bound, so that no file can make the search slow.
"""

_TOKEN = re.compile(
    rb"(?<![A-Za-z0-9_-])"
    rb"(sk-(?:ant|proj|or|svcacct|admin)-[A-Za-z0-9_-]{24,300}|sk-[A-Za-z0-9]{32,200}|"
    rb"gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50,300}|glpat-[A-Za-z0-9_-]{20}|hf_[A-Za-z]{34}|"
    rb"xox[abprs]-[A-Za-z0-9-]{20,300}|AIza[A-Za-z0-9_-]{35}|pypi-AgEI[A-Za-z0-9_-]{40,300}|"
    rb"dapi[0-9a-f]{32}|sk_live_[A-Za-z0-9]{20,300})"
    rb"(?![A-Za-z0-9_])"
)
"""Tokens with the prefix of the service that issued them."""

_BEGINNINGS = (
    b"sk-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-", b"hf_", b"xox",
    b"aiza", b"pypi-", b"dapi", b"sk_live_",
)  # fmt: skip

_AWS_ID = re.compile(rb"(?:AKIA|ASIA)(?<![A-Za-z0-9]....)[A-Z0-9]{16}(?![A-Za-z0-9])")
_BESIDE = (b"=", b":", b'"', b"'")
_AWS = re.compile(rb"(?i)(?<![a-z])aws(?![a-z])")

_LOGIN = re.compile(rb"://([^\s/:@\"'<>]{1,100}):([^\s/:@\"'<>]{1,200})@[\w.-]")
"""User and password in a URL."""

_ASSIGNED = re.compile(
    rb"(?i)(?:(?P<password>passw|pwd)|key|token|secret)\w{0,40}[\"']?\]?\s{0,9}[:=]\s{0,9}"
    rb"[\"'](?P<value>[^\"'<${]{8,300})[\"']"
)
_DIFFERENT = 8
"""A token with fewer different characters at its end than this is a placeholder."""


def secret_inside(name: str, beginning: bytes) -> str | None:
    """Return the kind of secret that a file holds, in words; ``None`` if none is detected.

    Parameters
    ----------
    name:
        Name of the file. If it indicates secrets, weaker evidence is enough.
    beginning:
        First ``LOOKED_AT_BYTES`` bytes of the file.
    """
    suffix = Path(name).suffix.lower()
    if suffix == ".ipynb":
        return None  # notebooks are readable whatever was pasted into them
    wide = next((encoding for bom, encoding in _WIDE if beginning.startswith(bom)), None)
    if wide is not None:
        beginning = beginning.decode(wide, "replace").encode()
    if b"\0" in beginning[:_SNIFFED_BYTES]:
        return None  # no tool shows what is in a binary file
    if suffix in CODE:
        # Code that mentions a key stays accessible to the agent; a module of keys does not.
        named = speaks_of_secrets(Path(name).stem)
        return "a key or password" if named and _is_module_of_keys(beginning) else None
    lower = beginning.lower()
    for words, shape, what in _SHAPES:
        if any(word in lower for word in words) and _has(shape, beginning):
            return what
    if any(word in lower for word in _BEGINNINGS) and any(
        len(set(token[-20:])) >= _DIFFERENT for token in _TOKEN.findall(beginning)
    ):
        return "an access token"
    if b"://" in beginning and any(map(_is_login, _LOGIN.findall(beginning))):
        return "a password in a URL"
    if (b"AKIA" in beginning or b"ASIA" in beginning) and _holds_aws_id(beginning):
        return "an AWS key"
    text = beginning.decode("utf-8", "replace")
    key = secret_setting(name, text)
    if key is not None:
        return f"a password or key, as {key!r}"
    suspected = suspicion(name)
    if suspected is Suspicion.NONE:
        return None
    is_secret = _assigns_secret(text) or _is_note(text, strong=suspected >= Suspicion.STRONG)
    return LIKELY if is_secret else None


def _has(shape: re.Pattern[bytes], data: bytes) -> bool:
    if "value" not in shape.groupindex:
        return shape.search(data) is not None
    return any(looks_random(found["value"].decode("latin-1")) for found in shape.finditer(data))


def _is_module_of_keys(data: bytes) -> bool:
    for found in _ASSIGNED.finditer(data):
        value = found["value"].decode("utf-8", "replace")
        if looks_random(value) or (found["password"] and not is_placeholder(value)):
            return True
    return False


def _is_login(found: tuple[bytes, bytes]) -> bool:
    user, password = (part.decode("utf-8", "replace") for part in found)
    return len(password) > 3 and user != password and not is_placeholder(password)


def _holds_aws_id(data: bytes) -> bool:
    """Return whether an AWS access key id occurs.

    Protein sequences consist of capitals, too. Unless the text mentions AWS, an id must therefore
    contain a digit and be assigned to something.
    """
    ids = [found for found in _AWS_ID.finditer(data) if not found[0].endswith(b"EXAMPLE")]
    if not ids:
        return False
    if _AWS.search(data):
        return True
    return any(
        not found[0].isalpha()
        and data[max(0, found.start() - 4) : found.start()].rstrip().endswith(_BESIDE)
        for found in ids
    )


# --- by content, in files with suspicious names ---------------------------------------------------

_SET = re.compile(
    r"(?i)(?:(?P<password>passw|passphrase|passcode|pwd|pass(?![a-z]))|"
    r"(?P<token>secret|token|credential|auth(?!or)|(?:api|access|private|storage|account)[_-]?key)|"
    r"key)[\w.-]{0,40}[\"']?\]?[ \t]{0,9}[:=][ \t]{0,9}[\"']?(?P<value>[^\s\"',;#]{4,300})"
    r"(?=[\"']?[ \t]{0,9}(?:[\r\n,;}\])#]|$))"
)
"""Assignments such as ``DB_PASSWORD=…``, ``"api_key": "…"``, or ``key: …`` with a single word."""

_NOTE_LINES = 3


def _assigns_secret(text: str) -> bool:
    for found in _SET.finditer(text):
        value = found["value"]
        if found["password"]:
            real = not is_placeholder(value)
        elif found["token"]:
            real = looks_random(value)
        else:
            real = looks_random(value, 16, 3)
        if real:
            return True
    return False


def _is_note(text: str, *, strong: bool) -> bool:
    """Return whether the text is a note of a key or password, alone or after its purpose.

    ``strong``: the name of the file is strong evidence, so that a word that looks like a chosen
    password is enough.
    """
    lines = [line.split() for line in text.splitlines()]
    lines = [words for words in lines if words and not words[0].startswith(("#", "//"))]
    if len(lines) <= _NOTE_LINES:
        for words in lines:
            if len(words) == 1 and looks_random(words[0].rstrip("="), 16):
                return True
    if not strong or sum(len(words) >= 5 for words in lines) * 2 > len(lines):
        return False  # most lines are sentences
    return any(len(words) <= 4 and looks_chosen(words[-1]) for words in lines)


def secret_in_file(path: Path) -> str | None:
    """Check a file on disk with ``secret_inside``. ``None`` if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return secret_inside(path.name, file.read(LOOKED_AT_BYTES))
    except OSError:
        return None
