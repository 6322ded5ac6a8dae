"""``jupyter prime run``: let the agent carry out one task on a notebook, without a browser."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from prime_ext.cli.place import add_data_dir
from prime_ext.config import PERMISSION_MODES

_TRAIT = re.compile(r"--[A-Za-z_]\w*\.\w+=.*", re.DOTALL)

DESCRIPTION = """\
The agent of the panel, with the same tools, limits and records: it works on the notebook in a
kernel of the notebook's own kernelspec, and prints its reply. What it does is told on the error
stream."""

EXIT_STATUSES = """\
exit status: 0 done, 1 failed, 2 wrong usage, 3 needs an approval and there is no terminal,
4 declined, 5 limit of the turn reached, 6 no such notebook, 7 no usable model,
8 the notebook is open elsewhere, 130 interrupted.

Any trait of the server's configuration can be given too: --ModelConfig.max_requests_per_turn=20"""


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "run",
        help="carry out a task on a notebook, without a browser",
        description=DESCRIPTION,
        epilog=EXIT_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("notebook", type=Path, help="the .ipynb file")
    parser.add_argument("task", help="what to do; - reads it from the standard input")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--yes", action="store_true", help="allow everything the agent asks for, as the mode auto"
    )
    how.add_argument("--mode", choices=PERMISSION_MODES, help="permission mode (default: ask)")
    parser.add_argument("--model", metavar="ID", help="model id, or offline")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="work on a copy; the notebook stays as it is"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument(
        "--keep-kernel", action="store_true", help="do not shut the kernel down at the end"
    )
    add_data_dir(parser)
    parser.set_defaults(run=run, takes_traits=True)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the task; return the exit status."""
    import asyncio
    import atexit
    import gc

    from prime_ext.headless.report import Report, end_of
    from prime_ext.headless.run import Run, Task
    from prime_ext.headless.terminal import Terminal

    text = sys.stdin.read() if arguments.task == "-" else arguments.task
    traits = list(arguments.traits)
    if arguments.data_dir is not None:
        traits.append(f"--PrimeExtension.data_dir={arguments.data_dir.absolute()}")
    task = Task(
        notebook=arguments.notebook,
        text=text,
        output=arguments.output,
        model=arguments.model,
        mode=arguments.mode,
        yes=arguments.yes,
        keep_kernel=arguments.keep_kernel,
        traits=traits,
    )
    report = Report(reply=not arguments.json)
    carried = Run(task, report, Terminal.find())
    # At exit Python would garbage-collect all objects of the server, which would delay the shell's
    # prompt by a second. The operating system frees the memory anyway.
    atexit.register(gc.freeze)
    asyncio.run(carried.carry_out())
    if arguments.json:
        print(json.dumps(carried.outcome.to_dict(), indent=2))
    else:
        report.line(end_of(carried.outcome))
    return int(carried.outcome.status)


def split_traits(rest: list[str]) -> tuple[list[str], list[str]]:
    """Split unknown arguments into traits, ``--Class.trait=value``, and others."""
    traits = [argument for argument in rest if _TRAIT.fullmatch(argument)]
    return traits, [argument for argument in rest if argument not in traits]
