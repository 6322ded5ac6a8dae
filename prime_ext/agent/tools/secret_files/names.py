"""Detection of secrets by the name of a file.

Some names are certain: those under which programs store credentials, and those without any other
meaning (``my_passwords.txt``). A name that merely contains such a word usually means something else
(``codebook_key.txt``, ``the_secret_agent.txt``); in this case the content decides. A file that is
data or an image by its extension never counts as secret because of a word in its name.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Literal

FOLDERS = frozenset(
    ("secret", "secrets", "credentials", "creds", "passwords", "private_keys", "keyrings", "gnupg")
)
"""Names (lower case) of folders whose entire content counts as secret."""

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
    "jupyter_*_config.*", "jupyter_cookie_secret", "notebook_secret", "jpserver-*.json",
    "nbserver-*.json",
)  # fmt: skip
"""Patterns (lower case) of file names that hold secrets by convention."""

_SETTINGS = _any_of(
    "*.env", "*.env.*", "env.sh", "env.json", "env.txt", "*.key", "*vault*.yml", "*vault*.yaml",
    "*.secret", "*.secrets",
)  # fmt: skip
"""Names of settings files, which may hold secrets."""

_HARMLESS = _any_of("*.pub", "*.env.example", "*.env.sample", "*.env.template", "*.env.dist")
"""Names that do not hold secrets, whatever other pattern they match."""

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
"""Extensions of data, media and notebooks: the words in such names are ignored."""

CODE = frozenset(
    (
        ".py", ".pyi", ".pyx", ".r", ".jl", ".js", ".mjs", ".ts", ".tsx", ".jsx", ".java", ".kt",
        ".scala", ".go", ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".swift", ".sql",
        ".css", ".html", ".tf", ".pl", ".pm", ".php", ".lua", ".vim",
    )
)  # fmt: skip
"""Extensions of source code: a module about secrets is not a secret because of its name."""

_DOCUMENTS = frozenset((".md", ".rst", ".qmd", ".rmd", ".tex"))
"""Extensions of documents, which may be about secrets without containing any."""

_SECRET_WORD = re.compile(
    r"(.*?)(secrets?|credentials?|creds|passwords?|passwds?|passphrases?|passcodes?|apikeys?|"
    r"accesskeys?|privatekeys?|secretkeys?|sshkeys?|passwort|passwörter|kennwort|kennwörter|motdepasse|"
    r"contraseñas?|contrasenas?|senhas?|wachtwoord|wachtwoorden|пароль|пароли|密码|密碼|パスワード)$"
)
_NO_PASSWORD = ("secret", "cred", "apikey", "accesskey", "privatekey", "sshkey")
"""Beginnings of those words that mean a generated key, not a password that a person chose."""
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
SHORT_FOR_PASSWORD = frozenset(
    ("pass", "pw", "pwd", "pwds", "pws", "mypass", "dbpass", "adminpass", "rootpass", "userpass")
)
_KEPT_AS = frozenset(("", ".txt", ".json", ".yml", ".yaml", ".toml", ".ini", ".cfg", ".conf"))
"""Extensions of files that typically hold a single key, token or password."""

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
"""Words in the names of files that are about secrets, but do not hold any."""

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
"""Words that do not change the meaning of a secret word beside them, as in ``my_passwords``."""


class Suspicion(IntEnum):
    """Strength of the evidence in a file's name that the file holds secrets."""

    NONE = 0
    FAINT = 1
    """The name usually means something else: ``label_key.json``."""
    STRONG = 2
    """The content decides: ``passwords-laptop.txt``."""
    CERTAIN = 3


def suspicion(name: str) -> Suspicion:
    """Return the strength of the evidence in the name of a file."""
    lower = name.lower()
    while (backup := _BACKUP.search(lower)) is not None and backup.start() > 0:
        lower, name = lower[: backup.start()], name[: backup.start()]
    if _HARMLESS.match(lower):
        return Suspicion.NONE
    if _BY_NAME.match(lower) or _BY_NAME.match(lower.lstrip(".")):
        return Suspicion.CERTAIN
    suffix = Path(lower).suffix
    if suffix in CODE or suffix in _DATA:
        return Suspicion.NONE
    said = _said_by_words(name[: len(name) - len(suffix)], suffix)
    return max(said, Suspicion.FAINT) if _SETTINGS.match(lower) else said


def is_secret(name: str) -> bool:
    """Return whether a file with this name counts as secret whatever its content."""
    return suspicion(name) is Suspicion.CERTAIN


def speaks_of_secrets(stem: str) -> bool:
    """Return whether the words of a name are strong evidence, whatever the extension."""
    return _said_by_words(stem, "") >= Suspicion.STRONG


def secret_of(key: str) -> Literal["password", "key"] | None:
    """Return the kind of secret that a setting such as ``db.password`` or ``apiKey`` holds.

    ``None`` if the name of the setting does not indicate a secret.
    """
    words = words_of(key)
    if not words or not _ABOUT.isdisjoint(words):
        return None
    word, before = words[-1], words[-2] if len(words) > 1 else ""
    if word in SHORT_FOR_PASSWORD:
        return "password"
    if word.endswith("s"):
        return None  # a plural does not name a single value
    if (found := _SECRET_WORD.match(before + word)) is not None:  # ``passWord``
        return "key" if found[2].startswith(_NO_PASSWORD) else "password"
    is_key = word == "key" and before in _BEFORE_KEY
    return "key" if is_key or (word == "token" and before not in _NO_TOKEN) else None


def _said_by_words(stem: str, suffix: str) -> Suspicion:
    words = words_of(stem)
    told = [_told_by(words, i, suffix) for i in range(len(words))]
    most = max(told, default=Suspicion.NONE)
    others = [word for word, tells in zip(words, told, strict=True) if not tells]
    if most is Suspicion.NONE or not _ABOUT.isdisjoint(others):
        return Suspicion.NONE
    if most is Suspicion.CERTAIN and not _AROUND.issuperset(others):
        most = Suspicion.STRONG
    # Documents are more often about secrets than they contain any.
    return Suspicion.FAINT if most is Suspicion.STRONG and suffix in _DOCUMENTS else most


def _told_by(words: Sequence[str], at: int, suffix: str) -> Suspicion:
    """Return the evidence in the word at index ``at``.

    ``CERTAIN`` holds only if the other words of the name do not change its meaning.
    """
    word, before = words[at], words[at - 1] if at else ""
    last = at == len(words) - 1
    if (found := _SECRET_WORD.match(word)) is not None:
        adjective = word.endswith("secret") and not last
        plain = found[1] == "" or found[1] in _AROUND
        return Suspicion.CERTAIN if plain and not adjective else Suspicion.STRONG
    single = last and suffix in _KEPT_AS
    if word in SHORT_FOR_PASSWORD:
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


def words_of(text: str) -> list[str]:
    """Split a name into words: ``accessKeys-2`` → ``access``, ``keys``."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return re.findall(r"[^\W\d_]+", apart.lower())
