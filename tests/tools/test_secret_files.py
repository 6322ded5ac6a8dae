"""Which files are taken for secrets: by name, by content, and by every tool alike."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.agent.tools.search_files import WORKER
from prime_ext.agent.tools.secret_files import (
    LOOKED_AT_BYTES,
    Suspicion,
    is_secret,
    secret_in_file,
    secret_inside,
    suspicion,
)
from prime_ext.errors import PrimeError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tools.conftest import Call

SECRET = """
.env .env.local .env.bak env env.local dotenv .envrc .Renviron Renviron.site
notebook_secret jupyter_cookie_secret jpserver-4711.json nbserver-4711.json
server.PEM AuthKey_2X9.p8 cert.pfx store.jks vault.kdbx me.ppk backup.gpg office.ovpn
id_rsa id_ed25519 id_rsa.old ssh_host_ed25519 login.keychain-db login.keyring secring.gpg wallet.dat
privkey.txt sshkey ssh_key master.key seed_phrase.txt recovery_codes.txt github-recovery-codes.txt
backup_codes.txt
credentials credentials.json aws_credentials.txt Credentials.xml creds.yml
credentials.json.bak credentials.json~ application_default_credentials.json
client_secret_1.json client_secret_123-abc.apps.googleusercontent.com.json secrets.yaml secrets.toml
secrets.enc.yaml secret.txt topsecret.txt secrets.md
passwd passwd.txt passwords.txt passwords.md mypasswords.txt db_password passphrase.txt
wifi_passwords.md pw.txt pwd.txt pass.txt my_pass.txt master_pass.txt
htpasswd .htpasswd passwort.txt contraseñas.txt motdepasse.txt
pip.conf pip.ini .pypirc pypirc .npmrc npmrc .yarnrc.yml yarnrc .condarc condarc auth.json
netrc _netrc .netrc git-credentials .git-credentials gitcookies
pgpass .pgpass pgpass.conf pg_service.conf my.cnf .my.cnf mylogin.cnf odbc.ini cwallet.sso
profiles.yml connections.toml
boto.cfg .s3cfg s3cfg rclone.conf kubeconfig kubeconfig.yaml kube_config .dockercfg dockerconfigjson
terraform.tfstate terraform.tfstate.backup prod.tfvars kaggle.json databrickscfg adc.json
my-project-firebase-adminsdk-x1y2z.json service-account.json service_account_prod.json
jupyter_server_config.py jupyter_lab_config.json msal_token_cache.json token.pickle
api_key.txt apikey.json APIKey.txt openai-key.txt OPENAI_API_KEY openai_key.json private-key.txt
anthropic_key.yml hf_token github_token.txt access_tokens.json
"""

DEPENDS = """
prod.env db.env backend.env.production weather.env env.sh server.key slides.key group_vars_vault.yml
key key.json keys.txt keys.json label_key.json gene_key.txt codebook_key.txt treatment_key.txt
dichotomous_key.txt token token.txt token.json jupyter_token.txt
passwords-work-laptop.txt bot-token.cfg the_secret_agent.txt secret_history.txt secret_message.txt
managing_secrets.md secret_project_plan.md dim_account_key.json microcredentials.txt
"""

HARMLESS = """
tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json tokens.csv
token_counts.csv pad_token.txt eos_token.json vocab.txt max_tokens.yaml
secretary.csv secretaries.csv secretion_rates.csv secret_santa.csv secret_garden.txt
password_strength_analysis.ipynb password_strength.csv common_passwords.txt leaked_passwords.csv
password_reset_flow.md password_policy.json secret_sharing.ipynb credential_stuffing_detection.ipynb
how_to_rotate_credentials.ipynb api_key_rotation.md secret_notes.ipynb Passwords.ipynb
secrets.py credentials.py key.py token.py passwords.sql test_secrets.py secret_store.ts
.env.example .env.sample prod.env.template secrets.example.yaml credentials.sample.json
credentials_template.json id_ed25519.pub keys.csv keyboard.txt monkey.json keynote_talks.csv
foreign_key.csv foreign_key.json primary_key.txt answer_key.json answer_key.txt
translation_keys.json
environment.yml env.py requirements.txt config.json config.yaml settings.ini pyproject.toml
docker-compose.yml data.csv analysis.ipynb work.ipynb README.md notes.txt passengers.csv passing.csv
compass.txt author.csv authors.json accounts.csv users.csv login_times.csv service_times.json
dim_account_key.csv account_key.csv subscription_keys.csv teacher_credentials.csv
student_credentials.parquet microcredentials.csv victorias_secret_sales.csv victoriassecret_com.csv
trade_secrets_cases.csv secret_weapon.png session_tokens.csv secret_sharer.pdf hf_tokens.npy
"""


def test_names() -> None:
    certain, none = Suspicion.CERTAIN, Suspicion.NONE
    assert [name for name in shlex.split(SECRET) if suspicion(name) is not certain] == []
    assert [name for name in shlex.split(DEPENDS) if suspicion(name) in (certain, none)] == []
    assert [name for name in shlex.split(HARMLESS) if suspicion(name) is not none] == []


@given(
    st.sampled_from(shlex.split(SECRET)),
    st.sampled_from(["", ".bak", ".old", "~", ".1", ".orig", ".bak.2"]),
    st.booleans(),
)
def test_a_copy_of_a_secret_is_one(name: str, end: str, upper: bool) -> None:
    assert is_secret(name.upper() + end.upper() if upper and name.islower() else name + end)


@given(st.text(max_size=60))
def test_any_name_has_an_answer(name: str) -> None:
    assert is_secret(name) is (suspicion(name) is Suspicion.CERTAIN)


JWT = ".".join(
    (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
        "dozjgNryP4J3jVmNHl0w5N",
    )
)
NOVEL = """Title: The Secret Agent

Language: English
Encoding: ISO-8859-1

CHAPTER I

Mr Verloc, going out in the morning, left his shop nominally in charge of
his brother-in-law. It could be done, because there was very little business
at any time, and practically none at all before the evening. Mr Verloc cared
but little about his ostensible business. And, moreover, his wife was in
charge of his brother-in-law. The shop was small, and so was the house.
"""
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
        ("conf.yaml", "api: sk-svcacct-" + "aB3dE6gH9jK2" * 3 + "\n"),
        ("openai.txt", "sk-" + "aB3dE6gH9jK2" * 4),
        ("utf16.txt", ("sk-" + "aB3dE6gH9jK2" * 4).encode("utf-16")),
        ("utf32.txt", ("sk-" + "aB3dE6gH9jK2" * 4).encode("utf-32")),
        ("data.json", json.dumps({"jwt": JWT})),
        ("kube.txt", "users:\n- name: a\n  user:\n    token: eyJhbGciOiJSUzI1NiIsImt.abc\n"),
        ("conn.txt", "postgresql://user:s3cretpass@db.example.com/prod"),
        ("access.ini", "id = AKIAQ3EGRPT2ZXWV5LNM\n"),
        ("log.txt", "calls AWS as AKIAQ3EGRPTTZXWVYLNM\n"),
        ("Chrome Passwords.csv", "name,url,username,password\nx,https://x,me,hunter2\n"),
        ("weather.env", "RTTOV=1\nDB_PASS=hunter2x\n"),
        ("prod.env", "API_KEY=8sk2md93kq\n"),
        ("token.txt", "8sk2md93kqPq71Zz0a4T\n"),
        ("keys.json", json.dumps({"weather_api_key": "8sk2md93kq"})),
        ("passwords-laptop.txt", "gmail hunter2x\nbank  me@x.org Tr0ub4dor&3\n"),
        ("passwords-laptop.txt", "gmail: hunter2x\n"),
        ("secret_stuff.txt", "Hunter2\n"),
        ("secret_project_plan.md", "We begin in May.\n\npassword: swordfish\n"),
        ("secrets.py", 'WIFI_PASSWORD = "correct horse"\nAPI_KEY = "0123456789abcdef"\n'),
    ],
)  # fmt: skip
def test_secrets_by_content(name: str, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    assert secret_inside(name, data) is not None


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
        ("credentials.py", "TOKEN_URI = 'https://oauth2.googleapis.com/token'\n"),
        ("module.pyc", "\x00\x01postgresql://user:s3cretpass@db.example.com/prod"),
        ("readme.rst", "oracle://scott:tiger@host, https://abc:xyz@host, https://me:…@host\n"),
        ("work.ipynb", '{"cells": [{"source": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}]}'),
        ("cert.txt", f"-----BEGIN CERTIFICATE-----\n{KEY}\n"),
        ("data.csv", "machine,login,password_strength\npump,3,4\n"),
        ("peptides.csv", "peptide,score\nAKIADLVGEWTPKSFRHNQY,0.3\nAKIADLVGEWTPKSFRHNQYAWS,1\n"),
        ("peptides.json", json.dumps({"peptide": "AKIADLVGEWTPKSFRHNQY"})),
        ("proteins.fasta", ">sp|P1\nMSTNPKPQRK\nAKIAVTGLLAGDEKSFHWPNRTQ\n"),
        ("blobs.csv", "id,blob\n1,AKIAABCDEFGH12345678\n"),
        ("openapi.json", json.dumps({"refresh_token": "string-of-something"})),
        ("openapi.json", json.dumps({"client_secret": "placeholder-value"})),
        ("answers.json", json.dumps({"private_key": "explains what a private key is"})),
        ("readme.md", "connect to postgresql://user:password@host/db or http://localhost:8888\n"),
        ("label_key.json", json.dumps({"0": "cat", "1": "dog", "key": "label"})),
        ("key.json", json.dumps({"key": "C major", "keys": ["C", "D"], "sort_key": "date_added"})),
        ("gene_key.txt", "BRCA1\nTP53\n"),
        ("codebook_key.txt", "1=male 2=female\n9=missing\n"),
        ("treatment_key.txt", "A=placebo\nB=drug_10mg\n"),
        ("dichotomous_key.txt", "1. Leaves opposite: go to 2\n1'. Leaves alternate: go to 7\n"),
        ("the_secret_agent.txt", NOVEL),
        ("secret_message.txt", "ATTACK AT DAWN\n"),
        ("weather.env", "OMP_NUM_THREADS=4\nMODEL=gpt2-xl\nKEYS=a,b\nMAX_TOKENS=4096\n"),
        ("vault.yml", "hub:\n  name: customer_hub\n  business_key: customer_id\n"),
        ("slides.key", "PK\x03\x04\x00\x00password: hunter2x"),
        ("managing_secrets.md", "Set `password: ${DB_PASSWORD}` and token: <your token>.\n"),
    ],
)
def test_ordinary_content(name: str, text: str) -> None:
    assert secret_inside(name, text.encode()) is None


SETTINGS = r"""
config.ini|password = hunter
config.ini|  DB_PASSWORD=swordfish  ; of the database
config.ini|password = pa#ss;word
config.ini|PassWord: 84927153
setup.cfg|smtp.passwd: swordfish
db.conf|passwort="correct horse battery staple"
app.toml|db = { user = "app", password = 'tr0mbone', port = 5 }
app.toml|[a]\nuser = "app"\npassword = "app-of-ours"
app.toml|github_token = "d9f2c81b7a3e4f60"
app.toml|api-key = "8sk2md93kq"
app.toml|secret_key = "3f2b8c1e-90aa-4d7b-8f11-2b6c0d9e7a55"
app.properties|spring.datasource.password=Tr0ub4dor
compose.yaml|      - POSTGRES_PASSWORD=Tr0ub4dor&3
compose.yml|      POSTGRES_PASSWORD: "hunter22"
x.yaml|apiKey: 8sk2md93kq
config.json|{"db": {"user": "me", "password": "swordfish"}}
appsettings.Production.json|{"ClientSecret": "8sk2md93kq"}
"""

NO_SECRETS_IN_SETTINGS = r"""
config.ini|password =
config.ini|password = \ntoken =\nuser = me
config.ini|token_count = 5\nmax_tokens = 4096\npassword_min_length = 12
config.ini|password = <your-password>\ntoken = <your-token>
config.ini|password = YOUR_PASSWORD_HERE\ntoken = your-token-123abc4def
config.ini|password = %(DB_PASSWORD)s\npasswd = ${PASSWD}\npwd = $PWD
config.ini|; password = hunter2\n# password = hunter2
config.ini|password = changeme\n[x]\npassword = example\n[y]\npassword = admin
config.ini|user = postgres\npassword = postgres\n[b]\nname = airflow\npassword = airflow
config.ini|password_file = /run/secrets/db\npassword = /run/secrets/db
config.ini|password = env:DB_PASSWORD\n[x]\npassword = vault:db/1
config.ini|bypass = strict8\ncompass = north1\npass = 0.85\npwd = data
tox.ini|pass_env = HOME2\npassenv = PIP_*
app.toml|password = true\ndb_password = "prompt"\npw = 1234
app.toml|password = "The password of the database"
app.toml|eos_token = "<|im_end|>"\npad_token = "PAD1x9Ab7c"\ntoken = "bert-base-uncased"
app.toml|sort_key = "8sk2md93kq"\nprimary_key = "8sk2md93kq"\npublic_key = "8sk2md93kq"
app.toml|ssh_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJx8sk2md93kq"
app.toml|passwords = "rockyou_2009.txt"\nexample_password = "hunter2"
conf.yaml|password: ENC[AES256_GCM,data:8sk2md93kq]
pl.yml|password: Hasło\nnew_password: Nowe hasło\nhint_password: Co najmniej 8 znaków
pl.yml|password: "Co najmniej 8 znaków"\nsecret: db-credentials
pl.properties|login.password=Hasło\nlogin.token=Kod
ci.yaml|token: ${{ secrets.CODECOV_TOKEN }}\npassword: ${{ secrets.PYPI }}
params.yaml|password:\n  type: string\ntokenizer: bert8sk2md93kq
config.json|{"pad_token": "[PAD]", "password": "", "token": null}
users.json|[{"password": "hunter2", "token": "d9f2c81b7a3e4f60"}]
users.csv|user,password\nme,hunter2\npassword=hunter2,1
notes.md|Set password = hunter2 and be done.
train.log|password = hunter2
model.py|password = "hunter2"
"""


def cases(table: str) -> list[tuple[str, bytes]]:
    rows = [line.partition("|")[::2] for line in table.strip().splitlines()]
    return [(name, text.replace("\\n", "\n").encode()) for name, text in rows]


@pytest.mark.parametrize(("name", "text"), cases(SETTINGS))
def test_a_secret_that_is_set_in_a_file_of_settings(name: str, text: bytes) -> None:
    assert "a password or key, as " in (secret_inside(name, text) or "")


@pytest.mark.parametrize(("name", "text"), cases(NO_SECRETS_IN_SETTINGS))
def test_settings_that_hold_no_secret(name: str, text: bytes) -> None:
    assert secret_inside(name, text) is None


@pytest.mark.parametrize(
    "piece",
    [
        "\n",
        "machine x ",
        '"auths":{',
        "key",
        " ",
        '"client_secret":"',
        "sk-ant-",
        "A" * 20 + "-",
        "key=",
        "pass=a",
        "://a:",
        "eyJaaaaaaaaaaaa.",
        "url,username,",
        "a=",
        "pwd:'",
        "_key",
        "AKIA",
    ],
)
def test_no_content_takes_long(piece: str) -> None:
    data = (piece * LOOKED_AT_BYTES).encode()[:LOOKED_AT_BYTES]
    begun = time.process_time()
    for name in ("config.json", "x.ini", "secrets.py", "passwords-of-x.txt"):
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

    secret = ["pip.conf", "Creds/prod.txt", "passwd.txt", "label_key.json", "gcp.json"]
    for name in (*secret, "tokenizer.json", "codebook_key.txt", "teacher_credentials.csv"):
        put(name)
    put("label_key.json", json.dumps({"api_key": "8sk2md93kq", "about": "needle"}))
    put("gcp.json", json.dumps({"type": "service_account", "project": "needle"}))
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
    listed = await lines(call, "list_files")
    assert {line.split()[0] for line in listed if "may hold secrets" in line} == {
        "Creds/", "passwd.txt", "pip.conf", "label_key.json",
    }  # fmt: skip
    found = await lines(call, "search_files", pattern="needle")
    hits = [line for line in found[:-1] if not line.startswith(" ")]
    assert hits == ["codebook_key.txt", "teacher_credentials.csv", "tokenizer.json"]
    assert found[-1] == (
        "[Not searched, since they may hold secrets: Creds, gcp.json, label_key.json and 2 more.]"
    )


LOADED = """
import runpy, sys
before = set(sys.modules)
runpy.run_path(sys.argv[1])
loaded = set(sys.modules) - before
print(*sorted(m for m in loaded if m.partition(".")[0] not in sys.stdlib_module_names))
"""


def test_the_search_loads_nothing_of_the_server() -> None:
    told = subprocess.run(
        [sys.executable, "-I", "-c", LOADED, str(WORKER)],
        capture_output=True,
        check=True,
        text=True,
    )
    assert told.stdout.split() == [
        "secret_files",
        *(f"secret_files.{name}" for name in ("content", "names", "settings", "values")),
    ]


async def test_what_is_left_out_of_a_search_does_not_depend_on_what_is_in_it(
    call: Call, root: Path
) -> None:
    (root / "conf.yaml").write_text("api: sk-ant-api03-" + "aB3dE6gH9jK2" * 3)
    right = await lines(call, "search_files", pattern="sk-ant-api03-a")
    wrong = await lines(call, "search_files", pattern="sk-ant-api03-b")
    assert right[1:] == wrong[1:] == ["[Not searched, since they may hold secrets: conf.yaml.]"]
    assert right[0].replace("03-a", "03-b") == wrong[0]


async def test_the_refusal_names_the_setting(call: Call, root: Path) -> None:
    (root / "config.ini").write_text("[db]\nhost = needle\nDB_PASSWORD = swordfish\n")
    with pytest.raises(PrimeError, match="holds a password or key, as 'DB_PASSWORD'"):
        await call("read_file", path="config.ini")
    found = await lines(call, "search_files", pattern="needle")
    assert found[-1] == "[Not searched, since they may hold secrets: config.ini.]"
    (root / "config.ini").write_text("[db]\nhost = needle\nDB_PASSWORD = <your password>\n")
    assert len(await lines(call, "read_file", path="config.ini")) == 3


async def test_no_secret_is_written(call: Call, root: Path) -> None:
    """What the agent could not clean up again, it does not write."""
    secret = 'api = "sk-ant-api03-' + "aB3dE6gH9jK2" * 3 + '"\n'
    (root / "old.cfg").write_text("api = none\n")
    for tool, path, more in (
        ("write_file", "new.cfg", {"content": secret}),
        ("write_file", "old.cfg", {"content": secret}),
        ("edit_file", "old.cfg", {"old": "api = none\n", "new": secret}),
    ):
        with pytest.raises(PrimeError, match="would hold an access token") as caught:
            await call(tool, path=path, **more)
        assert caught.value.code == "secret_file"
    assert not (root / "new.cfg").exists()
    assert (root / "old.cfg").read_text() == "api = none\n"
    await call("write_file", path="label_key.json", content='{"0": "cat"}')
    await call("edit_file", path="label_key.json", old="cat", new="dog")
    assert await lines(call, "read_file", path="label_key.json") == ['1\t{"0": "dog"}']


async def lines(call: Call, tool: str, **arguments: Any) -> list[str]:
    (block,) = (await call(tool, **arguments)).content
    return str(block["text"]).splitlines()
