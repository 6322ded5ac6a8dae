"""What the Makefile runs. Only the standard library: nothing is installed yet when it starts."""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):
    sys.exit(
        "prime_ext needs Python 3.10 or newer; this is "
        + ".".join(map(str, sys.version_info[:3]))
        + ". Name another one: make PYTHON=/path/to/python3.12"
    )
