"""Checks of the configuration on the command line, so that no mistyped limit is ignored."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from traitlets import HasTraits, TraitError
from traitlets.config import Configurable
from traitlets.config.loader import DeferredConfig, KVArgParseConfigLoader

from prime_ext.errors import PrimeError

BAD_TRAIT = "bad_trait"


def refuse_bad(traits: Sequence[str], classes: Iterable[type[HasTraits]]) -> None:
    """Check arguments ``--Class.trait=value`` that concern ``classes``; skip all others.

    Raises
    ------
    PrimeError
        ``bad_trait``, with the name that was probably meant, or the values that are allowed.
    """
    known = {
        cls.__name__: cls
        for given in classes
        for cls in given.mro()
        if issubclass(cls, Configurable)
    }
    _refuse_small_letters(traits, known)
    for class_name, name, value in _given(traits, list(known.values())):
        if class_name not in known:
            continue
        owner = known[class_name]
        if name not in owner.class_trait_names(config=True):
            raise PrimeError(
                f"There is no trait {class_name}.{name}.",
                code=BAD_TRAIT,
                hint=_meant(name, owner.class_trait_names(config=True), f"{class_name}.{{}}"),
            )
        trait: Any = owner.class_traits()[name]
        try:
            if isinstance(value, DeferredConfig):
                value = value.get_value(trait)
            # The error message needs an instance; it need not be initialized.
            if value is not None or not trait.allow_none:
                trait.validate(owner.__new__(owner), value)
        except (TraitError, ValueError, TypeError):
            raise PrimeError(
                f"--{class_name}.{name} does not take {str(value)[:80]!r}.",
                code=BAD_TRAIT,
                hint=f"Give {trait.info()}{_bounds(trait)}.",
            ) from None


def refuse_unknown(traits: Sequence[str]) -> None:
    """Check for unknown classes, once the server has loaded all classes that it uses.

    Raises
    ------
    PrimeError
        As ``refuse_bad``.
    """
    loaded = list(_below(Configurable))
    names = {cls.__name__ for cls in loaded}
    for class_name, name, _ in _given(traits, []):
        if class_name not in names:
            having = {cls.__name__ for cls in loaded if name in cls.class_trait_names(config=True)}
            raise PrimeError(
                f"There is no class {class_name} to configure.",
                code=BAD_TRAIT,
                hint=_meant(class_name, having or names, f"{{}}.{name}"),
            )
    refuse_bad(traits, loaded)


def _refuse_small_letters(traits: Sequence[str], known: Iterable[str]) -> None:
    """Check that class names begin with a capital letter, since the loader fails otherwise."""
    typed = {name.lower(): name for name in known}
    for given in traits:
        class_name, _, rest = given.removeprefix("--").partition(".")
        if not class_name[:1].isupper():
            near = difflib.get_close_matches(class_name.lower(), typed, n=1)
            meant = [typed[name] for name in near]
            raise PrimeError(
                f"There is no class {class_name} to configure.",
                code=BAD_TRAIT,
                hint=_meant(meant[0] if meant else "", meant, f"{{}}.{rest.partition('=')[0]}"),
            )


def _given(
    traits: Sequence[str], classes: list[type[Configurable]]
) -> Iterator[tuple[str, str, Any]]:
    """Yield class, trait and value of each argument."""
    config = KVArgParseConfigLoader(list(traits), classes=classes).load_config()
    for class_name, values in config.items():
        for name, value in values.items():
            yield class_name, name, value


def _meant(typed: str, names: Iterable[str], shape: str) -> str:
    near = difflib.get_close_matches(typed, names, n=1, cutoff=0.5)
    if not near:
        return "docs/configuration.md lists what there is."
    return f"Was --{shape.format(near[0])} meant?"


def _bounds(trait: Any) -> str:
    least, most = getattr(trait, "min", None), getattr(trait, "max", None)
    from_least = "" if least is None else f" from {least} on" if most is None else f" from {least}"
    return from_least + ("" if most is None else f" to {most}")


def _below(cls: type[Configurable]) -> Iterator[type[Configurable]]:
    for child in cls.__subclasses__():
        yield child
        yield from _below(child)
