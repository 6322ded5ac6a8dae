"""Who may write an open notebook, and what becomes of operations when clients come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prime_ext.notebook.lease import LeaseHub, LeaseLost, OperationRefused, moved_path
from tests.notebook.browser import FakeBrowser
from tests.notebook.conftest import notebook

PATH = "work.ipynb"
SAVE = {"op": "save"}


def browser(hub: LeaseHub, key: str = "page-1", path: str = PATH) -> FakeBrowser:
    return FakeBrowser(hub, path, notebook("1"), key)


async def test_first_claimant_holds_until_it_releases(hub: LeaseHub) -> None:
    one, two = browser(hub, "one").connect(), browser(hub, "two").connect()
    assert (one.held, two.held) == (True, False)
    await hub.request(PATH, SAVE, "op-1")
    one.release()
    assert (one.held, two.held) == (False, True)
    await hub.request("/work.ipynb", SAVE, "op-2")
    assert (len(one.saved), len(two.saved)) == (1, 1)


async def test_claiming_twice_changes_nothing(hub: LeaseHub) -> None:
    one = browser(hub).connect()
    epoch = hub.epoch(PATH)
    one.claim()
    assert one.held
    assert hub.epoch(PATH) == epoch
    one.release()
    assert not hub.held(PATH)


async def test_without_a_client_the_lease_is_lost(hub: LeaseHub) -> None:
    with pytest.raises(LeaseLost):
        await hub.request(PATH, SAVE, "op-1")
    assert not await hub.attached(PATH)


async def test_unacknowledged_operations_are_sent_again_to_the_same_page(hub: LeaseHub) -> None:
    one = browser(hub).connect()
    one.answers = False
    waiting = asyncio.create_task(hub.request(PATH, SAVE, "op-1"))
    await one.until(lambda: one.ops("save"))
    epoch = hub.epoch(PATH)
    one.drop()
    one.answers = True
    one.connect()
    await waiting
    assert len(one.ops("save")) == 2
    assert hub.epoch(PATH) == epoch, "the same page still knows what it was told"


async def test_an_operation_applied_before_the_connection_broke_is_applied_once(
    hub: LeaseHub,
) -> None:
    one = browser(hub).connect()
    insert = {
        "op": "insert_cell", "cell_id": "new", "source": "2", "cell_type": "code", "after": None
    }  # fmt: skip
    one.answers = False
    waiting = asyncio.create_task(hub.request(PATH, insert, "op-1"))
    await one.until(lambda: one.ops("insert_cell"))
    one.applied["op-1"] = one.ack("op-1", insert)
    one.drop()
    one.answers = True
    one.connect()
    await waiting
    assert [c["id"] for c in one.notebook["cells"]] == ["a", "new"]


async def test_operations_go_to_the_reloaded_page(hub: LeaseHub) -> None:
    one = browser(hub, "before").connect()
    one.answers = False
    waiting = asyncio.create_task(hub.request(PATH, SAVE, "op-1"))
    await one.until(lambda: one.ops("save"))
    epoch = hub.epoch(PATH)
    one.drop()
    two = browser(hub, "after reload").connect()
    await waiting
    assert len(two.saved) == 1
    assert hub.epoch(PATH) != epoch


async def test_a_page_that_was_only_cut_off_goes_before_one_that_waits(hub: LeaseHub) -> None:
    one, two = browser(hub, "one").connect(), browser(hub, "two").connect()
    one.drop()
    assert not two.held
    one.connect()
    assert (one.held, two.held) == (True, False)


async def test_the_next_in_line_follows_a_page_that_does_not_come_back(hub: LeaseHub) -> None:
    one, two = browser(hub, "one").connect(), browser(hub, "two").connect()
    one.drop()
    assert await hub.attached(PATH)
    assert two.held


async def test_nobody_comes_back(hub: LeaseHub) -> None:
    one = browser(hub).connect()
    waiting = asyncio.create_task(hub.request(PATH, SAVE, "op-1"))
    one.drop()
    with pytest.raises(LeaseLost):
        await waiting
    assert not hub.held(PATH)


async def test_release_does_not_wait(hub: LeaseHub) -> None:
    hub = LeaseHub(grace_s=3600)
    one = browser(hub).connect()
    one.answers = False
    waiting = asyncio.create_task(hub.request(PATH, SAVE, "op-1"))
    await one.until(lambda: one.ops("save"))
    one.release()
    with pytest.raises(LeaseLost):
        await waiting


async def test_a_frozen_tab_loses_its_lease(hub: LeaseHub) -> None:
    frozen = browser(hub, "frozen").connect()
    frozen.answers = False
    with pytest.raises(LeaseLost):
        await hub.request(PATH, SAVE, "op-1")
    assert not frozen.held
    late = {"type": "ack", "op_id": "op-1", "ok": True}
    assert frozen.client is not None
    frozen.client.receive(late)
    frozen.claim()
    assert frozen.held, "once awake it may claim again"


async def test_an_ack_from_someone_else_is_void(hub: LeaseHub) -> None:
    one, two = browser(hub, "one").connect(), browser(hub, "two").connect()
    one.answers = False
    waiting = asyncio.create_task(hub.request(PATH, SAVE, "op-1"))
    await one.until(lambda: one.ops("save"))
    assert two.client is not None
    two.client.receive({"type": "ack", "op_id": "op-1", "ok": True})
    await asyncio.sleep(0)
    assert not waiting.done()
    assert one.client is not None
    one.client.receive({"type": "ack", "op_id": "op-1", "ok": True})
    await waiting


async def test_a_panel_closed_at_this_moment(hub: LeaseHub) -> None:
    one = browser(hub).connect()
    one.answers = False
    waiting = asyncio.create_task(hub.request(PATH, SAVE, "op-1"))
    await one.until(lambda: one.ops("save"))
    assert one.client is not None
    error = {"code": "notebook_not_open", "message": "Not open."}
    one.client.receive({"type": "ack", "op_id": "op-1", "ok": False, "error": error})
    with pytest.raises(LeaseLost):
        await waiting


async def test_a_refusal_says_why(hub: LeaseHub) -> None:
    one = browser(hub).connect()
    edit = {"op": "edit_cell", "cell_id": "a", "source": "2", "expected_hash": "0" * 64}
    with pytest.raises(OperationRefused) as caught:
        await hub.request(PATH, edit, "op-1")
    assert (caught.value.code, caught.value.source) == ("cell_conflict", "1")
    assert one.cell("a")["source"] == "1"


async def test_a_new_connection_is_given_time_to_say_what_it_has_open(hub: LeaseHub) -> None:
    page = browser(hub).connect(claim=False)
    attached = asyncio.create_task(hub.attached(PATH))
    await asyncio.sleep(0)
    assert not attached.done()
    page.claim()
    assert await attached


async def test_a_connection_that_has_nothing_open_is_not_waited_for(hub: LeaseHub) -> None:
    hub = LeaseHub(settle_s=3600)
    page = browser(hub).connect(claim=False)
    page.release()
    assert not await hub.attached(PATH)


async def test_a_connection_that_never_says_is_waited_for_but_not_for_long(hub: LeaseHub) -> None:
    browser(hub).connect(claim=False)
    assert not await hub.attached(PATH)


async def test_connections_that_keep_coming_and_never_say_are_not_waited_for_longer(
    hub: LeaseHub,
) -> None:
    async def come() -> None:
        while True:
            browser(hub).connect(claim=False)
            await asyncio.sleep(0.02)

    coming = asyncio.create_task(come())
    await asyncio.sleep(0)
    try:
        assert not await asyncio.wait_for(hub.attached(PATH), 10)
    finally:
        coming.cancel()


async def test_pages_told_of_a_session_are_given_time_to_claim(hub: LeaseHub) -> None:
    hub = LeaseHub(settle_s=3600)
    hub.announce(PATH)
    attached = asyncio.create_task(hub.attached(PATH))
    await asyncio.sleep(0)
    assert not attached.done()
    browser(hub).connect()
    assert await attached


async def test_the_page_that_starts_a_session_goes_before_one_that_was_faster(
    hub: LeaseHub,
) -> None:
    hub = LeaseHub(grace_s=3600)
    hub.announce(PATH, by="page-2")
    faster = browser(hub, "page-1").connect()
    assert not faster.held
    starter = browser(hub, "page-2").connect()
    assert (starter.held, faster.held) == (True, False)
    starter.release()
    assert faster.held


async def test_a_page_that_starts_a_session_and_never_claims_holds_nobody_up(
    hub: LeaseHub,
) -> None:
    hub.announce(PATH, by="page-2")
    other = browser(hub, "page-1").connect()
    assert await hub.attached(PATH)
    assert other.held
    hub.announce("closed.ipynb", by="page-2")
    assert not await hub.attached("closed.ipynb")


async def test_starting_a_session_takes_nothing_from_who_writes(hub: LeaseHub) -> None:
    one = browser(hub, "page-1").connect()
    hub.announce(PATH, by="page-2")
    two = browser(hub, "page-2").connect()
    assert (one.held, two.held) == (True, False)


async def test_nobody_claims_and_the_file_is_written_without_further_waiting() -> None:
    hub = LeaseHub(settle_s=0.1)
    hub.announce(PATH)
    assert not await hub.attached(PATH)
    waiting = hub.attached(PATH)
    with pytest.raises(StopIteration):
        waiting.send(None)


async def test_renaming_keeps_lease_and_operations(hub: LeaseHub) -> None:
    one = browser(hub).connect()
    one.answers = False
    waiting = asyncio.create_task(hub.request(PATH, SAVE, "op-1"))
    await one.until(lambda: one.ops("save"))
    hub.rename(PATH, "new.ipynb")
    assert hub.held("new.ipynb")
    assert not hub.held(PATH)
    one.drop()
    one.answers = True
    one.path = "new.ipynb"
    one.connect()
    await waiting
    assert one.received[-1]["notebook"] == "new.ipynb"


async def test_a_claim_of_the_new_path_may_come_before_the_rename(hub: LeaseHub) -> None:
    one, two = browser(hub, "one").connect(), browser(hub, "two").connect()
    one.claim("new.ipynb")
    hub.rename(PATH, "new.ipynb")
    one.release()
    assert hub.held("new.ipynb")
    one.path = "new.ipynb"
    one.release()
    assert two.held


@pytest.mark.parametrize(
    "frame",
    [
        {},
        {"type": "lease"},
        {"type": "lease", "notebook": 1, "action": "claim"},
        {"type": "lease", "notebook": PATH, "action": "steal"},
        {"type": "ack"},
        {"type": "ack", "op_id": "x", "ok": "yes"},
    ],
)
async def test_malformed_frames_are_answered(frame: dict[str, Any], hub: LeaseHub) -> None:
    sent: list[dict[str, Any]] = []
    hub.connect(sent.append).receive(frame)
    assert [f["code"] for f in sent] == ["bad_frame"]


async def test_an_ack_for_nothing_is_ignored(hub: LeaseHub) -> None:
    browser(hub).connect()
    sent: list[dict[str, Any]] = []
    hub.connect(sent.append).receive({"type": "ack", "op_id": "gone", "ok": True})
    assert sent == []


async def test_a_socket_that_raises_does_no_harm(hub: LeaseHub) -> None:
    def send(frame: dict[str, Any]) -> None:
        raise ConnectionError

    client = hub.connect(send)
    client.receive({"type": "lease", "action": "claim", "notebook": PATH})
    client.disconnect()
    assert not await hub.attached(PATH)


@pytest.mark.parametrize(
    ("path", "moved"),
    [("a/b.ipynb", "c/b.ipynb"), ("a", "c"), ("ab.ipynb", None), ("b/a", None)],
)
def test_moved_path(path: str, moved: str | None) -> None:
    assert moved_path(path, "a", "c") == moved
