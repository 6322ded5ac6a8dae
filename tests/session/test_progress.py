"""What is sent of outputs that grow, and that a reader who follows has them all."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.session.progress import news
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start

Output = dict[str, Any]


def stream(text: str, name: str = "stdout") -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def figure(data: str) -> Output:
    return {"output_type": "display_data", "data": {"image/png": data}, "metadata": {}}


def frame(*outputs: Output, **more: Any) -> dict[str, Any]:
    return {"type": "progress", "what": "tool", "call_id": "c", "outputs": list(outputs), **more}


def followed(before: list[Output], told: dict[str, Any] | None) -> list[Output]:
    """As ``FrameBuffer.whole`` in ``src/api/frameBuffer.ts``."""
    if told is None or "outputs" not in told:
        return before
    if "from" not in told:
        return list(told["outputs"])
    outputs = before[: told["from"]]
    if "tail" in told:
        output = before[told["from"]]
        units = output["text"].encode("utf-16-le", "surrogatepass")
        kept = units[: 2 * told["tail"]["kept"]].decode("utf-16-le", "surrogatepass")
        outputs = [*outputs, {**output, "text": kept + told["tail"]["text"]}]
    return [*outputs, *told["outputs"]]


outputs = st.lists(
    st.one_of(
        st.builds(stream, st.text(alphabet="ab\n😀é", max_size=8), st.sampled_from(["o", "e"])),
        st.builds(figure, st.sampled_from(["one", "two"])),
    ),
    max_size=4,
)


@given(st.lists(outputs, min_size=1, max_size=6))
def test_who_follows_has_them_all(states: list[list[Output]]) -> None:
    before: dict[str, Any] | None = None
    seen: list[Output] = []
    for state in states:
        now = frame(*state)
        seen = followed(seen, news(before, now))
        assert seen == state
        before = now


def test_only_what_is_new_is_sent() -> None:
    big = figure("x" * 100_000)
    before = frame(big, stream("epoch 1\n"))
    told = news(before, frame(big, stream("epoch 1\nepoch 2\n"), figure("y")))
    assert told is not None
    assert (told["from"], told["tail"]) == (1, {"kept": 8, "text": "epoch 2\n"})
    assert told["outputs"] == [figure("y")]
    assert news(before, before) is None
    # A progress bar replaces its line.
    told = news(frame(stream("load\n10%")), frame(stream("load\n20%")))
    assert told is not None
    assert told["tail"] == {"kept": 5, "text": "20%"}


async def test_who_comes_late_gets_all_and_then_the_news(store: SessionStore) -> None:
    session = store.create(session_start())
    session.publish({"type": "progress", "what": "tool", "call_id": "c", "started": "now"})
    session.publish(frame(stream("one\n")))
    async with session.subscribe(1) as subscription:
        got = []
        async for each in subscription:
            got.append(each)
            if each["type"] == "progress":
                break
        assert got[-1] == frame(stream("one\n"), started="now")
        session.publish(frame(stream("one\n")))
        session.publish(frame(stream("one\ntwo\n")))
        assert (await anext(subscription))["tail"] == {"kept": 4, "text": "two\n"}
