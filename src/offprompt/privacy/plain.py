"""One form for digits, dashes and spaces of any width, character for character, so that places stay."""

from __future__ import annotations

from typing import Final

_FULL_WIDTH: Final = {ord("０") + value: str(value) for value in range(10)}
_DASHES: Final = dict.fromkeys(map(ord, "‐‑‒–—−－"), "-")
_SPACES: Final = dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2009\u202f\u3000\t\u200b\u200c\u200d\u2060\ufeff"), " ")
_SIGNS: Final = {ord("＋"): "+", ord("（"): "(", ord("）"): ")", ord("＠"): "@", ord("．"): ".", ord("＿"): "_"}
_LETTERS: Final = {ord("Ａ") + at: chr(ord("A") + at) for at in range(26)} | {
    ord("ａ") + at: chr(ord("a") + at) for at in range(26)
}
_PLAIN: Final = {**_FULL_WIDTH, **_DASHES, **_SPACES, **_SIGNS, **_LETTERS}


def plain(text: str) -> str:
    """The text with ASCII digits, letters, dashes, brackets and spaces. One character for one. Cost: O(n)."""
    return text if text.isascii() and "\t" not in text else text.translate(_PLAIN)
