"""The first contact with a kernel process: what is sent into it, and whether it took it."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.resources import files
from typing import Any

from prime_ext.kernel.client import KernelChannels
from prime_ext.kernel.transport import Channel, ConnectionLost
from prime_ext.within import within

CARRIED = (
    "bootstrap",
    "running",
    "guard",
    "summary",
    "methods",
    "expression",
    "describe",
    "library",
    "files",
    "snapshots",
    "operations",
)
"""Modules of ``inside`` that are sent into the kernel, in the order they need each other."""

CAPTURES = ("%%capture", "capture_output")
"""What captures the display of a cell: the cell's own code, or a function of the notebook's."""

_ATTEMPTS = 20
_ABORT_SECONDS = 0.05
_PING_SECONDS = 30.0
_BEGIN_SECONDS = 1.5
"""A subshell that has not begun in this time is taken for one that cannot."""


async def teach(channels: KernelChannels) -> str | None:
    """Teach the process our own messages; waits while it is busy.

    Returns what it is known by from now on (see `token`), ``None`` if it cannot learn them.
    """
    for _ in range(_ATTEMPTS):
        request = channels.send("shell", "execute_request", _lesson(channels.last_cell))
        try:
            reply = await request.reply
        except ConnectionLost:
            if channels.is_broken:
                raise
            continue  # It is there again; doing it twice does no harm.
        finally:
            channels.forget(request)
        if reply["content"]["status"] != "aborted":
            break
        # It stood in the queue behind a cell that failed; what follows is aborted as well.
        await asyncio.sleep(_ABORT_SECONDS)
    try:
        # A gateway may let only some types of messages through; what it drops stays unanswered.
        return await within(_PING_SECONDS, token(channels, "control"))
    except asyncio.TimeoutError:
        return None


async def teach_beside(channels: KernelChannels) -> str | None:
    """As `teach`, while a cell runs: through a subshell, which is there for as long only.

    Returns ``None`` if the kernel has none, or could not be taught so: while a cell captures what
    is displayed (``%%capture``), ipykernel fails at any request to a subshell before it looks at
    it, and neither answers nor says that it is busy. Takes as long as the user's ``pre_execute``
    callbacks, which IPython calls for every request that runs code.
    """
    created = await _answer(channels, "control", "create_subshell_request", {})
    subshell = created.get("subshell_id")
    if not subshell:
        return None
    # What it says of `input()` holds for the running cell as well, until that has its own back.
    content = {**_lesson(channels.last_cell), "allow_stdin": True}
    lesson = channels.send("shell", "execute_request", content, subshell_id=str(subshell))
    payload: list[Any] = []
    try:
        with contextlib.suppress(asyncio.TimeoutError):
            await within(_BEGIN_SECONDS, lesson.started.wait())
            reply = await lesson.answer()
            payload = (reply or {}).get("content", {}).get("payload") or []
    finally:
        channels.forget(lesson)
        await _answer(channels, "control", "delete_subshell_request", {"subshell_id": subshell})
    taught = await token(channels, "control")
    if taught is not None:
        given = {"op": "give_back", "params": {"payload": payload}}
        await _answer(channels, "control", "prime_request", given)
    return taught


def _lesson(last_cell: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "code": bootstrap_code(last_cell),
        "silent": True,
        "store_history": False,
        "allow_stdin": False,
        "stop_on_error": False,
        "user_expressions": {},
    }


async def _answer(
    channels: KernelChannels, channel: Channel, msg_type: str, content: dict[str, Any]
) -> dict[str, Any]:
    """Content of the reply; empty if the kernel does not know the request."""
    request = channels.send(channel, msg_type, content)
    try:
        reply = await request.answer()
    finally:
        channels.forget(request)
    answered: dict[str, Any] = {} if reply is None else reply["content"]
    return answered


async def token(channels: KernelChannels, channel: Channel) -> str | None:
    """What tells one taught process from another; ``None`` from one that was not taught."""
    request = channels.send(channel, "prime_request", {"op": "ping"})
    try:
        answer = await request.answer()
    finally:
        channels.forget(request)
    return None if answer is None else str(answer["content"]["result"]["token"])


def bootstrap_code(last_cell: dict[str, Any] | None) -> str:
    """The one statement that installs our messages; it binds no name of the user's.

    It reaches the builtins through ``__import__``, since any of them may be shadowed.
    """
    folder = files("prime_ext.kernel.inside")
    sources = {name: folder.joinpath(f"{name}.py").read_text("utf-8") for name in CARRIED}
    namespace = {"SOURCES": sources, "LAST_CELL": last_cell}
    return (
        "__import__('builtins').exec(__import__('builtins').compile("
        f"{_INSTALL!r}, '<prime_ext>', 'exec'), {namespace!r})"
    )


_INSTALL = """
def install():
    import sys, types
    from IPython import get_ipython
    shell = get_ipython()
    modules = {}
    for name, source in SOURCES.items():
        module = types.ModuleType("prime_ext.kernel.inside." + name)
        module.__dict__.update(modules)
        exec(compile(source, "<prime_ext." + name + ">", "exec"), module.__dict__)
        modules[name] = module
        if name == "bootstrap":
            module.cover_tracks(shell)
    modules["bootstrap"].install(shell.kernel, modules["operations"].operations(), LAST_CELL)
try:
    install()
except Exception:
    pass
"""
