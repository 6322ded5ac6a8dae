"""What the agent does on the side leaves the kernel as it was."""

from __future__ import annotations

import asyncio
import contextlib
import json
from queue import Empty
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_client.session import Session

from prime_ext.errors import PrimeError
from prime_ext.kernel import private_messages
from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.transport import KernelDied
from tests.kernel.conftest import text_of, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prime_ext.kernel.notebook_kernel import NotebookKernel

# What a session of a person looks like: results, an error, an open figure, a thread that prints.
PERSON = [
    "import sys\nimport matplotlib.pyplot as plt\n%config InlineBackend.close_figures = False\n"
    "figure, axes = plt.subplots()",
    "6 * 7",
    "1 / 0",
    "events = []\nget_ipython().events.register('post_execute', lambda: events.append('post'))",
    "'last result'",
]

# The state is written by a thread of the kernel, since any request would itself be a trace.
REPORTER = """
def _report(folder):
    import IPython, json, os, sys, threading, time
    import matplotlib._pylab_helpers as helpers
    shell = IPython.get_ipython()
    manager = shell.history_manager

    def state():
        return {
            "count": shell.execution_count,
            "In": list(shell.user_ns["In"]),
            "Out": {str(k): repr(v) for k, v in shell.user_ns["Out"].items()},
            "unders": [repr(shell.user_ns.get(n)) for n in ("_", "__", "___", "_i", "_ii")],
            "hook": [repr(getattr(shell.displayhook, n)) for n in ("_", "__", "___")],
            "dir": sorted(shell.user_ns),
            "main": sorted(vars(sys.modules["__main__"])),
            "modules": sorted(n for n in sys.modules if n.startswith("prime")),
            "last": repr(shell.last_execution_result.result),
            "succeeded": shell.last_execution_succeeded,
            "error": [repr(getattr(sys, n, None)) for n in ("last_type", "last_value")],
            "figures": sorted(helpers.Gcf.figs),
            "events": list(shell.user_ns["events"]),
            "callbacks": [len(c) for _, c in sorted(shell.events.callbacks.items())],
            "outputs": sorted(getattr(manager, "outputs", ())),
            "reprs": sorted(manager.output_hist_reprs),
        }

    def serve():
        for number in range(1000):
            while not os.path.exists(os.path.join(folder, "ask-%d" % number)):
                time.sleep(0.01)
            answer = os.path.join(folder, "state-%d" % number)
            with open(answer + ".part", "w") as file:
                json.dump(state(), file)
            os.rename(answer + ".part", answer)

    threading.Thread(target=serve, daemon=True).start()
"""


class Person:
    """Somebody at work in the kernel, beside the agent."""

    def __init__(self, channels: KernelChannels, folder: Path) -> None:
        self.channels = channels
        self.folder = folder
        self.asked = 0

    async def run(self, code: str) -> dict[str, Any]:
        request = self.channels.send("shell", "execute_request", {"code": code})
        reply: dict[str, Any] = (await asyncio.wait_for(request.reply, 60))["content"]
        await request.finished.wait()
        return reply

    async def state(self) -> dict[str, Any]:
        answer = self.folder / f"state-{self.asked}"
        (self.folder / f"ask-{self.asked}").touch()
        self.asked += 1
        await until(answer.exists)
        state: dict[str, Any] = json.loads(answer.read_text())
        return state


@pytest.fixture
def person(
    kernel: NotebookKernel, jp_serverapp: Any, jp_asyncio_loop: Any, tmp_path: Path
) -> Iterator[Person]:
    async def meet() -> Person:
        manager = jp_serverapp.kernel_manager.get_kernel(await kernel.ensure())
        channels = await KernelChannels.open(manager, jp_serverapp.log, timeout=60)
        person = Person(channels, tmp_path)
        await person.run(f"exec({REPORTER!r})\n_report({str(tmp_path)!r})\ndel _report")
        for code in PERSON:
            await person.run(code)
        return person

    person = jp_asyncio_loop.run_until_complete(meet())
    yield person
    jp_asyncio_loop.run_until_complete(person.channels.close(KernelDied("The test is over.")))


async def test_first_contact_and_looking_leave_no_trace(
    kernel: NotebookKernel, person: Person
) -> None:
    before = await person.state()
    assert before["last"] == "'last result'"
    assert before["figures"] == [1]
    assert before["error"][0] == "<class 'ZeroDivisionError'>"
    await kernel.variables()
    await kernel.inspect("figure")
    await kernel.inspect("sys", "sys.maxsize")
    await kernel.ask("ping", {})
    assert await person.state() == before


async def test_saving_checking_and_restoring_leave_no_trace(
    kernel: NotebookKernel, person: Person
) -> None:
    await person.run("numbers = [1, 2, 3]\nalias = numbers\ndef double(x): return 2 * x")
    await person.run("'last result'")
    before = await person.state()
    folder, key = person.folder / "snapshot", b"k" * 32
    folder.mkdir()
    await kernel.follow()
    await until(lambda: kernel.state == "idle")  # The person's code has ended for us as well.
    saved = await kernel.save_state(folder, key, options={})
    assert saved["names"]["numbers"]["status"] in ("verified", "unverified")
    assert await kernel.state_current(folder, key)
    await kernel.load_state(folder, key, options={"mode": "hot"})
    assert await person.state() == before
    # Nor does a restore that has something to do, but for the name that it brings back.
    await person.run("del numbers")
    without = await person.state()
    await kernel.load_state(folder, key, options={"mode": "hot"})
    restored = await person.state()
    assert set(restored["dir"]) - set(without["dir"]) == {"numbers"}
    for names in ("dir", "main"):
        restored[names].remove("numbers")
    assert restored == without


async def test_code_outside_the_history_leaves_no_trace_but_its_effects(
    kernel: NotebookKernel, person: Person
) -> None:
    before = await person.state()
    shown = await kernel.execute("made = 1\nprint('text')\n'a result'", store_history=False)
    assert [output["output_type"] for output in shown.outputs[:2]] == ["stream", "execute_result"]
    for code, status in [
        ("undefined_name", "error"),
        ("1 +", "error"),
        ("import asyncio\nawait asyncio.sleep(0)\n'awaited'", "ok"),
        ("display('shown')", "ok"),
    ]:
        assert (await kernel.execute(code, store_history=False)).status == status
    after = await person.state()
    assert set(after["dir"]) - set(before["dir"]) == {"made", "asyncio"}
    # It is the user's code as far as its effects go.
    for changed in ("dir", "main", "events"):
        before.pop(changed)
        after.pop(changed)
    assert after == before
    # The person's next cell continues as if nothing had happened.
    reply = await person.run("_")
    assert reply["execution_count"] == before["count"]
    assert (await person.state())["Out"][str(before["count"])] == "'last result'"


async def test_a_name_of_history_that_the_code_assigns_is_the_users(
    kernel: NotebookKernel,
) -> None:
    await kernel.execute("'result'", store_history=True)
    await kernel.execute("_ = 'mine'", store_history=False)
    run = await kernel.execute("_", store_history=False)
    assert text_of(run.outputs) == "'mine'"


async def test_a_cell_is_a_normal_execution(kernel: NotebookKernel) -> None:
    await kernel.execute("'first'", store_history=True)
    await kernel.execute("'aside'", store_history=False)
    second = await kernel.execute("_", store_history=True)
    assert second.execution_count == 2
    assert text_of(second.outputs) == "'first'"
    history = await kernel.execute("In[1:], Out", store_history=False)
    assert text_of(history.outputs) == ("([\"'first'\", '_'], {1: 'first', 2: 'first'})")


async def test_looking_is_not_heard_and_is_no_activity(
    kernel: NotebookKernel, jp_serverapp: Any
) -> None:
    kernel_id = await kernel.ensure()
    await kernel.execute("x = 1", store_history=True)
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    client = manager.client(session=Session(key=manager.session.key))
    client.start_channels(shell=False, stdin=False, hb=False)
    heard: list[dict[str, Any]] = []

    async def listen_until_marked() -> None:
        # A marker ends what is to be heard: all that came before it was published before.
        marker = None
        while not heard or heard[-1]["parent_header"].get("msg_id") != marker:
            if marker is None or not heard:
                marker = client.session.send(
                    client.control_channel.socket, "kernel_info_request", {}
                )["header"]["msg_id"]
            with contextlib.suppress(Empty):
                heard.append(await client.get_iopub_msg(timeout=0.2))

    await listen_until_marked()
    heard.clear()
    activity = manager.last_activity
    for _ in range(3):
        await kernel.variables()
        await kernel.inspect("x")
    await listen_until_marked()
    assert {m["parent_header"].get("msg_type") for m in heard} == {"kernel_info_request"}
    assert manager.last_activity == activity
    assert manager.execution_state == "idle"
    client.stop_channels()


THREAD = """
import os, threading, time
def tell():
    while not os.path.exists({path!r}):
        time.sleep(0.01)
    print('from the thread')
threading.Thread(target=tell).start()
"""


async def test_output_of_a_thread_still_goes_to_its_cell(
    kernel: NotebookKernel, person: Person
) -> None:
    printed = asyncio.Event()
    cell = person.channels.send(
        "shell",
        "execute_request",
        {"code": THREAD.format(path=str(person.folder / "go"))},
        on_output=lambda msg_type, _content: printed.set() if msg_type == "stream" else None,
    )
    await cell.finished.wait()
    connection = kernel._connection
    assert connection is not None
    await connection.private.ask("variables", {}, timeout=30)
    await connection.private.ask("variables", {}, channel="shell", timeout=30)
    await kernel.execute("print('aside')", store_history=False)
    (person.folder / "go").touch()
    await asyncio.wait_for(printed.wait(), 30)


RUNNING = """
import os, threading, time
def tell():
    while not os.path.exists({path!r}):
        time.sleep(0.01)
    display('from the thread')
thread = threading.Thread(target=tell)
thread.start()
plt.plot([1, 2])
%pinfo len
print('begun', flush=True)
{wait}
try:
    input()
except Exception as error:
    print(type(error).__name__)
'its result'
"""


@pytest.mark.parametrize(
    "wait", ["thread.join()", "import asyncio\nawait asyncio.to_thread(thread.join)"]
)
async def test_first_contact_beside_a_running_cell_leaves_no_trace(
    kernel: NotebookKernel, person: Person, jp_serverapp: Any, wait: str
) -> None:
    """The kernel has subshells, and has never been asked before."""
    await person.run(
        "get_ipython().events.register('post_run_cell', lambda run: events.append(run.result))"
    )
    go = person.folder / "go"
    heard: list[tuple[str, Any]] = []
    cell = person.channels.send(
        "shell",
        "execute_request",
        {"code": RUNNING.format(path=str(go), wait=wait), "allow_stdin": False},
        on_output=lambda msg_type, content: heard.append((msg_type, content)),
    )
    await until(lambda: any(msg_type == "stream" for msg_type, _ in heard))
    before = await person.state()
    await until(lambda: kernel.state == "busy")
    assert "figure" in {entry["name"] for entry in await kernel.variables()}
    assert "Figure" in (await kernel.inspect("figure"))["text"]
    assert await person.state() == before
    manager = jp_serverapp.kernel_manager.get_kernel(kernel.kernel_id)
    await until(lambda: manager.execution_state == "busy")
    assert kernel.state == "busy"
    left = person.channels.send("control", "list_subshell_request", {})
    assert (await left.reply)["content"]["subshell_id"] == []

    # The cell goes on as it would have: its thread is heard, `input()` knows that nobody answers.
    go.touch()
    reply = (await asyncio.wait_for(cell.reply, 60))["content"]
    await cell.finished.wait()
    assert (reply["status"], reply["execution_count"]) == ("ok", before["count"] - 1)
    assert "len(obj" in reply["payload"][0]["data"]["text/plain"]
    shown = [
        content.get("text") or content["data"]["text/plain"]
        for msg_type, content in heard
        if msg_type in ("stream", "display_data", "execute_result")
    ]
    assert "'from the thread'" in shown
    assert "StdinNotImplementedError\n" in "".join(shown)  # a stream may come in pieces
    assert "'its result'" in shown
    await until(lambda: manager.execution_state == "idle" and kernel.state == "idle")
    after = await person.state()
    assert after["Out"][str(reply["execution_count"])] == "'its result'"
    assert after["events"] == [*before["events"], "post", "its result"]


CAPTURING = """
import os, time
print('kept', flush=True)
open({begun!r}, 'w').close()
while not os.path.exists({path!r}):
    time.sleep(0.01)
made = 1
"""


@pytest.mark.parametrize("known", ["not", "heard", "saved"])
async def test_first_contact_beside_a_cell_that_captures_its_outputs(
    kernel: NotebookKernel,
    person: Person,
    jp_root_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    known: str,
) -> None:
    """No subshell of ipykernel answers then, and its log goes into the cell."""
    begun, go = person.folder / "begun", person.folder / "go"
    body = CAPTURING.format(begun=str(begun), path=str(go))
    told, untold = (
        f"%%capture captured{body}",
        f"get_ipython().run_cell_magic('capture', 'captured', {body!r})",
    )
    code = told if known == "heard" else untold
    if known == "saved":
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(told)])
        nbformat.write(notebook, jp_root_dir / kernel.path)
    published: list[str] = []
    publication = person.channels._on_publication

    def listen(message: dict[str, Any]) -> None:
        published.append(message["parent_header"].get("msg_type", ""))
        publication(message)

    monkeypatch.setattr(person.channels, "_on_publication", listen)
    shown: list[str] = []
    cell = person.channels.send(
        "shell",
        "execute_request",
        {"code": code},
        on_output=lambda msg_type, _content: shown.append(msg_type),
    )
    await until(lambda: begun.exists() and kernel.state == "busy")
    before = await person.state()
    with pytest.raises(PrimeError, match="cannot be asked before that ends") as refused:
        await kernel.variables()
    assert refused.value.code == "kernel_busy"
    left = person.channels.send("control", "list_subshell_request", {})
    assert (await left.reply)["content"]["subshell_id"] == []
    await left.finished.wait()
    assert ("create_subshell_request" in published) == (known == "not")
    assert await person.state() == before

    run = asyncio.create_task(kernel.execute("made + 1", store_history=False))
    go.touch()
    assert (await cell.reply)["content"]["status"] == "ok"
    assert text_of((await asyncio.wait_for(run, 30)).outputs) == "2"
    assert "captured" in {entry["name"] for entry in await kernel.variables()}
    kept = await kernel.execute("print(captured.stdout, captured.stderr)", store_history=False)
    assert text_of(kept.outputs) == "kept\n \n"
    if known != "not":
        assert shown == ["execute_input"]


HANGING = """
import threading
hung, released = threading.Event(), threading.Event()
def hang():
    if threading.current_thread() is not threading.main_thread():
        hung.set()
        released.wait()
get_ipython().events.register('pre_execute', hang)
"""


async def test_a_callback_that_hangs_at_first_contact_keeps_nobody_waiting(
    kernel: NotebookKernel, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_messages, "_BESIDE_SECONDS", 0.2)
    await person.run(HANGING)
    cell = person.channels.send("shell", "execute_request", {"code": "hung.wait()"})
    await until(lambda: kernel.state == "busy")
    run = asyncio.create_task(
        kernel.execute("hung.is_set(), released.is_set()", store_history=False)
    )
    assert (await asyncio.wait_for(cell.reply, 30))["content"]["status"] == "ok"
    assert text_of((await asyncio.wait_for(run, 30)).outputs) == "(True, False)"

    await kernel.execute("released.set()", store_history=False)
    subshells: list[str] | None = None
    while subshells != []:
        left = person.channels.send("control", "list_subshell_request", {})
        subshells = (await asyncio.wait_for(left.reply, 30))["content"]["subshell_id"]
    assert "hung" in {entry["name"] for entry in await kernel.variables()}


async def test_shadowed_builtins_do_not_matter(kernel: NotebookKernel) -> None:
    run = await kernel.execute("x = 1", store_history=True)
    assert run.status == "ok"
    await kernel.execute(
        "list = dict = len = exec = compile = print = type = isinstance = get_ipython = 3",
        store_history=True,
    )
    connection = kernel._connection
    assert connection is not None
    connection.private.forget()  # As for a server that starts again beside this kernel.
    names = [entry["name"] for entry in await kernel.variables()]
    assert "x" in names
    assert "list" in names
    again = await kernel.execute("x + 1", store_history=False)
    assert text_of(again.outputs) == "2"


async def test_asking_in_parallel(kernel: NotebookKernel) -> None:
    await kernel.execute("x = 1", store_history=True)
    answers = await asyncio.gather(*(kernel.inspect("x") for _ in range(20)))
    assert all(answer["text"].startswith("int") for answer in answers)
    await until(lambda: kernel.state == "idle")
