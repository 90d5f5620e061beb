"""The page of families is the table of families."""

from pathlib import Path

from probes.families import FAMILIES
from probes.families_page import families_page

PAGE = Path(__file__).parent.parent.parent / "docs" / "families.md"


def test_the_page_is_not_stale() -> None:
    """Else: python -m probes.families_page > docs/families.md"""
    assert PAGE.read_text(encoding="utf-8") == families_page()


def test_every_family_has_its_line() -> None:
    lines = families_page().splitlines()
    for family in FAMILIES.values():
        (line,) = (line for line in lines if line.startswith(f"| {family.name} | "))
        assert f"`{family.model_type}`" in line
        assert family.why in line
