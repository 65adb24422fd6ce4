"""Slot records: names, and what logs and tracebacks show of them."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.errors import NameInvalidError
from offprompt.records import Policy, PutSlot, Scope, Slot, SlotVersion, clean_name, fold_name

SAID = "hunter-two-4711"


def slot(policy: Policy, value: str = SAID) -> Slot:
    return Slot(Scope(user="u"), "密码", value, 1, policy, "user", "app", "app", 1.0, 1.0, 15)


@pytest.mark.parametrize(
    "name", ["city", "城市", "ключ", "Ünïcode", "نام", "नाम", "이름", "ᄒ", "a.b-c_d", "4711", "my_m_1"]
)
def test_names_of_any_script_are_taken(name: str) -> None:
    assert clean_name(name) == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize(
    "char", ["\u3164", "\u115f", "\u1160", "\uffa0", "\u034f", "\u17b4", "\u180b", "\ufe0f", "\U000e0100"]
)
def test_letters_and_marks_that_show_nothing_are_refused(char: str) -> None:
    """Two names that look alike would be two slots, and a name could look like none."""
    for name in (char, f"a{char}", f"城{char}市"):
        with pytest.raises(NameInvalidError, match=rf"has 'U\+{ord(char):04X}' at position"):
            clean_name(name)


@pytest.mark.parametrize("name", ["m_1", "M_1", "ｍ_1", "Ｍ_1", "𝐦_1", "ⓜ_1", "ᵐ_1"])
def test_no_name_folds_to_one_of_memory_ids(name: str) -> None:
    assert fold_name(name).startswith("m_")
    with pytest.raises(NameInvalidError):
        clean_name(name)


def test_repr_hides_what_is_never_shown() -> None:
    version = SlotVersion(1, SAID, "never", "user", "app", "app", 1.0, 15)
    put = PutSlot(Scope(user="u"), "密码", {"a": SAID}, "never")
    for record in (slot("never"), version, put):
        assert SAID not in repr(record)
        assert SAID not in repr([record])
        assert "value=<hidden>" in repr(record)
        assert SAID in repr(replace(record, policy="by_handle"))


def test_repr_tells_the_rest() -> None:
    shown = repr(slot("when_asked", "Paris"))
    assert shown.startswith("Slot(scope=Scope(")
    assert all(part in shown for part in ("name='密码'", "value='Paris'", "version=1", "policy='when_asked'"))


@given(st.text(alphabet=st.characters(max_codepoint=0x7F)))
def test_a_plain_name_folds_as_any_other(name: str) -> None:
    assert fold_name(name) == unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


@given(st.text(alphabet="aM_m-.9 é", max_size=70))
def test_a_plain_name_is_checked_as_any_other(name: str) -> None:
    fits = 1 <= len(name) <= 64 and " " not in name and name[0] != "." and not name.lower().startswith("m_")
    try:
        assert clean_name(name) == name
    except NameInvalidError:
        assert not fits
    else:
        assert fits
