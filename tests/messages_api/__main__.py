"""``python -m tests.messages_api``: the test API as a process, for browser tests."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from pathlib import Path

from tests.messages_api.clock import Clock
from tests.messages_api.script import Latency, load
from tests.messages_api.server import MessagesAPI


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.messages_api", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--key", default="test-key-0123456789", help="API key to accept")
    parser.add_argument("--script", type=Path, required=True, help=".py or .json, see docs")
    parser.add_argument("--first-token", type=float, default=0.0, help="seconds to the first token")
    parser.add_argument("--tokens-per-second", type=float, default=0.0, help="0: at once")
    parser.add_argument(
        "--window",
        action="append",
        default=[],
        metavar="MODEL=TOKENS",
        help="give a model a smaller window",
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    api = MessagesAPI(
        key=options.key,
        port=options.port,
        clock=Clock(virtual=False),
        latency=Latency(options.first_token, tokens_per_s=options.tokens_per_second),
    )
    api.respond = load(options.script)
    for setting in options.window:
        model, _, tokens = setting.partition("=")
        api.set_window(model, int(tokens))
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.set())
    with api:
        logging.getLogger(__name__).info("Messages API on %s", api.url)
        stop.wait()


if __name__ == "__main__":
    main()
