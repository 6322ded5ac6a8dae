"""The entry point of ``jupyter prime``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from prime_ext import __version__
from prime_ext.cli import free, import_snapshot, run, sessions, stats
from prime_ext.errors import PrimeError, sentences

COMMANDS = (run, sessions, stats, free, import_snapshot)
"""The modules of all commands. ``add(commands)`` adds the parser, with ``set_defaults(run=run)``;
``run(arguments)`` returns the exit status, and raises `PrimeError` for problems that the user can
solve. Heavy modules are imported in ``run``."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="jupyter prime", description="Sessions of the Prime agent, from a shell."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    whole = parser()
    chosen, rest = whole.parse_known_args(arguments)
    if getattr(chosen, "takes_traits", False):
        chosen.traits, rest = run.split_traits(rest)
    if rest:
        whole.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        status: int = chosen.run(chosen)
    except PrimeError as error:
        print(sentences(error.message, error.hint), file=sys.stderr)
        return 1
    except BrokenPipeError:  # `jupyter prime sessions | head`
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
