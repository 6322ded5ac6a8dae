"""The identity of this process. A restore into the process that saved can keep live objects."""

from __future__ import annotations

import secrets

PROCESS = secrets.token_hex(8)
"""A random id: unlike a process id, it is not used again by another machine or after a reboot."""
