"""Install our message handlers in a kernel process, by sending their source as code to run."""

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
"""Modules of ``inside`` that are sent into the kernel. Each may use those before it."""

CAPTURES = ("%%capture", "capture_output")
"""Source fragments that suggest that a running cell, or a function it calls, captures displays."""

_ATTEMPTS = 20
_ABORT_SECONDS = 0.05
_PING_SECONDS = 30.0
_BEGIN_SECONDS = 1.5
"""Wait for a subshell to begin; after that it is assumed to be unable to."""


async def teach(channels: KernelChannels) -> str | None:
    """Install our message handlers; wait while the kernel is busy.

    Returns the `token` of the installation, or ``None`` if the kernel cannot be extended.
    """
    for _ in range(_ATTEMPTS):
        request = channels.send("shell", "execute_request", _lesson(channels.last_cell))
        try:
            reply = await request.reply
        except ConnectionLost:
            if channels.is_broken:
                raise
            continue  # The connection is back, and installing is idempotent.
        finally:
            channels.forget(request)
        if reply["content"]["status"] != "aborted":
            break
        # A cell ahead of it in the queue failed, which aborts everything queued behind it.
        await asyncio.sleep(_ABORT_SECONDS)
    try:
        # A gateway may drop message types that it does not know; no answer comes then.
        return await within(_PING_SECONDS, token(channels, "control"))
    except asyncio.TimeoutError:
        return None


async def teach_beside(channels: KernelChannels) -> str | None:
    """Do the same as `teach` while a cell runs, through a temporary subshell.

    Returns ``None`` if the kernel has no subshells, or if the installation failed. It does so while
    a cell captures displays (``%%capture``): ipykernel then fails on every request to a subshell
    before it handles it, and sends neither a reply nor a busy status. The call lasts at least as
    long as the user's ``pre_execute`` callbacks, which IPython runs for every request with code.
    """
    created = await _answer(channels, "control", "create_subshell_request", {})
    subshell = created.get("subshell_id")
    if not subshell:
        return None
    # ipykernel applies `allow_stdin` of this request to the running cell too, until `give_back`
    # restores the cell's own value.
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
    """Send a request and return the content of its reply; empty if the kernel does not know it."""
    request = channels.send(channel, msg_type, content)
    try:
        reply = await request.answer()
    finally:
        channels.forget(request)
    answered: dict[str, Any] = {} if reply is None else reply["content"]
    return answered


async def token(channels: KernelChannels, channel: Channel) -> str | None:
    """Ask for the installation's id, which is unique to the process; ``None`` if there is none."""
    request = channels.send(channel, "prime_request", {"op": "ping"})
    try:
        answer = await request.answer()
    finally:
        channels.forget(request)
    return None if answer is None else str(answer["content"]["result"]["token"])


def bootstrap_code(last_cell: dict[str, Any] | None) -> str:
    """Return the single statement that installs our handlers; it binds no name in the namespace.

    The builtins are reached through ``__import__``, since user code may have shadowed any of them.
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
