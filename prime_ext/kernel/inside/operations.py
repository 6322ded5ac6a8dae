"""The operations of ``prime_request``. Sent like ``bootstrap``."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from prime_ext.kernel.inside import (
        bootstrap,
        describe,
        expression,
        files,
        guard,
        library,
        running,
        snapshots,
        summary,
    )

MAX_VARIABLES = 500
LIST_SECONDS = 5.0
INSPECT_SECONDS = 10.0


def user_names(shell: Any) -> dict[str, Any]:
    """Return the user's variables, oldest first, without IPython's own names and ``_…``."""
    # The main thread may be changing the namespace: a copy is atomic, a loop is not.
    namespace = dict(shell.user_ns)
    hidden = shell.user_ns_hidden
    missing = object()
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and hidden.get(name, missing) is not value
    }


def list_variables(kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """List variables: ``{variables: [{name, type, kind, shape?, size?, repr}], omitted}``."""
    clock = guard.Clock(LIST_SECONDS)
    names = user_names(kernel.shell)
    limit = int(params.get("limit") or MAX_VARIABLES)
    # The variables defined last are the most relevant.
    shown = list(names.items())[-limit:]
    return {
        "variables": [_entry(name, value, clock) for name, value in shown],
        "omitted": len(names) - len(shown),
    }


def _entry(name: str, value: Any, clock: guard.Clock) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "type": "", "kind": "data", "repr": ""}
    try:
        entry["type"] = summary.type_name(value)
        entry["kind"] = summary.kind_of(value)
        entry["repr"] = summary.short(value, clock)
        shape, size = summary.shape_of(value), summary.size_of(value)
    except BaseException as error:
        entry["repr"] = entry["repr"] or f"<cannot be described: {type(error).__name__}>"
        return entry
    if shape is not None:
        entry["shape"] = shape
    if size is not None:
        entry["size"] = size
    return entry


def inspect_variable(kernel: Any, params: dict[str, Any], _buffers: Any) -> dict[str, Any]:
    """Describe a variable, or an expression on it: ``{name, expression?, type, text, image?}``."""
    name, looked_at = params["name"], params.get("expression")
    namespace = dict(kernel.shell.user_ns)
    if name not in namespace:
        raise bootstrap.Refusal("variable_not_found", _unknown(name, kernel.shell))
    clock = guard.Clock(INSPECT_SECONDS)
    answer: dict[str, Any] = {"name": name}
    lines: list[str] = []
    try:
        value = namespace[name]
        if looked_at:
            answer["expression"] = looked_at
            value = guard.within(clock.left(), expression.evaluate, looked_at, namespace)
        answer["type"] = summary.type_name(value)
        guard.within(clock.left(), describe.describe, value, clock, lines)
        if params.get("image", True):
            image = guard.within(clock.left(), describe.image_of, value)
            if image is not None:
                answer["image"] = image
    except expression.ExpressionRefused:
        raise
    except guard.TookTooLong:
        if not lines:
            raise bootstrap.Refusal(
                "too_slow", f"Looking at {looked_at or name} takes too long."
            ) from None
        lines.append("(The rest takes too long to work out.)")
    except BaseException as error:  # User code may raise SystemExit.
        if not lines:
            raise bootstrap.Refusal(
                "expression_failed", f"{looked_at or name}: {type(error).__name__}: {error}"
            ) from None
        lines.append(f"(No image: {type(error).__name__}: {error})")
    answer["text"] = summary.clip("\n".join(lines), describe.MAX_CHARS)
    return answer


def _unknown(name: str, shell: Any) -> str:
    near = difflib.get_close_matches(name, user_names(shell), n=3)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    return f"There is no variable {name!r} in the kernel.{hint}"


def operations() -> dict[str, Callable[[Any, dict[str, Any], Any], dict[str, Any]]]:
    """Return all operations by name."""
    return {
        "give_back": running.give_back,
        "variables": list_variables,
        "inspect": inspect_variable,
        "state_install": library.install,
        "state_save": snapshots.save,
        "state_saved": snapshots.saved,
        "state_verify": snapshots.verify,
        "state_load": snapshots.load,
        "state_current": snapshots.is_current,
        "files_probe": files.probe,
        "files_look": files.look,
        "files_lacking": files.lacking,
        "files_read": files.read,
        "files_write": files.write,
        "files_settle": files.settle,
        "files_push": files.push,
        "files_pull": files.pull,
    }
