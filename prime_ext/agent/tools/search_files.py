"""The tool ``search_files``, which searches files in a separate process."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prime_ext.agent.tools.paths import FOLDER, Workspace
from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome
from prime_ext.clean_text import well_formed

MAX_HITS = 200
NAMED = 3
"""Number of left-out files that are listed by name."""
SEARCH_SECONDS = 20.0
WORKER = Path(__file__).with_name("search_worker.py")


async def _search_files(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    workspace = context.workspace
    base = await asyncio.to_thread(workspace.find, arguments.get("path", ""))
    job = {
        "pattern": well_formed(arguments["pattern"]),
        "base": str(base),
        "own": workspace.is_own(base),
        "kept": str(workspace.kept),
        "max_hits": MAX_HITS,
    }
    found = await _run_search(job)
    where = workspace.relative(base)
    place = "the server's root" if where == "." else where
    lines: list[str] = []
    if not found.hits:
        text = f"No match for {arguments['pattern']!r} in {place}."
        if not found.complete:
            text += f" The search was stopped after {SEARCH_SECONDS:.0f} s; try a smaller folder."
        lines.append(text)
    last_path = None
    for hit in found.hits:
        if hit["path"] != last_path:
            last_path = hit["path"]
            lines.append(workspace.relative(Path(hit["path"])))
        lines.append(f"  {hit['where']}: {hit['line']}")
    if len(found.hits) == MAX_HITS:
        lines.append(f"[Only the first {MAX_HITS} matches; search for something rarer.]")
    elif found.hits and not found.complete:
        lines.append(f"[Stopped after {SEARCH_SECONDS:.0f} s: there may be more.]")
    if found.left_out:
        lines.append(_left_out(workspace, found.left_out))
    return ToolOutcome.text("\n".join(lines))


def _left_out(workspace: Workspace, paths: list[str]) -> str:
    names = ", ".join(workspace.relative(Path(path)) for path in paths[:NAMED])
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"[Not searched, since they may hold secrets: {names}{more}.]"


@dataclass
class _Found:
    hits: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Files and folders that were not searched because they may hold secrets."""
    complete: bool = False
    """Whether the search was completed in time."""


async def _run_search(job: dict[str, Any]) -> _Found:
    """Run the search process, and return what it finds within `SEARCH_SECONDS`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(WORKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    found = _Found()

    async def collect(stdout: asyncio.StreamReader) -> bool:
        async for line in stdout:
            said = json.loads(line)
            if "done" in said:
                return True
            if "left_out" in said:
                found.left_out.append(said["left_out"])
            else:
                found.hits.append(said)
        return False

    try:
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        found.complete = await asyncio.wait_for(collect(process.stdout), SEARCH_SECONDS)
    except asyncio.TimeoutError:
        pass
    finally:
        if process.returncode is None:
            if not found.complete:
                process.kill()
            await process.wait()
    return found


TOOLS = [
    Tool(
        name="search_files",
        description=(
            "Search text files and notebooks below a folder for a regular expression (Python's "
            "syntax; taken literally if it is not a valid one), line by line. Hidden, binary and "
            "very large files are left out, as are those that may hold secrets. Gives file, line "
            "and text of each match."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": 1000},
                "path": {**FOLDER, "description": "Folder or file to search. Default: all."},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        approval="read",
        handler=_search_files,
        summary=lambda i: f"Search for {i['pattern']} in {i.get('path') or 'all files'}",
    ),
]
