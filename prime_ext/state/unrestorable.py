"""Placeholders for objects that could not be saved or loaded."""

from __future__ import annotations

from typing import Any, NoReturn

from .restorers import current, restorer


class UnrestorableError(AttributeError, RuntimeError):
    """A placeholder was used as if it were the object it stands for."""


class Unrestorable:
    """A placeholder that describes the lost object, and raises `UnrestorableError` on any use.

    ``_what`` is the qualified type of the lost object, ``_why`` the reason, and ``_shown`` its
    representation. The underscores keep these names apart from attributes of the lost object.
    """

    __slots__ = ("_shown", "_what", "_why")

    def __init__(self, what: str, why: str, shown: str = "") -> None:
        self._what = what
        self._why = why
        self._shown = shown

    def __repr__(self) -> str:
        shown = f" {self._shown}" if self._shown else ""
        return f"<Unrestorable {self._what}{shown}: {self._why}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_placeholder, (self._what, self._why, self._shown)

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise UnrestorableError(
            f"This was a {self._what}; it could not be kept with the kernel's state "
            f"({self._why}). Make it again by running the cell that made it."
        )

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    __call__ = __getitem__ = __setitem__ = __delitem__ = __iter__ = __next__ = _refuse
    __len__ = __contains__ = __enter__ = __exit__ = __await__ = __aiter__ = __anext__ = _refuse
    __aenter__ = __aexit__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = _refuse
    __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __int__ = __float__ = _refuse
    __index__ = __lt__ = __le__ = __gt__ = __ge__ = __bytes__ = __fspath__ = _refuse


@restorer
def restore_placeholder(what: str, why: str, shown: str = "") -> Unrestorable:
    return Unrestorable(what, why, shown)


def missed(what: str, why: str, shown: str = "") -> Unrestorable:
    """Return a placeholder for a resource outside the process, and note that it was missed."""
    current().missed.append(why)
    return Unrestorable(what, why, shown)
