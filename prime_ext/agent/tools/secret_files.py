"""Which files hold secrets: told by their names, and by what stands at their beginning.

Nobody can know it of every file. The names are those under which people and programs keep
credentials; a name is taken apart into words, so that ``secretary.csv`` and ``tokenizer.json`` stay
what they are. What stands in a file counts only where its shape leaves no doubt: a private key, the
key file of a service account, a token with the prefix of the service that gave it out.

The search runs this in a process of its own, so that it imports the standard library alone.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
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
    "*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.jceks", "*.bks",
    "*.keystore", "*.kdb", "*.kdbx", "*.ppk", "*.gpg", "*.pgp", "*.ovpn", "*.keychain*",
    "*.keyring", "*.opvault*", "*.agilekeychain*", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", "ssh_host_*", "identity", "secring*", "wallet.dat", "key3.db", "key4.db",
    "logins.json", "login data", "cookies.txt", "cookies.sqlite", "master.key",
    # environments
    "env", "dotenv", "env.sh", "env.json", "env.txt", "env.local", "*.env", "*.env.*", "*envrc",
    # package managers, version control
    "pip.conf", "pip.ini", "pypirc", "npmrc", "yarnrc", "yarnrc.yml",
    "condarc", "git-credentials", "gitcookies", "auth.json", "auth.toml",
    "settings-security.xml",
    # databases
    "pgpass", "pgpass.conf", "pg_service.conf", "my.cnf", "mylogin.cnf", "*.my.cnf",
    "odbc.ini", "snowsql.cnf", "cwallet.sso", "ewallet.*",
    # cloud, clusters, and services of data science
    "boto.cfg", "boto", "s3cfg", "rclone.conf", "kubeconfig*", "*.kubeconfig", "kube_config*",
    "dockercfg", "dockerconfigjson", "*.tfstate*", "*.tfvars", "*.tfvars.json", "kaggle.json",
    "databrickscfg", "*adminsdk*.json", "*service[-_]account*.json",
    "*.publishsettings", "adc.json", "access_tokens.db", "stored_tokens",
    "*vault*.yml", "*vault*.yaml",
    # logins
    "netrc", "*[._]netrc", "htpasswd", "*.htpasswd", "passwd", "shadow", "gshadow",
    "jupyter_*_config.*",
)  # fmt: skip
"""Patterns (lower case) of names that hold secrets by convention."""

_HARMLESS = _any_of("*.pub", "*.env.example", "*.env.sample", "*.env.template", "*.env.dist")
"""What matches one of these does not, whatever else it matches."""

_CODE = frozenset(
    (
        ".py", ".pyi", ".pyx", ".r", ".jl", ".js", ".mjs", ".ts", ".tsx", ".jsx", ".java", ".kt",
        ".scala", ".go", ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".swift", ".sql",
        ".css", ".html", ".tf",
    )
)  # fmt: skip
"""A module about secrets is no secret by its name."""

_DOCUMENTS = frozenset((".ipynb", ".md", ".rst", ".qmd", ".rmd", ".tex", ".docx", ".pdf"))
"""People write about secrets in them as well as down."""

_SECRET_WORD = re.compile(
    r".*(secrets?|credentials?|creds|passwords?|passwds?|passphrases?|passcodes?|apikeys?|"
    r"accesskeys?|privatekeys?|secretkeys?|passwort|passwörter|kennwort|kennwörter|motdepasse|"
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
_KEPT_AS = frozenset(("", ".txt", ".json", ".yml", ".yaml", ".toml", ".ini", ".cfg", ".conf"))
"""What a single key or token is kept in."""

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
        "a", "account", "accounts", "admin", "all", "and", "anthropic", "api", "app", "aws",
        "azure", "backup", "bank", "chrome", "claude", "client", "cloud", "config", "copy",
        "current", "data", "database", "databricks", "db", "default", "dev", "development",
        "email", "env", "export", "file", "files", "firefox", "for", "gcp", "github", "gitlab",
        "google", "hf", "home", "huggingface", "important", "kaggle", "key", "keys", "list",
        "local", "login", "logins", "mail", "master", "misc", "mongo", "mongodb", "my", "mysql",
        "new", "note", "notes", "of", "old", "openai", "our", "personal", "postgres", "private",
        "prod", "production", "qa", "redis", "root", "s", "server", "shared", "slack",
        "snowflake", "sql", "staging", "store", "team", "temp", "test", "the", "token", "tokens",
        "top", "user", "users", "values", "vars", "wandb", "web", "wifi", "work",
    )
)  # fmt: skip
"""Words that leave a document what the secret word says it is, as in ``my_passwords``."""


def is_secret(name: str) -> bool:
    """Whether a file of this name is taken for a secret."""
    lower = name.lower()
    while (backup := _BACKUP.search(lower)) is not None and backup.start() > 0:
        lower, name = lower[: backup.start()], name[: backup.start()]
    if _HARMLESS.match(lower):
        return False
    if _BY_NAME.match(lower) or _BY_NAME.match(lower.lstrip(".")):
        return True
    return Path(lower).suffix not in _CODE and _speaks_of_secret(name)


def _speaks_of_secret(name: str) -> bool:
    suffix = Path(name).suffix.lower()
    words = _words(name[: len(name) - len(suffix)])
    telling = [word for i, word in enumerate(words) if _is_telling(words, i, suffix)]
    if not telling:
        return False
    others = [word for word in words if word not in telling]
    if suffix in _DOCUMENTS:
        return _AROUND.issuperset(others)
    return _ABOUT.isdisjoint(others)


def _is_telling(words: Sequence[str], at: int, suffix: str) -> bool:
    """Whether the word ``at`` says that the file holds secrets."""
    word, before = words[at], words[at - 1] if at else ""
    if _SECRET_WORD.match(word):
        return True
    single = at == len(words) - 1 and suffix in _KEPT_AS
    if word in ("key", "keys"):
        lone = at == 0 or (word == "key" and before not in _NO_KEY)
        return before in _BEFORE_KEY or (single and lone)
    if word == "token":
        return before in _BEFORE_TOKEN or (single and before not in _NO_TOKEN)
    return word == "tokens" and before in _BEFORE_TOKEN


def _words(text: str) -> list[str]:
    """``accessKeys-2`` → ``access``, ``keys``."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return re.findall(r"[^\W\d_]+", apart.lower())


# --- by content -----------------------------------------------------------------------------------

LOOKED_AT_BYTES = 1 << 16
"""Of the beginning of a file."""

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
        re.compile(rb'"type"\s{0,9}:\s{0,9}"(service_account|authorized_user)"'),
        "the key of a Google account",
    ),
    (
        (b"client_secret", b"refresh_token", b"private_key"),
        re.compile(
            rb'"(client_secret|refresh_token|private_key)"\s{0,9}:\s{0,9}'
            rb'"(?!(?i:your|example|dummy|test|xxx|\*\*\*|\.\.\.))[^"<${]{8,9999}"'
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
            rb"(?m)^[ \t]{0,9}machine\s{1,9}\S{1,300}\s{1,9}login\s{1,9}\S{1,300}"
            rb"\s{1,9}password\s{1,9}\S"
        ),
        "a password",
    ),
    (
        (b":_auth", b":_password"),
        re.compile(rb":_(authToken|password|auth)\s{0,9}=\s{0,9}[^\s$]{8}"),
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
)
"""Words of which one has to be there (in lower case), the shape, and what it is.

The words are what makes it quick. Repeats have an upper bound, so that no file can make the search
for them slow.
"""

_TOKEN = re.compile(
    rb"(?<![A-Za-z0-9_-])"
    rb"(sk-(?:ant|proj|or)-[A-Za-z0-9_-]{24,300}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50,300}|"
    rb"glpat-[A-Za-z0-9_-]{20}|hf_[A-Za-z]{34}|xox[abprs]-[A-Za-z0-9-]{20,300}|"
    rb"AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|pypi-AgEI[A-Za-z0-9_-]{40,300}|"
    rb"dapi[0-9a-f]{32}|sk_live_[A-Za-z0-9]{20,300})"
)
"""Tokens that begin as the service which gave them out begins all of its own."""

_BEGINNINGS = (
    b"sk-ant-", b"sk-proj-", b"sk-or-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_",
    b"github_pat_", b"glpat-", b"hf_", b"xox", b"akia", b"aiza", b"pypi-", b"dapi", b"sk_live_",
)  # fmt: skip

_ASSIGNED = re.compile(
    rb"(?i)(key|token|secret|passw|pwd)\w{0,40}[\"']?\]?\s{0,9}[:=]\s{0,9}"
    rb"[\"'][^\"'<${]{8,300}[\"']"
)
_PLACEHOLDER = 8
"""A token whose end has fewer different characters than this is none."""


def secret_inside(name: str, beginning: bytes) -> str | None:
    """What secret a file holds, by its shape; ``None`` if none is seen.

    Parameters
    ----------
    beginning:
        Its first ``LOOKED_AT_BYTES`` bytes.
    """
    suffix = Path(name).suffix.lower()
    if suffix == ".ipynb":
        return None  # the notebook at hand is read whatever was pasted into it
    if suffix in _CODE:
        # Code may name a key without being lost to the agent; a module of keys is.
        named = _speaks_of_secret(Path(name).stem)
        return "a key or password" if named and _ASSIGNED.search(beginning) else None
    lower = beginning.lower()
    for words, shape, what in _SHAPES:
        if any(word in lower for word in words) and shape.search(beginning):
            return what
    if not any(word in lower for word in _BEGINNINGS):
        return None
    real = any(len(set(token[-20:])) >= _PLACEHOLDER for token in _TOKEN.findall(beginning))
    return "an access token" if real else None


def secret_in_file(path: Path) -> str | None:
    """As ``secret_inside``, of a file on disk; ``None`` if it cannot be read."""
    try:
        with path.open("rb") as file:
            return secret_inside(path.name, file.read(LOOKED_AT_BYTES))
    except OSError:
        return None
