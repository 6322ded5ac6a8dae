"""Which process this is: restoring into the one that saved may keep its live objects."""

from __future__ import annotations

import secrets

PROCESS = secrets.token_hex(8)
"""Random, so that it differs between machines and boots, where process ids come again."""
