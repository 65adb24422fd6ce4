"""Leaks planted on purpose: the ways in which a value may come to stand in a text."""

from __future__ import annotations

import json
import re
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, quote_plus

_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_SPACES: Final = re.compile(r"\s+")
_RUNS: Final = re.compile(r"[\s+\\-]+")


@dataclass(frozen=True, slots=True)
class Plant:
    """A part of a value (or all of it) in a text, at characters [start, end) in that encoding."""

    name: str
    text: str
    start: int
    end: int
    encoding: str
    piece: str


def _json_ascii(piece: str, _: Random) -> str:
    return json.dumps(piece)[1:-1]


def _json_twice(piece: str, rng: Random) -> str:
    return json.dumps(json.dumps(piece, ensure_ascii=rng.random() < 0.5), ensure_ascii=rng.random() < 0.5)


def _respaced(piece: str, rng: Random) -> str:
    return _SPACES.sub(lambda _: rng.choice(("  ", "\n", "\r\n    ", "\t", "\u3000", "\u00a0")), piece)


def _grouped(piece: str, rng: Random) -> str:
    size = rng.randint(3, 5)
    return " ".join(piece[at : at + size] for at in range(0, len(piece), size))


def _full_width(piece: str, _: Random) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if char.isascii() and char.isalnum() else char for char in piece)


def _inside(piece: str, rng: Random) -> bytes:
    """The piece in bytes, inside a longer text, so that it begins at any alignment."""
    before = "".join(rng.choices("abc xyz", k=rng.randrange(4)))
    after = "".join(rng.choices("abc xyz", k=rng.randrange(4)))
    return f"{before}{piece}{after}".encode("utf-8", "surrogatepass")


ENCODINGS: Final[Mapping[str, Callable[[str, Random], str]]] = MappingProxyType(
    {
        "as_is": lambda piece, _: piece,
        "json": lambda piece, _: json.dumps(piece, ensure_ascii=False)[1:-1],
        "json_ascii": _json_ascii,
        "json_twice": _json_twice,
        "upper": lambda piece, _: piece.upper() if len(piece.upper()) == len(piece) else piece,
        "lower": lambda piece, _: piece.lower() if len(piece.lower()) == len(piece) else piece,
        "respaced": _respaced,
        "spaceless": lambda piece, _: _SPACES.sub("", piece),
        "grouped": _grouped,
        "full_width": _full_width,
        "url": lambda piece, _: quote(piece, safe="", errors="surrogatepass"),
        "url_form": lambda piece, _: quote_plus(piece, errors="surrogatepass"),
        "url_twice": lambda piece, _: quote(quote(piece, errors="surrogatepass")),
        "base64": lambda piece, rng: b64encode(_inside(piece, rng)).decode(),
        "base64_url": lambda piece, rng: urlsafe_b64encode(_inside(piece, rng)).decode().rstrip("="),
        "base64_lines": lambda piece, rng: encodebytes(_inside(piece, rng)).decode(),
        "hex": lambda piece, rng: _inside(piece, rng).hex(),
        "hex_upper": lambda piece, rng: _inside(piece, rng).hex().upper(),
    }
)


def measure(text: str) -> float:
    """Length for the threshold of parts, 1 at 32 characters or 12 Han; a run of spaces and dashes is one character."""
    han = len(_HAN.findall(text))
    return (len(_RUNS.sub(" ", text)) - han) / 32 + han / 12


def plant(rng: Random, values: Mapping[str, str], hosts: Sequence[str], *, encoding: str, least: float = 1) -> Plant:
    """A part of one of the values in one of the texts.

    The part is at a random offset, and as short as `least` (in thresholds) allows in one of three cases; else of any
    length up to the whole value. Values shorter than that are planted whole.
    """
    name = rng.choice(list(values))
    value = values[name]
    start = rng.randrange(len(value))
    end = start + 1
    while end < len(value) and measure(value[start:end]) < least:
        end += 1
    while start and measure(value[start:end]) < least:
        start -= 1
    if rng.random() > 1 / 3:
        end = rng.randint(end, len(value))
    piece = value[start:end]
    host = rng.choice(hosts)
    at = rng.randint(0, len(host))
    spelled = ENCODINGS[encoding](piece, rng)
    return Plant(name, f"{host[:at]} {spelled} {host[at:]}", at + 1, at + 1 + len(spelled), encoding, piece)
