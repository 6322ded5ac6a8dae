"""A run that takes longer than a call may: the model is told, waits, interrupts, or goes on."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.history import History
from prime_ext.agent.repair import missing_records
from prime_ext.agent.tools import runs as runs_module
from prime_ext.context.tokens import count_text
from prime_ext.errors import PrimeError
from prime_ext.kernel import execution
from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.notebook_kernel import NotebookKernel
from prime_ext.session.records import RunEnd, ToolResult
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.agent.test_compaction import SUMMARY
from tests.kernel.conftest import leave, occupy, text_of
from tests.messages_api.script import Fault, call, reply
from tests.notebook.browser import FakeBrowser

WORK = """
import os, time
print("begun", flush=True)
kept = 1
while not os.path.exists("go"):
    time.sleep(0.02)
print("ended")
"""


STUBBORN = """
import os, time
print("begun", flush=True)
while not os.path.exists("go"):
    try:
        time.sleep(0.02)
    except KeyboardInterrupt:
        print("ignored", flush=True)
print("ended")
"""


def results(driver: Driver) -> list[str]:
    return [
        "\n".join(block.get("text", "") for block in record.content)  # type: ignore[union-attr]
        for record in driver.records("tool_result")
    ]


async def begun(driver: Driver) -> None:
    """Return once the kernel has begun with the work."""
    await driver.frame(
        lambda f: f["type"] == "progress" and "begun" in str(f.get("outputs")), after=0
    )


async def awaited(driver: Driver) -> None:
    """Return once the model's second call waits for the run that its first has begun."""
    first = await driver.record("tool_result")
    waits = (await driver.record("assistant_message", after=first.seq)).content[-1]["id"]
    await driver.frame(lambda f: f["type"] == "progress" and f["call_id"] == waits, after=0)


async def left_running(driver: Driver) -> None:
    """Stop a turn whose code ignores that, once the model has answered: the run is left."""
    driver.api.enqueue(reply(call("run_code", code=STUBBORN)), reply("It trains."))
    await driver.send("Train.")
    await begun(driver)
    await driver.record("assistant_message", stop_reason="end_turn")
    await driver.stop()
    await driver.record("turn_end", status="interrupted")


async def behind_the_users_cell(
    driver: Driver, server: ServerApp
) -> tuple[NotebookKernel, KernelChannels]:
    """The session's kernel, in which the user's own work goes on, and the channels of the user."""
    kernel = (await driver.service.agent(driver.session)).kernel
    return kernel, await occupy(server, await kernel.ensure(), WORK)


def write_training(root: Path, source: str) -> nbformat.NotebookNode:
    """Write the notebook with one cell, ``train``."""
    cell = nbformat.v4.new_code_cell(source, id="train")
    content: nbformat.NotebookNode = nbformat.v4.new_notebook(cells=[cell])
    content.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(content, root / "work.ipynb")
    return content


class TestOutlasting:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ModelConfig": {"run_notice_seconds": 0.1}}

    async def test_the_model_waits_for_it(self, new_session: NewSession, jp_root_dir: Path) -> None:
        driver = await new_session()
        driver.api.enqueue(
            reply(call("run_code", code=WORK)),
            reply(call("wait_for_run", seconds=1), fault=Fault("pause", after=1)),
            reply(call("run_code", code="1")),
            reply(call("wait_for_run")),
            reply("Done."),
        )
        await driver.send("Work.")
        await begun(driver)
        driver.api.resume()
        await driver.requests(4)
        (jp_root_dir / "go").touch()
        end = await driver.record("turn_end")
        assert end.status == "ok"
        first, second, refused, last = results(driver)
        assert "wait_for_run" in first
        assert "Your code is still running after" in second
        assert refused.startswith("Not run: Your code is still running after ")
        assert last.split() == ["begun", "ended"]
        states = [record.is_error for record in driver.records("tool_result")]  # type: ignore[union-attr]
        assert states == [False, False, True, False]

    async def test_the_model_interrupts_it(self, new_session: NewSession) -> None:
        driver = await new_session()
        driver.api.enqueue(
            reply(call("run_code", code=WORK)),
            reply(call("interrupt_run"), fault=Fault("pause", after=1)),
            reply(call("interrupt_run")),
            reply("Done."),
        )
        await driver.send("Work.")
        await begun(driver)
        driver.api.resume()
        await driver.record("turn_end")
        _, interrupted, again = results(driver)
        assert interrupted.startswith("begun\n")
        assert "KeyboardInterrupt" in interrupted
        assert "was interrupted" in interrupted
        assert again.startswith("Nothing that you began is running.")

    async def test_what_waits_behind_the_users_cell_says_so_and_is_taken_back(
        self, new_session: NewSession, jp_root_dir: Path, jp_serverapp: ServerApp
    ) -> None:
        driver = await new_session()
        kernel, user = await behind_the_users_cell(driver, jp_serverapp)
        driver.api.enqueue(
            reply(call("run_code", code="unwanted = 1")),
            reply(call("interrupt_run")),
            reply("It was busy."),
        )
        await driver.ask("Work.")
        waits, taken_back = results(driver)
        assert "Your code has not begun after" in waits
        assert "take it back with interrupt_run" in waits
        assert taken_back == "Your code was taken back before the kernel had begun with it."
        (jp_root_dir / "go").touch()
        seen = await kernel.execute("kept, 'unwanted' in dir()", store_history=False)
        assert text_of(seen.outputs) == "(1, False)"
        await leave(user)

    async def test_stop_of_what_never_began_says_that_nothing_was_run(
        self, new_session: NewSession, jp_serverapp: ServerApp, jp_root_dir: Path
    ) -> None:
        driver = await new_session()
        _, user = await behind_the_users_cell(driver, jp_serverapp)
        driver.api.enqueue(reply(call("run_code", code="1")), reply(call("wait_for_run")))
        await driver.send("Work.")
        await awaited(driver)
        await driver.stop()
        await driver.record("turn_end", status="interrupted")
        assert results(driver)[-1].startswith("Stopped by the user before the kernel had begun")
        (jp_root_dir / "go").touch()
        await leave(user)

    async def test_a_cell_is_not_changed_under_its_run(
        self, new_session: NewSession, jp_root_dir: Path
    ) -> None:
        write_training(jp_root_dir, WORK)
        driver = await new_session()
        driver.api.enqueue(
            reply(call("run_cell", cell_id="train")),
            reply(
                call("edit_cell", cell_id="train", source="other = 1"),
                call("delete_cell", cell_id="train"),
            ),
            reply(call("wait_for_run")),
            reply(call("edit_cell", cell_id="train", source="other = 1")),
            reply("Done."),
        )
        await driver.send("Work.")
        await driver.requests(3)
        (jp_root_dir / "go").touch()
        await driver.record("turn_end", status="ok")
        _, refused, not_deleted, ended, edited = results(driver)
        assert refused.startswith("Cell train is being run with the source that it has now")
        assert "wait_for_run" in refused
        assert not_deleted == refused
        assert ended.split() == ["begun", "ended"]
        assert edited == "Edited cell [train], not run since."
        cell = nbformat.read(jp_root_dir / "work.ipynb", 4).cells[0]
        assert cell.source == "other = 1"

    async def test_the_turn_lasts_as_long_and_the_next_message_tells(
        self, new_session: NewSession, jp_root_dir: Path
    ) -> None:
        driver = await new_session()
        driver.api.enqueue(reply(call("run_code", code=WORK)), reply("It trains."), reply("I see."))
        await driver.send("Work.")
        await driver.record("assistant_message", stop_reason="end_turn")
        await begun(driver)
        assert not driver.records("turn_end")
        (jp_root_dir / "go").touch()
        await driver.record("turn_end")
        await driver.ask("And?")
        told = driver.records("user_message")[-1].content[0]["text"]  # type: ignore[union-attr]
        assert "Your code, which was still running, has ended:\nbegun\nended" in told

    async def test_stop_reaches_it_while_the_model_speaks(self, new_session: NewSession) -> None:
        driver = await new_session()
        driver.api.enqueue(
            reply(call("run_code", code=WORK)),
            reply("It trains, and trains.", fault=Fault("pause", after=1)),
        )
        await driver.send("Work.")
        await begun(driver)
        await driver.requests(2)
        await driver.stop()
        end = await driver.record("turn_end")
        assert end.status == "interrupted"
        driver.api.resume()
        driver.api.enqueue(reply("Yes."))
        await driver.ask("Was it stopped?")
        told = driver.records("user_message")[-1].content[0]["text"]  # type: ignore[union-attr]
        assert "KeyboardInterrupt" in told


class TestCodeThatIgnoresInterrupts:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"ModelConfig": {"run_notice_seconds": 0.1}}

    @pytest.fixture(autouse=True)
    def no_patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runs_module, "INTERRUPT_SECONDS", 0.3)
        monkeypatch.setattr(runs_module, "STOP_SECONDS", 0.3)
        monkeypatch.setattr(execution, "_INTERRUPT_SECONDS", 0.3)

    async def test_the_model_hears_so_interrupts_again_and_sees_the_end(
        self, new_session: NewSession, jp_root_dir: Path
    ) -> None:
        driver = await new_session()
        driver.api.enqueue(
            reply(call("run_code", code=STUBBORN)),
            reply(call("interrupt_run"), fault=Fault("pause", after=1)),
            reply(call("interrupt_run")),
            reply(call("run_code", code="1")),
            reply(call("wait_for_run")),
            reply("Done."),
        )
        await driver.send("Work.")
        await begun(driver)
        driver.api.resume()
        await driver.requests(5)
        (jp_root_dir / "go").touch()
        await driver.record("turn_end", status="ok")
        _, once, twice, refused, last = results(driver)
        for text in (once, twice, refused):
            assert "Your code was interrupted, but still runs after" in text
        assert refused.startswith("Not run: ")
        assert "only a restart of the kernel ends it" in twice
        assert last.split() == ["begun", "ignored", "ignored", "ended"]

    async def test_stop_ends_the_turn_and_the_cell_shows_the_run_to_its_end(
        self, new_session: NewSession, jp_root_dir: Path, jp_serverapp: ServerApp
    ) -> None:
        content = write_training(jp_root_dir, STUBBORN)
        hub = jp_serverapp.web_app.settings["prime_leases"]
        page = FakeBrowser(hub, "work.ipynb", json.loads(json.dumps(content))).connect()
        driver = await new_session()
        driver.api.enqueue(reply(call("run_cell", cell_id="train")), reply("It trains."))
        await driver.send("Train.")
        await begun(driver)
        await driver.stop()
        end = await driver.record("turn_end")
        assert end.status == "interrupted"
        told = await driver.record("error", code="code_still_runs")
        assert told.where == "kernel"
        await page.until(lambda: "ignored" in str(page.cell("train")["outputs"]))
        assert "train" in page.runs

        driver.api.enqueue(reply(call("run_code", code="1")), reply("It still runs."))
        end = await driver.ask("Go on.")
        assert end.status == "ok"
        said = "Cell [train] was interrupted, but still runs after"
        assert said in driver.records("user_message")[-1].content[0]["text"]  # type: ignore[union-attr]
        assert results(driver)[-1].startswith(f"Not run: {said}")
        await driver.idle()
        with pytest.raises(PrimeError, match="still runs in the kernel"):
            await driver.service.revert(driver.session, str(end.turn), "ada")
        nbformat.write(content, jp_root_dir / "other.ipynb")
        with pytest.raises(PrimeError, match="still runs in the kernel") as refused:
            await driver.service.update(driver.session, notebook="other.ipynb", title="Elsewhere")
        assert (refused.value.code, refused.value.status) == ("turn_running", 409)
        assert driver.session.notebook == "work.ipynb"
        assert not driver.records("settings")

        (jp_root_dir / "go").touch()
        await page.until(lambda: "train" not in page.runs)
        await driver.record("notebook_op", op="run_cell")
        await driver.record("run_end")
        cell = page.cell("train")
        assert cell["execution_count"] == 1
        assert "".join(cell["outputs"][0]["text"]).split() == ["begun", "ignored", "ended"]
        driver.api.enqueue(reply(call("run_code", code="40 + 2")), reply("42."))
        await driver.ask("And now?")
        told = driver.records("user_message")[-1].content[0]["text"]  # type: ignore[union-attr]
        assert "Cell [train], which was still running, has ended:\nbegun\nignored\nended" in told
        await driver.idle()
        # The load of the machine decides whether the call is answered before the run has ended.
        later = [str(record.content) for record in driver.records("run_end")[1:]]  # type: ignore[union-attr]
        assert any("42" in said for said in [results(driver)[-1], *later])
        await driver.service.update(driver.session, notebook="other.ipynb")
        assert driver.session.notebook == "other.ipynb"

    async def test_stop_during_the_call_says_that_it_still_runs(
        self, new_session: NewSession
    ) -> None:
        driver = await new_session()
        driver.api.enqueue(reply(call("run_code", code=STUBBORN)), reply(call("wait_for_run")))
        await driver.send("Work.")
        await begun(driver)
        await awaited(driver)
        await driver.stop()
        await driver.record("turn_end", status="interrupted")
        assert "Your code was interrupted, but still runs after" in results(driver)[-1]
        # A session that is closed lets go of it.
        await asyncio.wait_for(driver.service.close_session(driver.session), 20)

    async def test_a_kill_of_the_server_is_told_behind_a_compaction_too(
        self, new_session: NewSession, jp_serverapp: ServerApp, jp_root_dir: Path
    ) -> None:
        driver = await new_session()
        await left_running(driver)
        await driver.idle()
        driver.api.enqueue(reply("It still runs. " * 400), reply(SUMMARY))
        await driver.ask("And?")
        await driver.idle()
        await driver.service.compact(driver.session, None, "ada")
        compacted = await driver.record("compaction_end")
        assert (compacted.outcome, compacted.kept_from_seq) == ("ok", None)

        # What is on the disk now is what a kill leaves.
        left = driver.session.folder
        copy = left.with_name(f"{left.name[:-12]}{0:012}")
        shutil.copytree(left, copy)
        store = jp_serverapp.web_app.settings["prime_sessions"]
        killed = Driver(driver.service, store.get(copy.name), driver.api)
        driver.api.enqueue(reply("I see."))
        await killed.ask("What became of it?")
        (end,) = killed.records("run_end")
        assert end.tool_use_id == driver.records("tool_result")[0].run  # type: ignore[union-attr]
        told = killed.records("user_message")[-1].content[0]["text"]  # type: ignore[union-attr]
        assert "was still running when its session was closed or the server stopped" in told
        (jp_root_dir / "go").touch()


LOUD = """
import os, time
from IPython.display import display
print("begun", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
for epoch in range(600):
    print("epoch", epoch, "x" * 10_000)
pixel = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
display({"image/png": pixel, "text/plain": "a pixel"}, raw=True)
print("best 0.97", flush=True)
"""


class TestEndsThatNoCallWaitsFor:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {
            "ModelConfig": {"run_notice_seconds": 0.1},
            "ContextConfig": {"tool_result_cap_tokens": 1_000},
        }

    @pytest.mark.parametrize("stopped", [False, True])
    async def test_all_of_it_is_recorded_and_shown_and_the_model_told_what_fits(
        self, new_session: NewSession, jp_root_dir: Path, stopped: bool
    ) -> None:
        driver = await new_session()
        code = LOUD + ("while True: time.sleep(0.02)" if stopped else "")
        driver.api.enqueue(reply(call("run_code", code=code)), reply("It trains."), reply("I see."))
        await driver.send("Train.")
        await driver.record("assistant_message", stop_reason="end_turn")
        await begun(driver)
        seen = driver.session.log.last_seq
        (jp_root_dir / "go").touch()
        began = driver.records("tool_result")[0]
        if stopped:
            await driver.frame(lambda f: "best 0.97" in str(f), after=seen)
            await driver.stop()
        await driver.record("turn_end", status="interrupted" if stopped else "ok")
        assert driver.kinds().index("run_end") < driver.kinds().index("turn_end")
        (end,) = driver.records("run_end")
        assert (began.run, began.goes_on) == (began.tool_use_id, True)  # type: ignore[union-attr]
        assert (end.tool_use_id, end.turn) == (began.tool_use_id, began.turn)  # type: ignore[union-attr]
        assert "best 0.97" in str(end.outputs)  # type: ignore[union-attr]
        text, image = end.content  # type: ignore[union-attr]
        assert text["text"].startswith("Your code, which was still running, has ended:\nbegun\n")
        assert "KeyboardInterrupt" in text["text"] if stopped else "best 0.97" in text["text"]
        assert image["type"] == "image"
        shown = [output["data"] for output in end.outputs if "data" in output]  # type: ignore[union-attr]
        assert shown == [{"image/png": {"content_index": 1}, "text/plain": "a pixel"}]
        whole = driver.session.outputs.folder / str(end.output_file)  # type: ignore[union-attr]
        assert str(whole) in text["text"]
        assert len(whole.read_text()) > 6_000_000

        assert (await driver.ask("And?")).status == "ok"
        told = driver.records("user_message")[-1].content  # type: ignore[union-attr]
        assert text["text"] in told[0]["text"]
        assert count_text(told[0]["text"]) < 1_100
        assert [block["type"] for block in told] == ["text", "image", "text"]
        driver.api.enqueue(reply("Nothing."))
        await driver.ask("More?")
        assert len(driver.records("user_message")[-1].content) == 1  # type: ignore[union-attr]

    async def test_the_next_result_tells_and_opening_the_session_again_does_not(
        self, new_session: NewSession, jp_root_dir: Path
    ) -> None:
        driver = await new_session()
        driver.api.enqueue(
            reply(call("run_code", code=WORK)),
            reply(call("list_variables"), fault=Fault("pause", after=1)),
            reply("I see."),
        )
        await driver.send("Work.")
        await begun(driver)
        (jp_root_dir / "go").touch()
        end = await driver.record("run_end")
        driver.api.resume()
        await driver.record("turn_end", status="ok")
        said = "Your code, which was still running, has ended:\nbegun\nended"
        assert results(driver)[-1].endswith(said)
        assert driver.records("tool_result")[-1].tells == [end.seq]  # type: ignore[union-attr]
        await driver.service.close_session(driver.session)
        driver.api.enqueue(reply("Nothing."))
        await driver.ask("More?")
        assert len(driver.records("user_message")[-1].content) == 1  # type: ignore[union-attr]

    async def test_what_the_end_of_the_session_cuts_off_is_told(
        self, new_session: NewSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runs_module, "STOP_SECONDS", 0.3)
        monkeypatch.setattr(execution, "_INTERRUPT_SECONDS", 0.3)
        driver = await new_session()
        await left_running(driver)
        await driver.service.close_session(driver.session)
        (end,) = driver.records("run_end")
        assert end.synthetic  # type: ignore[union-attr]
        assert "begun" in str(end.outputs)  # type: ignore[union-attr]
        driver.api.enqueue(reply("I see."))
        await driver.ask("And?")
        told = driver.records("user_message")[-1].content[0]["text"]  # type: ignore[union-attr]
        assert "Your code was still running when its session was closed" in told
        assert "begun" in told


def test_a_run_that_a_crash_cuts_off_has_an_end() -> None:
    answer = ToolResult(tool_use_id="b", name="wait_for_run", content=[], run="a", goes_on=True)
    (end,) = missing_records(History(), [], answer)
    assert isinstance(end, RunEnd)
    assert (end.tool_use_id, end.synthetic, end.is_error) == ("a", True, True)
    assert "was still running when" in end.content[0]["text"]
    assert missing_records(History(), [], None) == []


async def test_what_stands_behind_a_run_that_failed_is_not_run(new_session: NewSession) -> None:
    driver = await new_session()
    driver.api.enqueue(
        reply(
            call("run_code", code="1 / 0"),
            call("list_variables"),
            call("run_code", code="open('mark', 'w')"),
        ),
        reply("I see."),
    )
    await driver.ask("Work.")
    failed, looked, behind = results(driver)
    assert "ZeroDivisionError" in failed
    assert "no variables" in looked
    assert behind == "Not run: a run before it in the same reply did not succeed."


async def test_a_run_that_its_call_waits_for_is_told_by_the_result_alone(
    new_session: NewSession,
) -> None:
    driver = await new_session()
    driver.api.enqueue(reply(call("run_code", code="40 + 2")), reply("42."), reply("Yes."))
    await driver.ask("Run it.")
    await driver.ask("Sure?")
    assert results(driver) == ["42"]
    assert not driver.records("run_end")
    assert len(driver.records("user_message")[-1].content) == 1  # type: ignore[union-attr]


async def test_what_waits_when_the_kernel_is_restarted_is_told_that_it_has_not_run(
    new_session: NewSession, jp_root_dir: Path, jp_serverapp: ServerApp
) -> None:
    content = write_training(jp_root_dir, "print('trained')")
    content.cells[0].outputs = [nbformat.v4.new_output("stream", text="mine")]
    content.cells[0].execution_count = 3
    hub = jp_serverapp.web_app.settings["prime_leases"]
    page = FakeBrowser(hub, "work.ipynb", json.loads(json.dumps(content))).connect()
    driver = await new_session()
    kernel, user = await behind_the_users_cell(driver, jp_serverapp)
    driver.api.enqueue(reply(call("run_cell", cell_id="train")), reply("It has not run."))
    await driver.send("Train.")
    await driver.frame(
        lambda f: f["type"] == "progress" and "is busy" in str(f.get("message")), after=0
    )
    assert "train" in page.runs
    await jp_serverapp.kernel_manager.restart_kernel(kernel.kernel_id)
    await driver.record("turn_end", status="ok")
    (told,) = results(driver)
    assert told.startswith(
        "The kernel was restarted before it began with this code. None of it has run"
    )
    assert "Run it again if it is still wanted." in told
    cell = page.cell("train")
    assert (cell["outputs"], cell["execution_count"]) == (content.cells[0].outputs, 3)
    assert page.runs == {}
    await kernel.ensure()
    await leave(user)
