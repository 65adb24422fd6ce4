"""What was shown is kept or replaced: never dearer than both fixed choices, and the best of all choices."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.wire.keeping import Piece, cheaper_to_keep, keeping_price
from offprompt.wire.prices import PriceSheet, builtin_sheets, named_sheet

DEFAULT = named_sheet("default", builtin_sheets())
PIECES = st.lists(
    st.builds(Piece, st.integers(1, 2000), st.one_of(st.none(), st.integers(1, 400))), min_size=1, max_size=7
)
SHEETS = st.sampled_from(builtin_sheets())


def _decide(*pieces: Piece, front: int = 3000, sheet: PriceSheet = DEFAULT, expected: float = 5) -> frozenset[int]:
    sent = front + sum(piece.live for piece in pieces)
    return cheaper_to_keep(pieces, front=front, sent=sent, sheet=sheet, expected=expected)


def test_a_short_value_before_a_long_tail_is_kept() -> None:
    assert _decide(Piece(60, 20), Piece(5000)) == {0}


def test_a_long_value_before_a_short_tail_is_replaced() -> None:
    assert _decide(Piece(900, 20), Piece(50)) == frozenset()


def test_the_more_requests_are_expected_the_less_is_kept() -> None:
    pieces = Piece(100, 20), Piece(500)
    assert [bool(_decide(*pieces, expected=expected)) for expected in (0, 1, 10, 100)] == [True, True, True, False]


def test_what_stands_behind_a_replaced_one_is_replaced_with_it() -> None:
    long, short = Piece(2000, 20), Piece(60, 20)
    assert _decide(short, Piece(3000), long, Piece(10)) == {0}
    assert _decide(long, short, Piece(1000), expected=100) == frozenset()


def test_a_receipt_longer_than_the_value_is_not_put_in_its_place() -> None:
    assert _decide(Piece(10, 20), Piece(100), expected=0) == {0}
    assert _decide(Piece(10, 20), Piece(100), expected=1000) == {0}


def test_nothing_shown_is_nothing_to_decide() -> None:
    assert _decide(Piece(10), Piece(20)) == frozenset()


def test_where_nothing_is_cached_the_shorter_form_is_sent() -> None:
    pieces = [Piece(60, 20), Piece(5000)]
    assert cheaper_to_keep(pieces, front=3000, sent=0, sheet=DEFAULT, expected=0) == frozenset()


@given(PIECES, SHEETS, st.integers(0, 5000), st.integers(0, 12_000), st.integers(0, 200))
def test_never_dearer_than_keeping_all_or_replacing_all(
    pieces: list[Piece], sheet: PriceSheet, front: int, sent: int, expected: int
) -> None:
    def price(kept: frozenset[int]) -> float:
        return keeping_price(pieces, kept, front=front, sent=sent, sheet=sheet, expected=expected)

    chosen = price(cheaper_to_keep(pieces, front=front, sent=sent, sheet=sheet, expected=expected))
    assert chosen <= price(frozenset(range(len(pieces))))
    assert chosen <= price(frozenset())


@given(PIECES, SHEETS, st.integers(0, 5000), st.integers(0, 12_000), st.integers(0, 200))
def test_no_choice_of_any_kind_is_cheaper(
    pieces: list[Piece], sheet: PriceSheet, front: int, sent: int, expected: int
) -> None:
    """Where a cache takes any length; with a minimum a longer prompt may be the cheaper one."""
    sheet = replace(sheet, cache_min_tokens=0, cache_step=1)

    def price(kept: frozenset[int]) -> float:
        return keeping_price(pieces, kept, front=front, sent=sent, sheet=sheet, expected=expected)

    shown = [at for at, piece in enumerate(pieces) if piece.settled is not None]
    every = chain.from_iterable(combinations(shown, count) for count in range(len(shown) + 1))
    best = min(price(frozenset(kept)) for kept in every)
    chosen = price(cheaper_to_keep(pieces, front=front, sent=sent, sheet=sheet, expected=expected))
    assert chosen == pytest.approx(best, abs=1e-9)
