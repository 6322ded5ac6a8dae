"""What ``jupyter prime run`` does, prints and ends with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from prime_ext.cli.main import main
from tests.headless.conftest import PATIENCE, CarryOut, Start, appears, is_alive
from tests.messages_api.script import Failure, Fault, call, reply
from tests.messages_api.server import MessagesAPI

WORK = "work.ipynb"


def read(path: Path) -> Any:
    node = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(node)
    return node


def inserted_and_run(source: str) -> list[Any]:
    """Replies that insert a cell, run it by the id it was given, and say so."""

    def run(request: Any) -> Any:
        text = request.tool_result_text
        return reply(call("run_cell", cell_id=text.split("id ")[1].split()[0].strip(".,:`'")))

    return [reply("A new cell.", call("insert_cell", source=source)), run, reply("It is there.")]


@pytest.fixture
def script(messages_api: MessagesAPI) -> Any:
    """Answers that may depend on the request, in order."""

    def play(answers: list[Any]) -> None:
        waiting = list(answers)

        def respond(request: Any) -> Any:
            answer = waiting.pop(0)
            return answer(request) if callable(answer) else answer

        messages_api.respond = respond

    return play


def test_it_works_on_the_notebook_and_says_so(
    carry_out: CarryOut, folder: Path, script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script(inserted_and_run("import os\nprint(os.getpid())\nkept = 7"))
    run = carry_out(WORK, "Add a cell.", "--yes")
    assert run.status == 0
    assert run.out == "A new cell.\nIt is there.\n"
    assert "✓ Insert a code cell" in run.err
    assert "done, 3 requests, about $" in run.err
    node = read(folder / WORK)
    assert [cell.cell_type for cell in node.cells] == ["markdown", "code", "code"]
    assert node.cells[-1].execution_count == 1
    assert not is_alive(int(node.cells[-1].outputs[0].text))
    assert main(["sessions", "--json"]) == 0
    (session,) = json.loads(capsys.readouterr().out)
    assert session["notebook"] == WORK
    assert "kept" in session["snapshots"][0]["names"]


def test_kernel_and_run_talk_encrypted_so_that_the_kernel_does_not_warn_of_eavesdroppers(
    start: Start, messages_api: MessagesAPI
) -> None:
    messages_api.enqueue(reply(call("run_code", code="print(6 * 7)")), reply("42."))
    run = start(WORK, "Compute.", "--yes")
    assert run.end() == 0
    assert messages_api.requests[1].tool_result_text == "42"
    assert "without encryption" not in run.err


def test_json_has_all_a_script_may_want(
    start: Start, folder: Path, messages_api: MessagesAPI
) -> None:
    before = (folder / WORK).read_bytes()
    messages_api.enqueue(
        reply("Looking.", call("read_notebook"), call("read_file", path="gone.csv")),
        reply("Two cells."),
    )
    run = start(WORK, "-", "--json", "--output", "copies/out.ipynb", stdin="What is in it?\n")
    assert run.end() == 0
    result = run.json
    assert (result["status"], result["exit_status"]) == ("done", 0)
    assert (result["notebook"], result["reply"]) == ("copies/out.ipynb", "Two cells.")
    assert sorted((t["name"], t["is_error"]) for t in result["tools"]) == [
        ("read_file", True),
        ("read_notebook", False),
    ]
    assert result["requests"] == 2
    assert result["usage"]["output_tokens"] > 0
    assert result["cost_usd"] > 0
    assert result["error"] is None
    assert messages_api.requests[0].user_text == "What is in it?\n"
    assert (folder / WORK).read_bytes() == before
    read(folder / "copies" / "out.ipynb")


# --- what it is not allowed to do -------------------------------------------------------------


def test_what_ends_behind_the_last_reply_is_reported(
    carry_out: CarryOut, messages_api: MessagesAPI
) -> None:
    code = "import time\ntime.sleep(2)\nprint('best 0.97')\n1 / 0"
    messages_api.enqueue(reply(call("run_code", code=code)), reply("It trains."))
    at_once = "--ModelConfig.run_notice_seconds=0.1"
    run = carry_out(WORK, "Train.", "--yes", "--json", at_once)
    assert run.status == 0
    begun, ended = json.loads(run.out)["tools"]
    assert (begun["is_error"], ended["is_error"]) == (False, True)
    assert begun["summary"] == ended["summary"]
    assert "best 0.97" in ended["text"]
    assert "  best 0.97\n" in run.err
    assert "ZeroDivisionError" in run.err


def test_without_a_terminal_it_stops_where_it_would_have_to_ask(
    carry_out: CarryOut, folder: Path, messages_api: MessagesAPI
) -> None:
    before = (folder / WORK).read_bytes()
    messages_api.enqueue(reply("I will.", call("insert_cell", source="y = 2")))
    run = carry_out(WORK, "Add a cell.")
    assert run.status == 3
    assert "no terminal to ask on: Insert a code cell" in run.err
    assert "--yes" in run.err
    assert "Not run: the turn was stopped first." in run.err
    assert (folder / WORK).read_bytes() == before
    assert len(messages_api.requests) == 1


def test_on_a_terminal_it_asks(start: Start, folder: Path, messages_api: MessagesAPI) -> None:
    messages_api.enqueue(
        reply(call("insert_cell", source="y = 2"), call("insert_cell", source="z = 3")),
        reply(call("run_code", code="1 + 1")),
        reply("Two cells, nothing run."),
    )
    run = start(WORK, "Add cells.", terminal=True)
    run.see("y = 2")
    run.see("[a] always allow insert_cell")
    run.type("what?\n")
    run.see("[n] no: ", times=2)
    run.type("a\n")
    run.see("1 + 1")
    run.see("[n] no: ", times=3)
    run.type("n\n")
    assert run.end() == 4
    assert [cell.source for cell in read(folder / WORK).cells[2:]] == ["y = 2", "z = 3"]
    assert run.out == "Two cells, nothing run.\n"
    assert "declined" in messages_api.requests[2].tool_result_text


def test_what_is_asked_is_what_is_seen_and_answered(
    start: Start, folder: Path, messages_api: MessagesAPI
) -> None:
    code = "print('harm')  # \x1b[2K\x1b[1A\x1b[2Kprint('harmless')\u202e"
    first = call("list_files")
    messages_api.enqueue(
        reply(first, fault=Fault("pause", after=4)), reply(call("run_code", code=code)), reply("-")
    )
    run = start(WORK, "Go.", terminal=True)
    messages_api.wait_for_requests(1, 60)
    run.type("y\n")  # before anything was asked
    messages_api.resume()
    run.see("[n] no: ")
    assert "\x1b" not in run.err
    assert "\\x1b[2K\\x1b[1A\\x1b[2Kprint('harmless')\\u202e" in run.err
    run.type("n\n")
    assert run.end() == 4


def test_plan_mode_changes_nothing(
    carry_out: CarryOut, folder: Path, messages_api: MessagesAPI
) -> None:
    before = (folder / WORK).read_bytes()
    messages_api.enqueue(reply(call("insert_cell", source="y = 2")), reply("I would add a cell."))
    run = carry_out(WORK, "Add a cell.", "--mode", "plan")
    assert run.status == 0
    assert (folder / WORK).read_bytes() == before


def test_yes_is_no_consent_and_consent_is_given_once(
    start: Start, carry_out: CarryOut, messages_api: MessagesAPI
) -> None:
    asking = (WORK, "Hello?", "--ModelConfig.consent=always")
    run = carry_out(*asking, "--yes")
    assert run.status == 3
    assert "--yes is no consent" in run.err
    assert messages_api.requests == []

    refused = start(*asking, terminal=True)
    refused.see("[n] no: ")
    refused.type("\x04")
    assert refused.end() == 4
    assert messages_api.requests == []

    messages_api.enqueue(reply("Hello."), reply("Hello again."))
    agreed = start(*asking, terminal=True)
    agreed.see("[n] no: ")
    agreed.type("y\n")
    assert agreed.end() == 0
    again = carry_out(*asking)
    assert (again.status, again.out) == (0, "Hello again.\n")


def test_yes_does_not_go_past_what_the_administrator_allows(
    carry_out: CarryOut, environment: dict[str, str], messages_api: MessagesAPI
) -> None:
    config = Path(environment["JUPYTER_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "jupyter_lab_config.py").write_text(
        "c.PermissionConfig.allowed_modes = ['ask', 'plan']\n"
    )
    run = carry_out(WORK, "Go.", "--yes")
    assert run.status == 2
    assert "--mode: ask, plan" in run.err
    assert messages_api.requests == []


# --- stopping ---------------------------------------------------------------------------------


def test_ctrl_c_stops_the_model(start: Start, folder: Path, messages_api: MessagesAPI) -> None:
    messages_api.enqueue(reply("One two three.", fault=Fault("pause", after=4)))
    run = start(WORK, "Count.")
    messages_api.wait_for_requests(1)
    run.interrupt()
    run.see("Stopping")
    assert run.end() == 130
    read(folder / WORK)


def test_a_run_whose_words_nobody_reads_any_more_is_stopped_as_well(
    folder: Path, environment: dict[str, str], messages_api: MessagesAPI
) -> None:
    """Its terminal was closed, or Ctrl+C has ended ``tee`` behind it."""
    messages_api.enqueue(reply("One two three.", fault=Fault("pause", after=4)))
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "prime_ext.cli.main", "run", WORK, "Count."]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as run:
        os.close(theirs)
        messages_api.wait_for_requests(1)
        os.close(ours)
        run.send_signal(signal.SIGINT)
        try:
            assert run.wait(PATIENCE) == 130
        finally:
            run.kill()


def test_ctrl_c_interrupts_a_cell_and_keeps_what_it_had_put_out(
    start: Start, folder: Path, script: Any
) -> None:
    script(
        inserted_and_run(
            "import os, time\nprint(os.getpid(), flush=True)\n"
            "open('running', 'w').write('yes')\ntime.sleep(600)"
        )
    )
    run = start(WORK, "Wait.", "--yes", "--json")
    run.see("Insert a code cell")
    appears(folder / "running")
    run.interrupt()
    assert run.end() == 130
    assert run.json["status"] == "interrupted"
    outputs = read(folder / WORK).cells[-1].outputs
    assert not is_alive(int(outputs[0].text))


def test_ctrl_c_is_an_answer_too(start: Start, folder: Path, messages_api: MessagesAPI) -> None:
    before = (folder / WORK).read_bytes()
    messages_api.enqueue(reply(call("insert_cell", source="y = 2")))
    run = start(WORK, "Add a cell.", terminal=True)
    run.see("[n] no: ")
    run.interrupt()
    assert run.end() == 130
    assert (folder / WORK).read_bytes() == before


_DEAF = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
_DEAF += "open('deaf', 'w').write(str(os.getpid()))\ntime.sleep(600)"


def test_ctrl_c_twice_gives_up_at_once_and_loses_nothing(
    start: Start, folder: Path, script: Any
) -> None:
    script(inserted_and_run(f"import os\nprint('so far', flush=True)\n{_DEAF}"))
    run = start(WORK, "Wait.", "--yes", "--json")
    appears(folder / "deaf")
    run.interrupt()
    run.see("Stopping")
    run.see("It has not stopped")
    run.interrupt()
    assert run.end() == run.json["exit_status"] == 130
    (log,) = folder.parent.rglob("session.jsonl")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [r["status"] for r in records if r["kind"] == "turn_end"] == ["interrupted"]
    assert "code_still_runs" not in log.read_text()  # nothing waited for it to end by itself
    assert "so far" in read(folder / WORK).cells[-1].outputs[0].text
    assert not is_alive(int((folder / "deaf").read_text()))


def test_code_that_cannot_be_stopped_ends_with_its_kernel(
    start: Start, folder: Path, messages_api: MessagesAPI
) -> None:
    messages_api.enqueue(reply(call("run_code", code=f"import os\n{_DEAF}")))
    run = start(WORK, "Wait.", "--yes", "--json")
    appears(folder / "deaf")
    run.interrupt()
    run.see("It has not stopped")
    assert run.end() == 130
    assert run.json["error"]["code"] == "code_still_runs"
    assert "The kernel is shut down now, and the code with it." in run.err
    assert not is_alive(int((folder / "deaf").read_text()))


# --- exit statuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "variables", "status", "told"),
    [
        (("gone.ipynb", "Go."), {}, 6, "There is no notebook 'gone.ipynb'. Check the path."),
        (("notes.txt", "Go."), {}, 6, "cannot be opened as a notebook"),
        (("copies", "Go."), {}, 6, "is a directory, not a notebook. Give the path"),
        (("../other/n.ipynb", "Go.", "--ServerApp.root_dir=."), {}, 6, "--ServerApp.root_dir"),
        ((WORK, "Go.", "--output", WORK), {}, 6, "exists already"),
        ((WORK, "Go."), {"PRIME_API_KEY": None, "ANTHROPIC_BASE_URL": None}, 7, "PRIME_API_KEY"),
        ((WORK, "Go."), {"PRIME_API_KEY": "wrong-key-0123456789"}, 7, "run it again"),
        ((WORK, "Go.", "--model", "claude-nothing-1"), {}, 7, "claude-nothing-1"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:40],
)
def test_what_cannot_begin_ends_with_a_status_of_its_own(
    carry_out: CarryOut,
    folder: Path,
    arguments: tuple[str, ...],
    variables: dict[str, str | None],
    status: int,
    told: str,
) -> None:
    (folder / "notes.txt").write_text("no notebook")
    (folder / "copies").mkdir()
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "n.ipynb").write_text("{}")
    run = carry_out(*arguments, variables=variables)
    assert (run.status, run.out) == (status, "")
    assert told in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--mode", "root"], "invalid choice: 'root'"),
        (["--mode", "auto", "--yes"], "not allowed with argument"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["more"], "unrecognized arguments: more"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", WORK, "Go.", *arguments])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("trait", "told"),
    [
        ("Foo.max_attempts=1", "There is no class Foo to configure."),
        ("ModelConfg.max_attempts=3", "Was --ModelConfig.max_attempts meant?"),
        ("modelconfig.max_attempts=3", "Was --ModelConfig.max_attempts meant?"),
        ("qqqqq.max_attempts=3", "There is no class qqqqq to configure. docs/configuration.md"),
        ("ModelConfig.max_attemps=3", "Was --ModelConfig.max_attempts meant?"),
        ("ModelConfig.qqqqq=3", "docs/configuration.md"),
        ("ServerApp.prt=1", "Was --ServerApp.port meant?"),
        ("ModelConfig.max_attempts=abc", "does not take 'abc'. Give an int from 1 on."),
        ("ContextConfig.landing_share=2", "does not take '2.0'. Give a float from 0.1 to 0.9."),
        ("PermissionConfig.default_mode=root", "Give any of ['ask', 'edit', 'auto', 'plan']."),
        ("PermissionConfig.allowed_modes=root", "does not take"),
        ("MappingKernelManager.cull_idle_timeout=5h", "does not take '5h'. Give an int."),
    ],
)
def test_a_trait_that_would_be_ignored_is_refused(
    carry_out: CarryOut, messages_api: MessagesAPI, trait: str, told: str
) -> None:
    run = carry_out(WORK, "Go.", "--json", f"--{trait}")
    assert (run.status, run.json["status"], run.json["error"]["code"]) == (2, "usage", "bad_trait")
    assert told in run.err
    assert messages_api.requests == []


def test_a_configuration_that_is_refused_ends_the_run(
    carry_out: CarryOut, environment: dict[str, str]
) -> None:
    config = Path(environment["JUPYTER_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "jupyter_server_config.py").write_text("c.PermissionConfig.allowed_modes = []\n")
    run = carry_out(WORK, "Go.")
    assert run.status == 2
    assert run.err.startswith("The configuration is wrong: PermissionConfig.allowed_modes needs")


def test_lists_and_traits_of_other_packages_are_taken(
    carry_out: CarryOut, messages_api: MessagesAPI
) -> None:
    messages_api.enqueue(reply("Nothing to do."))
    run = carry_out(
        WORK,
        "Go.",
        "--PermissionConfig.allowed_modes=ask",
        "--PermissionConfig.allowed_modes=plan",
        "--AsyncKernelManager.shutdown_wait_time=2.5",
        "--LargeFileManager.hide_globs=tmp",
    )
    assert (run.status, run.out) == (0, "Nothing to do.\n")


def test_an_empty_task_is_refused(carry_out: CarryOut) -> None:
    run = carry_out(WORK, "  ", "--json")
    assert run.status == 2
    assert "The task is empty" in run.err
    assert run.json["status"] == "usage"


def test_a_server_that_fails_is_a_failure(carry_out: CarryOut, messages_api: MessagesAPI) -> None:
    messages_api.enqueue(Failure(500))
    run = carry_out(WORK, "Go.", "--json", "--ModelConfig.max_attempts=1")
    assert run.status == 1
    assert run.json["error"]["code"] == "server_error"


def test_a_reply_that_is_cut_short_is_no_success(
    carry_out: CarryOut, messages_api: MessagesAPI
) -> None:
    messages_api.enqueue(reply("The first half", stop_reason="max_tokens"))
    run = carry_out(WORK, "Go.")
    assert (run.status, run.out) == (1, "The first half\n")
    assert "cut off" in run.err


def test_the_limit_of_a_turn_holds_with_yes(carry_out: CarryOut, messages_api: MessagesAPI) -> None:
    messages_api.enqueue(reply(call("list_variables")))
    run = carry_out(WORK, "Go on.", "--yes", "--ModelConfig.max_requests_per_turn=1")
    assert run.status == 5
    assert "has used 1 request to the model. It ends here" in run.err


def test_the_offline_agent_answers_when_asked_to(carry_out: CarryOut, folder: Path) -> None:
    run = carry_out(
        WORK,
        "add a cell with y = 2",
        "--yes",
        "--model",
        "offline",
        variables={"PRIME_API_KEY": None, "ANTHROPIC_BASE_URL": None},
    )
    assert run.status == 0
    assert "y = 2" in [cell.source for cell in read(folder / WORK).cells]


def test_the_kernel_is_kept_when_asked_to(
    start: Start, messages_api: MessagesAPI, folder: Path
) -> None:
    messages_api.enqueue(
        reply(call("run_code", code="import os\nopen('pid', 'w').write(str(os.getpid()))")),
        reply("Running."),
    )
    run = start(WORK, "Go.", "--yes", "--keep-kernel", "--json")
    assert run.end() == 0
    pid = int((folder / "pid").read_text())
    try:
        assert is_alive(pid)
        # The kernel prints nothing into it, and nobody waits for the kernel to read it.
        assert run.is_read()
        assert run.json["reply"] == "Running."
        connection = run.err.split("jupyter console --existing ")[1].split("\n")[0].strip()
        assert json.loads(Path(connection).read_text())["shell_port"]
    finally:
        os.kill(pid, signal.SIGKILL)
