"""Safe names: one name for one text, and a name that every file system takes."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prompts.names import safe_name

AWKWARD = (
    r"C:\models\Smol:Q4.gguf",
    "http://10.0.0.1:1234/v1",
    "me/tiny",
    "me__tiny",
    "Me/Tiny",
    "aux",
    r"..\..\x",
    "name.",
    "n" * 300,
)
# Microsoft, "Naming Files, Paths, and Namespaces": these, alone or before a dot.
RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def is_safe(name: str) -> bool:
    return (
        re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name) is not None
        and not RESERVED.fullmatch(name)
        and not name.endswith(".")
        and not name.startswith(".")
        and ".." not in name
    )


def test_nine_awkward_names_give_nine_safe_ones_also_when_case_is_ignored() -> None:
    names = [safe_name(name) for name in AWKWARD]
    assert [name for name in names if not is_safe(name)] == []
    assert len({name.lower() for name in names}) == len(AWKWARD)


@pytest.mark.parametrize("name", ["smollm2-135m", "me__tiny", "a.b_c-9", "x" * 80])
def test_a_plain_lower_case_name_stays_as_it_is(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize("name", ["nul.txt", "com1", "lpt9.log", "con.", "x" * 81, "é", "", "-x"])
def test_other_names_get_a_hash_at_their_end(name: str) -> None:
    assert re.search(r"-[0-9a-f]{12}$", safe_name(name))


def test_a_changed_name_can_still_be_read() -> None:
    assert safe_name("Me/Tiny").startswith("me-tiny-")
    assert safe_name(r"C:\models\Smol:Q4.gguf").startswith("c-models-smol-q4.gguf-")


@given(st.text(max_size=120))
@example("\ud800")
@example("aux." + "y" * 100)
def test_any_text_gives_a_safe_name(name: str) -> None:
    assert is_safe(safe_name(name))


@given(st.text(max_size=30), st.text(max_size=30))
@example("a b", "a-b")
@example("A", "a")
@example("x/y", "x\\y")
@example("K", "k")  # The Kelvin sign lowers to a Latin k.
def test_two_texts_never_share_a_name_even_when_case_is_ignored(one: str, other: str) -> None:
    assert (safe_name(one).lower() == safe_name(other).lower()) == (one == other)


@given(st.text(max_size=30))
def test_the_name_of_a_text_cannot_be_another_plain_text(name: str) -> None:
    """A text that already looks like a hashed name is hashed itself, so the two cannot meet."""
    made = safe_name(name)
    if made != name:
        assert safe_name(made) != made
