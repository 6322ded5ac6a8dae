"""Which files hold secrets: told by their names, and by what stands at their beginning.

Nobody can know it of every file. Some names are certain: those under which programs keep
credentials, and those that say nothing else (``my_passwords.txt``). A name that merely has such a
word in it is far more often about something else (``codebook_key.txt``, ``the_secret_agent.txt``):
there the content decides. In any other file it counts only where its shape leaves no doubt: a
private key, the key file of a service account, a token with the prefix of the service that gave it
out. What is data or a picture by its extension is never taken for a secret by a word of its name.

The search runs this in a process of its own, so that it imports the standard library alone.
"""

from __future__ import annotations

import codecs
import fnmatch
import re
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

FOLDERS = frozenset(
    ("secret", "secrets", "credentials", "creds", "passwords", "private_keys", "keyrings", "gnupg")
)
"""Names (lower case) of folders of which all is a secret."""

_BACKUP = re.compile(r"(~|\.(bak|backup|old|orig|save|swp|tmp|copy|disabled|\d+))$")


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)))


_BY_NAME = _any_of(
    # keys and key stores
    "*.pem", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.jceks", "*.bks", "*.keystore",
    "*.kdb", "*.kdbx", "*.ppk", "*.gpg", "*.pgp", "*.ovpn", "*.keychain*", "*.keyring",
    "*.opvault*", "*.agilekeychain*", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    "ssh_host_*", "secring*", "wallet.dat", "key3.db", "key4.db", "logins.json", "login data",
    "cookies.txt", "cookies.sqlite", "master.key", "privkey*", "sshkey", "sshkey.txt",
    "seed[-_ ]phrase*", "mnemonic.txt", "recovery[-_ ]codes*", "*[-_]recovery[-_]codes*",
    "backup[-_ ]codes*",
    # environments
    ".env*", "env", "dotenv", "env.local", "*envrc", "renviron", "renviron.site",
    # package managers, version control
    "pip.conf", "pip.ini", "pypirc", "npmrc", "yarnrc", "yarnrc.yml",
    "condarc", "git-credentials", "gitcookies", "auth.json", "auth.toml",
    "settings-security.xml",
    # databases
    "pgpass", "pgpass.conf", "pg_service.conf", "my.cnf", "mylogin.cnf", "*.my.cnf",
    "odbc.ini", "snowsql.cnf", "cwallet.sso", "ewallet.*", "profiles.yml", "profiles.yaml",
    "connections.toml",
    # cloud, clusters, and services of data science
    "boto.cfg", "boto", "s3cfg", "rclone.conf", "kubeconfig*", "*.kubeconfig", "kube_config*",
    "dockercfg", "dockerconfigjson", "msal_token_cache*", "*.tfstate*", "*.tfvars",
    "*.tfvars.json", "kaggle.json", "databrickscfg", "*adminsdk*.json",
    "*service[-_]account*.json", "client[-_]secret*.json",
    "*.publishsettings", "adc.json", "access_tokens.db", "stored_tokens", "token.pickle",
    "token.pkl",
    # logins
    "netrc", "*[._]netrc", "htpasswd", "*.htpasswd", "passwd", "shadow", "gshadow",
    "jupyter_*_config.*",
)  # fmt: skip
"""Patterns (lower case) of names that hold secrets by convention."""

_SETTINGS = _any_of(
    "*.env", "*.env.*", "env.sh", "env.json", "env.txt", "*.key", "*vault*.yml", "*vault*.yaml",
    "*.secret", "*.secrets",
)  # fmt: skip
"""Names of settings, which hold secrets or none."""

_HARMLESS = _any_of("*.pub", "*.env.example", "*.env.sample", "*.env.template", "*.env.dist")
"""What matches one of these does not, whatever else it matches."""

_DATA = frozenset(
    (
        ".csv", ".tsv", ".parquet", ".feather", ".arrow", ".avro", ".orc", ".xls", ".xlsx", ".ods",
        ".jsonl", ".ndjson", ".geojson", ".ipynb", ".npy", ".npz", ".h5", ".hdf5", ".nc", ".zarr",
        ".mat", ".sav", ".dta", ".rds", ".rdata", ".pkl", ".pickle", ".joblib", ".db", ".sqlite",
        ".duckdb", ".pt", ".pth", ".onnx", ".safetensors", ".bin", ".gz", ".zip", ".bz2", ".xz",
        ".zst", ".fasta", ".fa", ".fastq", ".vcf", ".bed", ".gff", ".shp", ".png", ".jpg", ".jpeg",
        ".gif", ".webp", ".svg", ".bmp", ".tif", ".tiff", ".mp3", ".wav", ".flac", ".mp4", ".avi",
        ".mov", ".pdf", ".docx", ".pptx",
    )
)  # fmt: skip
"""What is data, media or a notebook says nothing by the words of its name."""

_CODE = frozenset(
    (
        ".py", ".pyi", ".pyx", ".r", ".jl", ".js", ".mjs", ".ts", ".tsx", ".jsx", ".java", ".kt",
        ".scala", ".go", ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".swift", ".sql",
        ".css", ".html", ".tf", ".pl", ".pm", ".php", ".lua", ".vim",
    )
)  # fmt: skip
"""A module about secrets is no secret by its name."""

_DOCUMENTS = frozenset((".md", ".rst", ".qmd", ".rmd", ".tex"))
"""People write about secrets in them as well as down."""

_SECRET_WORD = re.compile(
    r"(.*?)(secrets?|credentials?|creds|passwords?|passwds?|passphrases?|passcodes?|apikeys?|"
    r"accesskeys?|privatekeys?|secretkeys?|sshkeys?|passwort|passwörter|kennwort|kennwörter|motdepasse|"
    r"contraseñas?|contrasenas?|senhas?|wachtwoord|wachtwoorden|пароль|пароли|密码|密碼|パスワード)$"
)
_BEFORE_KEY = frozenset(
    (
        "api", "access", "private", "secret", "ssh", "signing", "encryption", "deploy", "master",
        "storage", "account", "subscription", "auth", "openai", "anthropic", "aws", "azure", "gcp",
    )
)  # fmt: skip
_BEFORE_TOKEN = frozenset(
    (
        "access", "api", "auth", "bearer", "bot", "discord", "github", "gitlab", "hf", "hub",
        "huggingface", "npm", "oauth", "oauth2", "personal", "pypi", "refresh", "session", "slack",
        "telegram", "wandb",
    )
)  # fmt: skip
_NO_KEY = frozenset(
    (
        "answer", "primary", "foreign", "sort", "partition", "column", "color", "colour", "legend",
        "map", "candidate", "composite", "natural", "surrogate", "public", "join", "piano",
    )
)  # fmt: skip
_NO_TOKEN = frozenset(("bos", "cls", "eos", "mask", "next", "pad", "per", "sep", "special", "unk"))
_SHORT_FOR_PASSWORD = frozenset(
    ("pass", "pw", "pwd", "pwds", "pws", "mypass", "dbpass", "adminpass", "rootpass", "userpass")
)
_KEPT_AS = frozenset(("", ".txt", ".json", ".yml", ".yaml", ".toml", ".ini", ".cfg", ".conf"))
"""What a single key, token or password is kept in."""

_ABOUT = frozenset(
    (
        "analyses", "analysis", "benchmark", "breached", "checker", "classification", "classifier",
        "common", "complexity", "count", "counts", "cracker", "cracking", "dataset", "demo",
        "detection", "detector", "docs", "dummy", "eda", "entropy", "example", "examples", "fake",
        "features", "frequencies", "frequency", "garden", "generation", "generator", "guide",
        "hashing", "leak", "leakage", "leaked", "leaks", "length", "lengths", "meter", "model",
        "placeholder", "policies", "policy", "prediction", "predictions", "provider", "readme",
        "research", "reset", "resets", "rotation", "sample", "samples", "santa", "scanner",
        "scanning", "schema", "sharing", "statistics", "stats", "strength", "strengths", "study",
        "survey", "synthetic", "template", "tutorial", "usage", "utils", "validation",
        "validator", "weak",
    )
)  # fmt: skip
"""Words of names that speak about secrets without holding any."""

_AROUND = frozenset(
    (
        "a", "access", "account", "accounts", "admin", "all", "and", "anthropic", "api", "app",
        "application", "aws", "azure", "backup", "bank", "chrome", "claude", "client", "cloud",
        "config", "copy", "current", "data", "database", "databricks", "db", "default", "dev",
        "development", "email", "enc", "env", "export", "file", "files", "firefox", "for", "gcp",
        "github", "gitlab",
        "google", "hf", "home", "huggingface", "important", "kaggle", "key", "keys", "list",
        "local", "login", "logins", "mail", "master", "misc", "mongo", "mongodb", "my", "mysql",
        "new", "note", "notes", "of", "old", "openai", "our", "personal", "postgres", "private",
        "prod", "production", "qa", "redis", "root", "s", "server", "shared", "slack", "ssh",
        "snowflake", "sql", "staging", "store", "team", "temp", "test", "the", "token", "tokens",
        "top", "user", "users", "values", "vars", "wandb", "web", "wifi", "work",
    )
)  # fmt: skip
"""Words that leave a document what the secret word says it is, as in ``my_passwords``."""


class Suspicion(IntEnum):
    """How much the name of a file says that it holds secrets."""

    NONE = 0
    FAINT = 1
    """Far more often it means something else: ``label_key.json``."""
    STRONG = 2
    """It depends on what is in it: ``passwords-laptop.txt``."""
    CERTAIN = 3


def suspicion(name: str) -> Suspicion:
    """What the name of a file says."""
    lower = name.lower()
    while (backup := _BACKUP.search(lower)) is not None and backup.start() > 0:
        lower, name = lower[: backup.start()], name[: backup.start()]
    if _HARMLESS.match(lower):
        return Suspicion.NONE
    if _BY_NAME.match(lower) or _BY_NAME.match(lower.lstrip(".")):
        return Suspicion.CERTAIN
    suffix = Path(lower).suffix
    if suffix in _CODE or suffix in _DATA:
        return Suspicion.NONE
    said = _said_by_words(name[: len(name) - len(suffix)], suffix)
    return max(said, Suspicion.FAINT) if _SETTINGS.match(lower) else said


def is_secret(name: str) -> bool:
    """Whether a file of this name is a secret whatever is in it."""
    return suspicion(name) is Suspicion.CERTAIN


def _said_by_words(stem: str, suffix: str) -> Suspicion:
    words = _words(stem)
    told = [_told_by(words, i, suffix) for i in range(len(words))]
    most = max(told, default=Suspicion.NONE)
    others = [word for word, tells in zip(words, told, strict=True) if not tells]
    if most is Suspicion.NONE or not _ABOUT.isdisjoint(others):
        return Suspicion.NONE
    if most is Suspicion.CERTAIN and not _AROUND.issuperset(others):
        most = Suspicion.STRONG
    # People write about secrets in documents more than they keep them there.
    return Suspicion.FAINT if most is Suspicion.STRONG and suffix in _DOCUMENTS else most


def _told_by(words: Sequence[str], at: int, suffix: str) -> Suspicion:
    """What the word ``at`` says of a file; ``CERTAIN`` if the rest of the words adds nothing."""
    word, before = words[at], words[at - 1] if at else ""
    last = at == len(words) - 1
    if (found := _SECRET_WORD.match(word)) is not None:
        adjective = word.endswith("secret") and not last
        plain = found[1] == "" or found[1] in _AROUND
        return Suspicion.CERTAIN if plain and not adjective else Suspicion.STRONG
    single = last and suffix in _KEPT_AS
    if word in _SHORT_FOR_PASSWORD:
        return Suspicion.CERTAIN if single else Suspicion.NONE
    if word in ("key", "keys") and before in _BEFORE_KEY:
        return Suspicion.CERTAIN
    if word in ("token", "tokens") and before in _BEFORE_TOKEN:
        return Suspicion.CERTAIN
    if word in ("key", "keys"):
        lone = at == 0 or (word == "key" and before not in _NO_KEY)
        return Suspicion.FAINT if single and lone else Suspicion.NONE
    named = word == "token" and before not in _NO_TOKEN
    return Suspicion.FAINT if single and named else Suspicion.NONE


def _words(text: str) -> list[str]:
    """``accessKeys-2`` → ``access``, ``keys``."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return re.findall(r"[^\W\d_]+", apart.lower())


# --- by content -----------------------------------------------------------------------------------

LOOKED_AT_BYTES = 1 << 16
"""Of the beginning of a file."""

_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SNIFFED_BYTES = 8192
"""As ``text_files`` tells binary files."""

LIKELY = "what looks like a key or password"
"""What ``secret_inside`` says where the name had to make up for the shape."""

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
"""Words of which one has to be there (in lower case), the shape, and what it is. A ``value`` has to
look random, too.

The words are what makes it quick. Repeats have an upper bound, so that no file can make the search
for them slow.
"""

_TOKEN = re.compile(
    rb"(?<![A-Za-z0-9_-])"
    rb"(sk-(?:ant|proj|or|svcacct|admin)-[A-Za-z0-9_-]{24,300}|sk-[A-Za-z0-9]{32,200}|"
    rb"gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50,300}|glpat-[A-Za-z0-9_-]{20}|hf_[A-Za-z]{34}|"
    rb"xox[abprs]-[A-Za-z0-9-]{20,300}|AIza[A-Za-z0-9_-]{35}|pypi-AgEI[A-Za-z0-9_-]{40,300}|"
    rb"dapi[0-9a-f]{32}|sk_live_[A-Za-z0-9]{20,300})"
    rb"(?![A-Za-z0-9_])"
)
"""Tokens that begin as the service which gave them out begins all of its own."""

_BEGINNINGS = (
    b"sk-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-", b"hf_", b"xox",
    b"aiza", b"pypi-", b"dapi", b"sk_live_",
)  # fmt: skip

_AWS_ID = re.compile(rb"(?:AKIA|ASIA)(?<![A-Za-z0-9]....)[A-Z0-9]{16}(?![A-Za-z0-9])")
_BESIDE = (b"=", b":", b'"', b"'")
_AWS = re.compile(rb"(?i)(?<![a-z])aws(?![a-z])")

_LOGIN = re.compile(rb"://([^\s/:@\"'<>]{1,100}):([^\s/:@\"'<>]{1,200})@[\w.-]")
"""A URL with a user and a password."""

_ASSIGNED = re.compile(
    rb"(?i)(?:(?P<password>passw|pwd)|key|token|secret)\w{0,40}[\"']?\]?\s{0,9}[:=]\s{0,9}"
    rb"[\"'](?P<value>[^\"'<${]{8,300})[\"']"
)
_DIFFERENT = 8
"""A token whose end has fewer different characters than this is a placeholder."""

_PLACEHOLDER = re.compile(
    r"(?i)[<${%(\[*|>!&]|x{3}|\.\.\.|…|os\.|your|example|dummy|placeholder|change_?me|insert|replace|"
    r"(?:test|sample|enter|some)(?:[^a-z0-9]|$)|"
    r"my[-_]?(?:key|token|pass|secret|api|client|user)|"
    r"(?:secret|pass|password|passwd|pwd|none|null|true|false|yes|no|string|str|text|required|"
    r"optional|object|integer|hidden|varchar|token|key|tiger)$"
)


def secret_inside(name: str, beginning: bytes) -> str | None:
    """What secret a file holds, by its shape; ``None`` if none is seen.

    Parameters
    ----------
    name:
        Of the file. One that speaks of secrets makes less suffice.
    beginning:
        Its first ``LOOKED_AT_BYTES`` bytes.
    """
    suffix = Path(name).suffix.lower()
    if suffix == ".ipynb":
        return None  # the notebook at hand is read whatever was pasted into it
    wide = next((encoding for bom, encoding in _WIDE if beginning.startswith(bom)), None)
    if wide is not None:
        beginning = beginning.decode(wide, "replace").encode()
    if b"\0" in beginning[:_SNIFFED_BYTES]:
        return None  # no tool shows what is in a binary file
    if suffix in _CODE:
        # Code may name a key without being lost to the agent; a module of keys is.
        named = _said_by_words(Path(name).stem, "") >= Suspicion.STRONG
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
    suspected = suspicion(name)
    if suspected is not Suspicion.NONE:
        text = beginning.decode("utf-8", "replace")
        if _assigns_secret(text) or _is_note(text, strong=suspected >= Suspicion.STRONG):
            return LIKELY
    return None


def _has(shape: re.Pattern[bytes], data: bytes) -> bool:
    if "value" not in shape.groupindex:
        return shape.search(data) is not None
    return any(looks_random(found["value"].decode("latin-1")) for found in shape.finditer(data))


def _is_module_of_keys(data: bytes) -> bool:
    for found in _ASSIGNED.finditer(data):
        value = found["value"].decode("utf-8", "replace")
        if looks_random(value) or (found["password"] and not _PLACEHOLDER.match(value)):
            return True
    return False


def _is_login(found: tuple[bytes, bytes]) -> bool:
    user, password = (part.decode("utf-8", "replace") for part in found)
    return len(password) > 3 and user != password and _PLACEHOLDER.match(password) is None


def _holds_aws_id(data: bytes) -> bool:
    """Proteins are written in capitals, too: an id alone is none without a digit, or without a sign
    that something is set to it."""
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


def looks_random(value: str, length: int = 8, changes: int = 2) -> bool:
    """Whether a word is a key rather than a word.

    Parameters
    ----------
    length:
        Least number of letters and digits in a row.
    changes:
        Least number of changes among them between small letters, capitals and digits.
    """
    return _PLACEHOLDER.match(value) is None and any(
        any(map(str.isdigit, part))
        and not part.isdigit()
        and len(re.findall(r"[a-z]+|[A-Z]+|\d+", part)) > changes
        and len(set(part)) >= length // 2
        for part in re.findall(rf"[A-Za-z0-9]{{{length},}}", value)
    )


# --- by content, where the name makes one suspicious ----------------------------------------------

_SET = re.compile(
    r"(?i)(?:(?P<password>passw|passphrase|passcode|pwd|pass(?![a-z]))|"
    r"(?P<token>secret|token|credential|auth(?!or)|(?:api|access|private|storage|account)[_-]?key)|"
    r"key)[\w.-]{0,40}[\"']?\]?[ \t]{0,9}[:=][ \t]{0,9}[\"']?(?P<value>[^\s\"',;#]{4,300})"
    r"(?=[\"']?[ \t]{0,9}(?:[\r\n,;}\])#]|$))"
)
"""``DB_PASSWORD=…``, ``"api_key": "…"``, ``key: …`` with one word after it."""

_SIGNS = frozenset("!@$%^&*?+~#")
_NOTE_LINES = 3


def _assigns_secret(text: str) -> bool:
    for found in _SET.finditer(text):
        value = found["value"]
        if found["password"]:
            real = _PLACEHOLDER.match(value) is None
        elif found["token"]:
            real = looks_random(value)
        else:
            real = looks_random(value, 16, 3)
        if real:
            return True
    return False


def _is_note(text: str, *, strong: bool) -> bool:
    """Whether it is a key or password written down: alone, or behind what it is for."""
    lines = [line.split() for line in text.splitlines()]
    lines = [words for words in lines if words and not words[0].startswith(("#", "//"))]
    if len(lines) <= _NOTE_LINES:
        for words in lines:
            if len(words) == 1 and looks_random(words[0].rstrip("="), 16):
                return True
    if not strong or sum(len(words) >= 5 for words in lines) * 2 > len(lines):
        return False  # a text of sentences is none
    return any(len(words) <= 4 and _looks_chosen(words[-1]) for words in lines)


def _looks_chosen(word: str) -> bool:
    """Whether somebody may have thought this word out as a password: ``Hunter2``."""
    word = re.sub(r"^[^:=]{1,40}[:=]", "", word)
    return (
        6 <= len(word) <= 100
        and any(map(str.isalpha, word))
        and any(c.isdigit() or c in _SIGNS for c in word)
        and "/" not in word
        and _PLACEHOLDER.match(word) is None
    )


def secret_in_file(path: Path) -> str | None:
    """As ``secret_inside``, of a file on disk; ``None`` if it cannot be read."""
    try:
        with path.open("rb") as file:
            return secret_inside(path.name, file.read(LOOKED_AT_BYTES))
    except OSError:
        return None


def is_held_back(path: Path) -> bool:
    """Whether a file is seen to be a secret, looking into it only if its name makes it suspect."""
    suspected = suspicion(path.name)
    if suspected in (Suspicion.NONE, Suspicion.CERTAIN):
        return suspected is Suspicion.CERTAIN
    return path.is_file() and secret_in_file(path) is not None
