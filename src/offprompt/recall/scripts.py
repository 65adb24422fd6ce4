"""Scripts written without spaces, as character classes of a pattern."""

from __future__ import annotations

from typing import Final

HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Han and its extensions: one character of it has a meaning."""

SOUNDS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u312f\u31a0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"
"""Thai, Lao, Burmese, Khmer, Kana, Bopomofo: one character of them has none."""
