"""Tools that other packages bring: found, checked, called like the agent's own, gone again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.calls import CLOSED, STOPPED
from prime_ext.agent.permissions import DECLINED, PLAN_REFUSAL
from prime_ext.agent.prompts import system_prompt
from prime_ext.agent.service import AgentService
from prime_ext.agent.tools import packages
from prime_ext.agent.tools.packages import fault, find_tools
from prime_ext.agent.tools.registry import ToolRegistry
from prime_ext.errors import PrimeError
from prime_ext.session.records import SessionStart, ToolResult
from prime_ext.tools import Tool, ToolContext, ToolOutcome
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.messages_api.script import call, reply
from tests.messages_api.server import MessagesAPI

Install = Callable[..., None]

HEAD = """
import asyncio
from prime_ext.tools import PrimeError, Tool, ToolOutcome

def tool(name, handler, approval="read", properties=None):
    schema = {"type": "object", "properties": properties or {}}
    return Tool(name, f"Does {name}.", schema, approval, handler, lambda arguments: f"Do {name}")

async def ok(context, arguments):
    return ToolOutcome.text(f"done in {context.session.notebook}")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """``install("pkg", source)`` puts a distribution with an entry point on the path."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    installed: list[str] = []

    def put(name: str, source: str, *, entry: str = "TOOLS") -> None:
        module = f"packaged_{name.replace('-', '_')}"
        (site / f"{module}.py").write_text(HEAD + source)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[prime_ext.tools]\nmain = {module}:{entry}\n")
        installed.append(module)

    yield put
    for module in installed:
        sys.modules.pop(module, None)


async def ok(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutcome:
    return ToolOutcome.text("ok")


GOOD = Tool("good", "Does good.", {"type": "object"}, "read", ok, lambda _input: "Do good")


def ours(found: list[Any]) -> list[str]:
    return [packaged.tool.name for packaged in found]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "has space"}, "letters, digits"),
        ({"name": "x" * 129}, "1 to 128"),
        ({"description": " "}, "no description"),
        ({"approval": "admin"}, "read, edit, write, run"),
        ({"handler": "run"}, "handler is not a function"),
        ({"preview": 1}, "preview"),
        ({"input_schema": {"type": "array"}}, "object"),
        ({"input_schema": {"type": "object", "properties": 3}}, "not a valid JSON Schema"),
        ({"input_schema": {"type": "object", "default": {1, 2}}}, "not JSON"),
        (
            {
                "input_schema": {
                    "type": "object",
                    "allOf": [{"properties": {"a": {"$ref": "https://example.org/a.json"}}}],
                }
            },
            "outside of itself",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_cannot_be_offered_is_named(change: dict[str, Any], told: str) -> None:
    assert fault(GOOD) is None
    assert told in (fault(replace(GOOD, **change)) or "")


def test_a_schema_may_refer_to_itself_and_have_a_property_of_any_name() -> None:
    schema = {
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    }
    assert fault(replace(GOOD, input_schema=schema)) is None


def test_broken_packages_cost_nobody_else_their_tools(install: Install) -> None:
    install("b-raises", "import no_such_module_anywhere")
    install("c-exits", "raise SystemExit(3)")
    install("d-lacks", "", entry="NOWHERE")
    install("e-other", "TOOLS = [tool('fine', ok), 'text', tool('bad name', ok)]")
    install("f-single", "TOOLS = tool('single', ok)")
    install("g-clash", "TOOLS = [tool('read_file', ok), tool('fine', ok), tool('third', ok)]")
    found, problems = find_tools({"read_file"})
    assert ours(found) == ["fine", "single", "third"]
    assert [packaged.package for packaged in found] == [
        "e-other 1.0",
        "f-single 1.0",
        "g-clash 1.0",
    ]
    told = [(problem.package, problem.message) for problem in problems]
    assert [package for package, _ in told] == [
        *("b-raises 1.0", "c-exits 1.0", "d-lacks 1.0"),
        *("e-other 1.0", "e-other 1.0", "g-clash 1.0", "g-clash 1.0"),
    ]
    messages = [message for _, message in told]
    assert "no_such_module_anywhere" in messages[0]
    assert "it is a str, not a prime_ext.tools.Tool" in messages[3]
    assert "'bad name' is not offered" in messages[4]
    assert "prime_ext has a tool of this name" in messages[5]
    assert "e-other 1.0 has a tool of this name" in messages[6]
    assert all("uninstall" in message for message in messages)


async def test_packages_are_imported_once_and_not_before_they_are_needed(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("counts", "import sys\nsys.modules['prime_ext'].imports += 1\nTOOLS = tool('one', ok)")
    install("broken", "1 / 0")
    import prime_ext

    prime_ext.imports = 0  # type: ignore[attr-defined]
    try:
        registry = ToolRegistry.default()
        own = len(registry.definitions())
        assert prime_ext.imports == 0  # type: ignore[attr-defined]
        await registry.load_packages(logging.getLogger("test"))
        await registry.load_packages(logging.getLogger("test"))
        assert prime_ext.imports == 1  # type: ignore[attr-defined]
    finally:
        del prime_ext.imports  # type: ignore[attr-defined]
    assert [d["name"] for d in registry.definitions()[own:]] == ["one"]
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.startswith("Package broken 1.0: ")
    assert "ZeroDivisionError" in warning


async def test_the_model_is_offered_the_tool_and_its_result_is_capped(
    install: Install, new_session: NewSession
) -> None:
    install(
        "long",
        "async def long(context, arguments):\n"
        "    context.progress({'message': 'Half way', 'what': 'else', 'odd': {1}})\n"
        "    return ToolOutcome.text('\\n'.join(f'line {i}' for i in range(arguments['lines'])))\n"
        "TOOLS = [tool('long', long, properties={'lines': {'type': 'integer'}})]",
    )
    session = await new_session()
    session.api.enqueue(
        reply(call("long", lines="many"), call("long", lines=100_000)), reply("Long indeed.")
    )
    assert (await session.ask("Go.")).status == "ok"
    assert session.api.requests[0].body["tools"][-1]["description"] == "Does long."
    wrong, capped = session.api.requests[1].tool_results
    assert wrong["is_error"]
    assert "'many' is not of type 'integer'" in wrong["content"][0]["text"]
    text = capped["content"][0]["text"]
    assert "characters left out here" in text
    assert len(text) < 60_000
    record = session.records("tool_result")[1]
    assert isinstance(record, ToolResult)
    assert record.output_file is not None
    whole = (session.session.folder / "outputs" / record.output_file).read_text()
    assert whole.splitlines()[50_000] == "line 50000"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "raise PrimeError('The disk is full.', code='full', hint='Free some space.')",
            "Free some",
        ),
        ("raise ValueError('the reason')", "ValueError: the reason. This is a fault of rude 1.0"),
        ("raise SystemExit(1)", "called sys.exit(1). This is a fault of rude 1.0"),
        ("raise asyncio.CancelledError", "cancelled by something that it awaited"),
        ("return 'text'", "returned str, not a ToolOutcome"),
        ("return ToolOutcome([{'type': 'text', 'text': 5}])", "content[0] is not"),
        ("return ToolOutcome('text')", "content is a str, not a list"),
        (
            "return ToolOutcome([{'type': 'text', 'text': 'x', 'cache_control': None}])",
            "content[0] is not",
        ),
        ("return ToolOutcome([], [{'data': 1}])", "outputs[0] is not a notebook output"),
    ],
    ids=[
        "prime-error",
        "error",
        "exit",
        "cancelled",
        "text",
        "number",
        "no-list",
        "extra-key",
        "output",
    ],
)
async def test_what_a_handler_does_wrong_is_a_tool_error_and_the_session_goes_on(
    install: Install, new_session: NewSession, body: str, told: str
) -> None:
    install("rude", f"async def rude(context, arguments):\n    {body}\nTOOLS = tool('rude', rude)")
    session = await new_session()
    session.api.enqueue(reply(call("rude")), reply("Never mind."))
    assert (await session.ask("Go.")).status == "ok"
    (result,) = session.api.requests[1].tool_results
    assert result["is_error"]
    assert told in result["content"][0]["text"]


async def test_an_image_that_the_api_would_refuse_does_not_spoil_the_session(
    install: Install, new_session: NewSession
) -> None:
    install(
        "paints",
        "async def paint(context, arguments):\n"
        "    source = {'type': 'base64', 'media_type': 'image/png', 'data': 'iVBOR\\nw0KGgo='}\n"
        "    return ToolOutcome([{'type': 'image', 'source': source}])\n"
        "TOOLS = tool('paint', paint)",
    )
    session = await new_session()
    session.api.enqueue(reply(call("paint")), reply("No picture."))
    assert (await session.ask("Go.")).status == "ok"
    assert "An image is left out" in session.api.requests[1].tool_result_text


CLASSES = (
    "async def mark(context, arguments):\n"
    "    return ToolOutcome.text('carried out')\n"
    "TOOLS = [tool(f'to_{kind}', mark, kind) for kind in ('read', 'edit', 'run')]"
)


@pytest.mark.parametrize(
    ("mode", "asked", "refused"),
    [
        ("ask", ["to_edit", "to_run"], []),
        ("edit", ["to_run"], []),
        ("auto", [], []),
        ("plan", [], ["to_edit", "to_run"]),
    ],
)
async def test_the_approval_class_holds_in_every_mode(
    install: Install, new_session: NewSession, mode: str, asked: list[str], refused: list[str]
) -> None:
    install("classes", CLASSES)
    session = await new_session(permission_mode=mode)
    session.api.enqueue(reply(call("to_read"), call("to_edit"), call("to_run")), reply("Well."))
    await session.send("Go.")
    for name in asked:
        request = await session.record("approval_request", tool=name)
        assert request.summary == f"Do {name}"
        await session.deny(request.call_id)
    await session.record("turn_end", status="ok")
    results = {r.name: r.content[0]["text"] for r in session.records("tool_result")}  # type: ignore[union-attr]
    expected = dict.fromkeys(("to_read", "to_edit", "to_run"), "carried out")
    expected.update(dict.fromkeys(asked, DECLINED))
    expected.update(dict.fromkeys(refused, PLAN_REFUSAL))
    assert results == expected
    assert [r.tool for r in session.records("approval_request")] == asked  # type: ignore[union-attr]


@pytest.mark.parametrize("by_person", [True, False])
async def test_stop_reaches_a_handler(
    install: Install, new_session: NewSession, by_person: bool
) -> None:
    install(
        "waits",
        "async def wait(context, arguments):\n"
        "    context.progress({'message': 'Waiting'})\n"
        "    await asyncio.Event().wait()\n"
        "TOOLS = tool('wait', wait)",
    )
    session = await new_session()
    session.api.enqueue(reply(call("wait")))
    await session.send("Go.")
    await session.frame(lambda f: f.get("message") == "Waiting", after=0)
    if by_person:
        await session.stop()
        await session.record("turn_end", status="interrupted")
    else:
        await session.service.close_session(session.session)
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    assert result.content[0]["text"] == (STOPPED if by_person else CLOSED)


async def test_a_handler_that_does_not_want_to_stop_is_left_alone(
    install: Install, new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "STOP_SECONDS", 0.1)
    install(
        "stays",
        "free = asyncio.Event()\n"
        "async def stay(context, arguments):\n"
        "    context.progress({'message': 'Staying'})\n"
        "    while not free.is_set():\n"
        "        try:\n"
        "            await free.wait()\n"
        "        except asyncio.CancelledError:\n"
        "            pass\n"
        "TOOLS = tool('stay', stay)",
    )
    session = await new_session()
    session.api.enqueue(reply(call("stay")), reply("Yes?"))
    await session.send("Go.")
    await session.frame(lambda f: f.get("message") == "Staying", after=0)
    await session.stop()
    await session.record("turn_end", status="interrupted")
    assert (await session.ask("Still there?")).status == "ok"
    sys.modules["packaged_stays"].free.set()


async def test_a_session_keeps_its_tools_until_a_compaction_and_is_told_of_one_that_is_gone(
    jp_serverapp: ServerApp, service: AgentService, notebook: str, messages_api: MessagesAPI
) -> None:
    frozen = [*ToolRegistry.default().definitions(), replace(GOOD, name="was_here").definition()]
    session = Driver(
        service,
        jp_serverapp.web_app.settings["prime_sessions"].create(
            SessionStart(
                version="0",
                notebook=notebook,
                provider="anthropic",
                model="claude-sonnet-5-5",
                permission_mode="auto",
                system=system_prompt(notebook, "Python 3"),
                tools=frozen,
            )
        ),
        messages_api,
    )
    messages_api.enqueue(
        reply(call("was_here"), call("never_was")), reply("Gone. " + "words " * 3_000)
    )
    assert (await session.ask("Go. " + "words " * 3_000)).status == "ok"
    assert [tool["name"] for tool in messages_api.requests[1].body["tools"]][-1] == "was_here"
    gone, unknown = (r["content"][0]["text"] for r in messages_api.requests[1].tool_results)
    assert "'was_here' is not there any more" in gone
    assert "install the package again" in gone
    assert "There is no tool called 'never_was'" in unknown
    assert "was_here" not in unknown

    messages_api.enqueue(reply("<summary>Tools went.</summary>"), reply("Yes."))
    await service.compact(session.session, None, "ada")
    await session.record("compaction_end", outcome="ok")
    assert (await session.ask("Still there?")).status == "ok"
    assert "was_here" not in str(messages_api.requests[-1].body["tools"])


def test_only_what_the_session_was_offered_can_be_called() -> None:
    registry = ToolRegistry([GOOD])
    assert registry.get("good", ["good"]) is GOOD
    with pytest.raises(PrimeError) as error:
        registry.get("good", [])
    assert error.value.code == "unknown_tool"
