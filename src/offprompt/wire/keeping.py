"""What was shown in a turn that is over: kept where it stands, or replaced by its receipt; the cheaper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offprompt.wire.prices import PriceSheet, request_price


@dataclass(frozen=True, slots=True)
class Piece:
    """One message of the next request.

    live     tokens as the request before sent it, or would have. settled: tokens once what it shows is replaced;
             None: it shows nothing.
    """

    live: int
    settled: int | None = None


def keeping_price(
    pieces: Sequence[Piece], kept: frozenset[int], *, front: int, sent: int, sheet: PriceSheet, expected: float
) -> float:
    """The price by expectation of the next request and of reading it again in all that follow.

    kept     indexes of the pieces that stay live; all others with a settled form are replaced.
    front    tokens before the pieces. sent: tokens of the request before, which repeat if nothing is replaced.
    expected  requests to come after the next one; each reads the next one's tokens once more.
    Now      what stands in front of the first replaced piece is read from the cache, all behind it is written.
    """
    total, prefix = front, sent
    for at, piece in enumerate(pieces):
        if piece.settled is None or at in kept:
            total += piece.live
        else:
            prefix = min(prefix, total)
            total += piece.settled
    now = request_price(sheet, prefix=min(prefix, total), total=total)
    return now + expected * request_price(sheet, prefix=total, total=total)


def cheaper_to_keep(
    pieces: Sequence[Piece], *, front: int, sent: int, sheet: PriceSheet, expected: float
) -> frozenset[int]:
    """Indexes of the pieces that stay as they were shown; the cheapest choice there is.

    All are decided together: replacing one breaks the prefix behind it anyway, so that there the shorter form of each
    is the cheaper one. Equal prices are decided for replacing, which leaves less in the prompt.
    Parameters and price as in `keeping_price`.
    Cost     O(pieces × shown pieces).
    """
    shown = [at for at, piece in enumerate(pieces) if piece.settled is not None]
    longer = frozenset(at for at in shown if pieces[at].live < (pieces[at].settled or 0))
    choices = [frozenset[int]()]
    choices += [frozenset(shown[:count]) | (longer & frozenset(shown[count:])) for count in range(len(shown) + 1)]
    prices = [keeping_price(pieces, kept, front=front, sent=sent, sheet=sheet, expected=expected) for kept in choices]
    return choices[min(range(len(choices)), key=lambda at: (prices[at], at))]
