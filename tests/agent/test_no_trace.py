"""A whole turn of looking, a snapshot and a compaction leave the kernel as the person left it."""

from __future__ import annotations

from pathlib import Path

from jupyter_server.serverapp import ServerApp

from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.transport import KernelDied
from prime_ext.session.records import CompactionEnd, Snapshot
from tests.agent.conftest import NewSession
from tests.kernel.test_no_trace import PERSON, REPORTER, Person
from tests.messages_api.script import call, reply

LONG = "words " * 3_000


async def test_bookkeeping_leaves_in_out_the_count_and_dir_as_they_were(
    jp_serverapp: ServerApp, new_session: NewSession, tmp_path: Path
) -> None:
    session = await new_session()
    kernel = (await session.service.agent(session.session)).kernel
    manager = jp_serverapp.kernel_manager.get_kernel(await kernel.ensure())
    channels = await KernelChannels.open(manager, jp_serverapp.log, timeout=60)
    person = Person(channels, tmp_path)
    await person.run(f"exec({REPORTER!r})\n_report({str(tmp_path)!r})\ndel _report")
    for code in PERSON:
        await person.run(code)
    before = await person.state()
    assert before["In"][-1] == "'last result'"
    assert before["unders"][0] == repr("last result")

    session.api.enqueue(
        reply(
            call("list_variables"),
            call("inspect_variable", name="figure"),
            call("inspect_variable", name="nothing_of_that_name"),
            call("read_notebook"),
        ),
        reply(f"Seen. {LONG}"),
        reply("<summary>Everything was looked at.</summary>"),
    )
    assert (await session.ask(f"Look around. {LONG}")).status == "ok"
    await session.service.snapshot(session.session, "ada")
    await session.service.compact(session.session, None, "ada")
    compacted = await session.record("compaction_end")
    assert isinstance(compacted, CompactionEnd)
    assert (compacted.outcome, compacted.kernel_state["status"]) == ("ok", "current")
    assert any(isinstance(r, Snapshot) and r.outcome == "ok" for r in session.records("snapshot"))
    assert await person.state() == before

    # What runs code for the agent shows in the namespace, and nowhere else.
    session.api.enqueue(reply(call("run_code", code="made = 1\n'aside'")), reply("Made."))
    assert (await session.ask("Make it.")).status == "ok"
    after = await person.state()
    assert set(after["dir"]) - set(before["dir"]) == {"made"}
    for own in ("dir", "main", "events"):
        del before[own], after[own]
    assert after == before
    await channels.close(KernelDied("The test is over."))
