"""Which files are taken for secrets: by name, by content, and by every tool alike."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.agent.tools.secret_files import (
    LOOKED_AT_BYTES,
    is_secret,
    secret_in_file,
    secret_inside,
)
from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tools.conftest import Call

SECRET = """
.env prod.env .env.local env env.sh dotenv backend.env.production .envrc
server.PEM server.key AuthKey_2X9.p8 cert.pfx store.jks vault.kdbx me.ppk backup.gpg office.ovpn
id_rsa id_ed25519 id_rsa.old ssh_host_ed25519 login.keychain-db login.keyring secring.gpg wallet.dat
credentials credentials.json credentials.csv aws_credentials.txt Credentials.xml creds.yml
credentials.json.bak credentials.json~ application_default_credentials.json
client_secret_1.json client_secret_123-abc.apps.googleusercontent.com.json secrets.yaml secrets.toml
secrets.enc.yaml secret.txt topsecret.txt secret_notes.ipynb my-secrets.ipynb secrets.md
passwd passwd.txt passwords.txt passwords.md mypasswords.txt passwords-work-laptop.txt db_password
Passwords.ipynb "Chrome Passwords.csv" passphrase.txt wifi_passwords.md
htpasswd .htpasswd passwort.txt contraseñas.txt motdepasse.txt
pip.conf pip.ini .pypirc pypirc .npmrc npmrc .yarnrc.yml yarnrc .condarc condarc auth.json
netrc _netrc .netrc git-credentials .git-credentials gitcookies
pgpass .pgpass pgpass.conf pg_service.conf my.cnf .my.cnf mylogin.cnf odbc.ini cwallet.sso
boto.cfg .s3cfg s3cfg rclone.conf kubeconfig kubeconfig.yaml kube_config .dockercfg dockerconfigjson
terraform.tfstate terraform.tfstate.backup prod.tfvars kaggle.json databrickscfg adc.json
my-project-firebase-adminsdk-x1y2z.json service-account.json service_account_prod.json
group_vars_vault.yml jupyter_server_config.py jupyter_lab_config.json
api_key.txt apikey.json APIKey.txt openai-key.txt OPENAI_API_KEY openai_key.json accessKeys.csv key
keys.txt keys.json private-key.txt aws_access_key.csv anthropic_key.yml
token token.txt token.json hf_token github_token.txt access_tokens.json bot-token.cfg
jupyter_token.txt
"""

HARMLESS = """
tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json tokens.csv
token_counts.csv pad_token.txt eos_token.json vocab.txt max_tokens.yaml
secretary.csv secretaries.csv secretion_rates.csv secret_santa.csv secret_garden.txt
password_strength_analysis.ipynb password_strength.csv common_passwords.txt leaked_passwords.csv
password_reset_flow.md password_policy.json secret_sharing.ipynb credential_stuffing_detection.ipynb
managing_secrets.md how_to_rotate_credentials.ipynb secret_project_plan.md api_key_rotation.md
secrets.py credentials.py key.py token.py passwords.sql test_secrets.py secret_store.ts
.env.example .env.sample prod.env.template secrets.example.yaml credentials.sample.json
credentials_template.json id_ed25519.pub keys.csv keyboard.txt monkey.json keynote_talks.csv
foreign_key.csv foreign_key.json primary_key.txt answer_key.json answer_key.txt
translation_keys.json
environment.yml env.py requirements.txt config.json config.yaml settings.ini pyproject.toml
docker-compose.yml data.csv analysis.ipynb work.ipynb README.md notes.txt passengers.csv passing.csv
compass.txt author.csv authors.json accounts.csv users.csv login_times.csv service_times.json
"""


def wrong(names: list[str], *, secret: bool) -> list[str]:
    return [name for name in names if is_secret(name) is not secret]


def test_names_of_secrets() -> None:
    assert wrong(shlex.split(SECRET), secret=True) == []


def test_names_of_ordinary_files() -> None:
    assert wrong(shlex.split(HARMLESS), secret=False) == []


@given(
    st.sampled_from(shlex.split(SECRET)),
    st.sampled_from(["", ".bak", ".old", "~", ".1", ".orig", ".bak.2"]),
    st.booleans(),
)
def test_a_copy_of_a_secret_is_one(name: str, end: str, upper: bool) -> None:
    assert is_secret(name.upper() + end.upper() if upper and name.islower() else name + end)


@given(st.text(max_size=60))
def test_any_name_has_an_answer(name: str) -> None:
    assert is_secret(name) in (True, False)


KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gcp.json", json.dumps({"type": "service_account", "private_key": "x"})),
        ("config.json", json.dumps({"type": "authorized_user", "client_id": "x"})),
        ("oauth.json", json.dumps({"installed": {"client_secret": "GOCSPX-8sk2md93"}})),
        ("server.txt", f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n"),
        ("deploy.json", json.dumps({"pem": f"-----BEGIN PRIVATE KEY-----\n{KEY}"})),
        ("readme.md", f"our key:\n-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY}\n"),
        ("config", "[default]\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzz\n"),
        ("user1.csv", "Access key ID,Secret access key\nAKIAABCDEFGHIJKLMNOP,wJal\n"),
        ("login.txt", "machine api.wandb.ai\n  login user\n  password 0123456789abcdef\n"),
        ("rc", "//registry.npmjs.org/:_authToken=npm_0123456789\n"),
        ("docker.json", json.dumps({"auths": {"ghcr.io": {"auth": "dXNlcjpwYXNzd29yZA=="}}})),
        ("cluster.yaml", "users:\n- user:\n    client-key-data: LS0tLS1CRUdJTi\n"),
        ("conf.yaml", "api: sk-ant-api03-" + "aB3dE6gH9jK2" * 3 + "\n"),
        ("run.cfg", "hub = hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\n"),
        ("secrets.py", 'WIFI_PASSWORD = "correct horse"\nAPI_KEY = "0123456789abcdef"\n'),
    ],
)  # fmt: skip
def test_secrets_by_content(name: str, text: str) -> None:
    assert secret_inside(name, text.encode()) is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gcp.json", json.dumps({"type": "service", "project": "x"})),
        ("openapi.json", json.dumps({"client_secret": {"type": "string"}})),
        ("oauth.json", json.dumps({"client_secret": "your-client-secret"})),
        ("oauth.json", json.dumps({"client_secret": "${CLIENT_SECRET}"})),
        ("readme.md", "Paste it between `-----BEGIN PRIVATE KEY-----` and the end.\n"),
        ("conf.yaml", "api: sk-ant-api03-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"),
        ("conf.yaml", "password: ${DB_PASSWORD}\ntoken: bert-base-uncased\n"),
        ("train.py", 'login(token="hf_abcdefghijklmnopqrstuvwxyzABCDEFGH")\n'),
        ("secrets.py", "import os\nAPI_KEY = os.environ['API_KEY']\n"),
        ("work.ipynb", '{"cells": [{"source": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}]}'),
        ("cert.txt", f"-----BEGIN CERTIFICATE-----\n{KEY}\n"),
        ("data.csv", "machine,login,password_strength\npump,3,4\n"),
    ],
)
def test_ordinary_content(name: str, text: str) -> None:
    assert secret_inside(name, text.encode()) is None


@pytest.mark.parametrize(
    "piece",
    ["\n", "machine x ", '"auths":{', "key", " ", '"client_secret":"', "sk-ant-", "A" * 20 + "-"],
)
def test_no_content_takes_long(piece: str) -> None:
    data = (piece * LOOKED_AT_BYTES).encode()[:LOOKED_AT_BYTES]
    begun = time.process_time()
    for name in ("x.json", "secrets.py"):
        secret_inside(name, b"secret key machine client-key-data private_key hf_ " + data)
    assert time.process_time() - begun < 2


@given(st.binary(max_size=400))
def test_any_content_has_an_answer(data: bytes) -> None:
    secret_inside("x.json", data)


def test_what_cannot_be_read_is_not_told(tmp_path: Path) -> None:
    assert secret_in_file(tmp_path / "gone") is None


async def test_all_tools_agree(call: Call, root: Path) -> None:
    def put(path: str, text: str = "needle") -> None:
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)

    secret = ["secret_notes.ipynb", "passwd.txt", "pip.conf", "Creds/prod.txt"]
    for name in (*secret, "tokenizer.json", "secretary.csv", "password_strength.csv"):
        put(name)
    put("gcp.json", json.dumps({"type": "service_account", "project": "needle"}))
    secret.append("gcp.json")
    for path in secret:
        for tool, more in (
            ("read_file", {}),
            ("edit_file", {"old": "needle", "new": "x"}),
            ("write_file", {"content": "x"}),
            ("search_files", {"pattern": "needle"}),
        ):
            with pytest.raises(PrimeError) as caught:
                await call(tool, path=path, **more)
            assert (caught.value.code, tool) == ("secret_file", tool)
    found: Any = await call("search_files", pattern="needle")
    (block,) = found.content
    hits = {line for line in block["text"].splitlines() if not line.startswith(" ")}
    assert hits == {"tokenizer.json", "secretary.csv", "password_strength.csv"}
