"""The documentation keeps up with what it describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from traitlets.config import Configurable

from prime_ext.app import PrimeExtension

ROOT = Path(__file__).parents[2]
CLASSES: list[type[Configurable]] = [PrimeExtension, *PrimeExtension.classes]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_option_is_described(cls: type[Configurable]) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    section = text.partition(f"## `{cls.__name__}`\n")[2].partition("\n## ")[0]
    described = set(re.findall(r"^- \*\*`(\w+)`\*\*", section, re.MULTILINE))
    assert described == set(cls.class_own_traits(config=True))


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
