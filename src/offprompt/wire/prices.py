"""Price sheets: what cached, new and output tokens cost, by model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import as_dict, as_list

PER: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """What one model's tokens cost.

    Units             input, cache_write, cache_read, output: `currency` per million tokens. `currency`: a code such as
                      `USD`; `× input price` (relative: input is 1); `s` (a local model: seconds of prefill).
    cache_min_tokens  a shorter request is not cached at all, and then priced at `input`.
    cache_step        cached prefixes end at multiples of it.
    binds_thinking    messages with thinking must keep the prefix that they were made with.
    context_tokens    the model's context, 0: not known. models: patterns over names in lower case.
    """

    name: str
    input: float
    cache_write: float
    cache_read: float
    output: float
    currency: str = "USD"
    cache_min_tokens: int = 0
    cache_step: int = 1
    binds_thinking: bool = False
    context_tokens: int = 0
    dated: str = ""
    source: str = ""
    models: tuple[str, ...] = ()


def parse_sheets(toml_text: str, *, where: str = "the price file") -> tuple[PriceSheet, ...]:
    """The sheets of a TOML text, one table each, in its order.

    Defaults  cache_write: input; currency USD; all else as in PriceSheet. `input`, `cache_read`, `output` are needed.
    Raises    UsageError: where, which sheet and key, what would fit.
    """
    try:
        tables = tomllib.loads(toml_text)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{where} is not TOML: {exc}; correct it") from exc
    return tuple(_sheet(name, table, where) for name, table in tables.items())


@cache
def builtin_sheets() -> tuple[PriceSheet, ...]:
    """The sheets that come with Offprompt; the one called `default` matches no model."""
    text = files("offprompt.wire").joinpath("prices.toml").read_text(encoding="utf-8")
    return parse_sheets(text, where="the built-in price file")


def sheet_for(model: str, sheets: Sequence[PriceSheet]) -> PriceSheet | None:
    """The sheet of that name, else the first one with a pattern that matches the model, else None."""
    wanted = model.lower()
    for sheet in sheets:
        if sheet.name.lower() == wanted:
            return sheet
    return next((sheet for sheet in sheets if any(fnmatchcase(wanted, pattern) for pattern in sheet.models)), None)


def named_sheet(name: str, sheets: Sequence[PriceSheet]) -> PriceSheet:
    """The sheet of that name or for that model.

    Raises   UsageError listing the names there are.
    """
    sheet = sheet_for(name, sheets)
    if sheet is None:
        known = ", ".join(sheet.name for sheet in sheets)
        raise UsageError(f"there is no price sheet {name!r}; the sheets are: {known}")
    return sheet


def cached_tokens(sheet: PriceSheet, prefix: int) -> int:
    """How many of a repeated prefix's tokens are read from the cache: none below the minimum, else whole steps."""
    return 0 if prefix < sheet.cache_min_tokens else prefix - prefix % sheet.cache_step


def price(sheet: PriceSheet, *, cached: int, new: int, output: int = 0, unmarked: int = 0) -> float:
    """One request's price in the sheet's currency.

    cached    tokens read from the cache. new: tokens that enter it, at `cache_write`; a request below
              cache_min_tokens enters nothing and pays `input`.
    unmarked  tokens behind the last cache mark: paid at `input`, never read back.
    """
    write = sheet.cache_write if cached + new >= sheet.cache_min_tokens else sheet.input
    return (cached * sheet.cache_read + new * write + unmarked * sheet.input + output * sheet.output) / PER


def request_price(sheet: PriceSheet, *, prefix: int, total: int) -> float:
    """The input price of a request of `total` tokens whose first `prefix` repeat the request before it."""
    cached = cached_tokens(sheet, prefix)
    return price(sheet, cached=cached, new=total - cached)


def _sheet(name: str, table: object, where: str) -> PriceSheet:
    values = as_dict(table)
    if values is None:
        raise UsageError(f"{where}: {name!r} is not a table; write [{name}] with its prices under it")
    known = {item.name: item.type for item in fields(PriceSheet) if item.name != "name"}
    for key in values:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r} in [{name}]; the keys are: {', '.join(known)}")
    for key in ("input", "cache_read", "output"):
        if key not in values:
            raise UsageError(f"{where}: [{name}] has no {key}; a sheet needs input, cache_read and output")
    clean = {key: _typed(value, str(known[key]), f"{where}: {key} in [{name}]") for key, value in values.items()}
    if clean.get("cache_step") == 0:
        raise UsageError(f"{where}: cache_step in [{name}] is 0; prefixes end at multiples of it: write 1 or more")
    return PriceSheet(name=name, **({"cache_write": clean["input"]} | clean))


def _typed(value: object, kind: str, what: str) -> Any:
    if kind == "str" and isinstance(value, str):
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "float" and isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < PER * PER:
        return float(value)
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if kind == "tuple[str, ...]":
        items = as_list(value)
        if items is not None and all(isinstance(item, str) for item in items):
            return tuple(str(item).lower() for item in items)
    wanted = _WANTED.get(kind, "a list of texts")
    raise UsageError(f"{what} is {value!r}; it must be {wanted}")


_WANTED: Final[Mapping[str, str]] = {
    "str": "text",
    "bool": "true or false",
    "float": "a number of 0 or more",
    "int": "a whole number of 0 or more",
}
