"""The kernel that a notebook asks for in its metadata."""

from __future__ import annotations

from typing import Any


def kernelspec_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return ``metadata.kernelspec`` of a notebook; empty if it is missing or no object.

    The metadata of a file is not validated.
    """
    kernelspec = content.get("metadata", {}).get("kernelspec")
    return kernelspec if isinstance(kernelspec, dict) else {}
