"""The kernelspec in a notebook's metadata."""

from __future__ import annotations

import contextlib
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError


def kernelspec_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return ``metadata.kernelspec`` of a notebook; empty if it is missing or no object.

    The metadata of a file is not validated.
    """
    kernelspec = content.get("metadata", {}).get("kernelspec")
    return kernelspec if isinstance(kernelspec, dict) else {}


async def kernelspec_metadata(kernel_spec_manager: Any, name: str) -> dict[str, Any]:
    """Return ``{name, display_name, language?}``, as JupyterLab writes it for a kernel."""
    spec: dict[str, Any] = {}
    # It may have been removed or damaged since, or a gateway be out of reach.
    with contextlib.suppress(KeyError, ValueError, OSError, HTTPError):
        found = await ensure_async(kernel_spec_manager.get_kernel_spec(name))
        # A gateway returns the model of its REST API.
        spec = found["spec"] if isinstance(found, dict) else found.to_dict()
    language = {"language": spec["language"]} if spec.get("language") else {}
    return {"name": name, "display_name": spec.get("display_name") or name, **language}
