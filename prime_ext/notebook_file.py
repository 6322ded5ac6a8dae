"""Reading a notebook through the server's contents manager."""

from __future__ import annotations

import logging
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from prime_ext.errors import PrimeError


async def read_notebook(
    contents_manager: Any, path: str, log: logging.Logger | logging.LoggerAdapter[Any]
) -> dict[str, Any]:
    """Return the content of the notebook at ``path`` as last saved, as nbformat 4.

    Raises
    ------
    PrimeError
        ``notebook_not_found`` (404), ``notebook_invalid`` (400).
    """
    try:
        model = await ensure_async(contents_manager.get(path, content=True, type="notebook"))
    except HTTPError as error:
        raise not_read(path, error) from error
    except Exception as error:  # Damaged notebooks raise more than nbformat's own errors.
        log.warning("%s cannot be read", path, exc_info=True)
        raise not_a_notebook(path, repr(error)) from error
    content: dict[str, Any] = model["content"]
    return content


def not_read(path: str, error: HTTPError) -> PrimeError:
    """Return the error to raise for one that the contents manager has raised."""
    if error.status_code == 404:
        return PrimeError(
            f"There is no notebook {path!r}.",
            code="notebook_not_found",
            hint="Check the path, which is relative to the server's root folder. If the notebook "
            "was renamed or moved, attach the session to its new path.",
            status=404,
        )
    return not_a_notebook(path, error.log_message or error.reason or f"HTTP {error.status_code}")


def not_a_notebook(path: str, reason: str) -> PrimeError:
    """Return the error ``notebook_invalid`` (400)."""
    return PrimeError(
        f"{path!r} cannot be opened as a notebook: {reason}",
        code="notebook_invalid",
        hint="Give the path of an .ipynb file that JupyterLab can open. A damaged one can be "
        "restored from a checkpoint.",
    )
