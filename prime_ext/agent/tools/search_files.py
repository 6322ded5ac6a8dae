"""The tool that searches the files beside the notebook."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from prime_ext.agent.tools import search_worker
from prime_ext.agent.tools.paths import FOLDER
from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome
from prime_ext.clean_text import well_formed

MAX_HITS = 200
SEARCH_SECONDS = 20.0


async def _search_files(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    workspace = context.workspace
    base = await asyncio.to_thread(workspace.find, arguments.get("path", ""))
    job = {
        "pattern": well_formed(arguments["pattern"]),
        "base": str(base),
        "own": workspace.is_own(base),
        "max_hits": MAX_HITS,
    }
    hits, complete = await _run_search(job)
    where = workspace.relative(base)
    place = "the server's root" if where == "." else where
    if not hits:
        text = f"No match for {arguments['pattern']!r} in {place}."
        if not complete:
            text += f" The search was stopped after {SEARCH_SECONDS:.0f} s; try a smaller folder."
        return ToolOutcome.text(text)
    lines: list[str] = []
    last_path = None
    for hit in hits:
        if hit["path"] != last_path:
            last_path = hit["path"]
            lines.append(workspace.relative(Path(hit["path"])))
        lines.append(f"  {hit['where']}: {hit['line']}")
    if len(hits) == MAX_HITS:
        lines.append(f"[Only the first {MAX_HITS} matches; search for something rarer.]")
    elif not complete:
        lines.append(f"[Stopped after {SEARCH_SECONDS:.0f} s: there may be more.]")
    return ToolOutcome.text("\n".join(lines))


async def _run_search(job: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """Hits of the search process, and whether it came to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        search_worker.__file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    hits: list[dict[str, Any]] = []
    complete = False

    async def collect(stdout: asyncio.StreamReader) -> bool:
        async for line in stdout:
            hit = json.loads(line)
            if "done" in hit:
                return True
            hits.append(hit)
        return False

    try:
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        complete = await asyncio.wait_for(collect(process.stdout), SEARCH_SECONDS)
    except asyncio.TimeoutError:
        pass
    finally:
        if process.returncode is None:
            if not complete:
                process.kill()
            await process.wait()
    return hits, complete


TOOLS = [
    Tool(
        name="search_files",
        description=(
            "Search text files and notebooks below a folder for a regular expression (Python's "
            "syntax; taken literally if it is not a valid one), line by line. Hidden, binary and "
            "very large files are left out. Gives file, line and text of each match."
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
