"""JSON Schema checks of slot values, by the `jsonschema` library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from offprompt.errors import SchemaError, UsageError
from offprompt.records import Json, as_dict, as_list, canonical


def check_schema(name: str, value: Json, schema: Mapping[str, Any]) -> None:
    """Nothing, if the value fits the schema (draft 2020-12 unless `$schema` says otherwise).

    References   only within the schema: nothing is fetched, from a network or a disk.
    Cost         80 ms for the first schema of a process, about 1 ms for a new one. A check ends after 100,000 rules,
                 and after 1 s of matching patterns.
    Raises       SchemaError naming the first place and rule that it breaks. UsageError if the schema is not one,
                 whatever the value; or if the check did not end. Neither holds the value, nor keys that only it has.
    """
    # Imported here: 80 ms that only callers with a schema pay.
    from offprompt.wire._json_schema import EndlessError, SchemaFaultError, broken_rule, ready_schema  # noqa: PLC0415

    if as_dict(schema) is None and not isinstance(schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"the schema of slot {name!r} is a {type(schema).__name__}; pass a JSON Schema as a dict")
    try:
        text = canonical(dict(schema))
        text.encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(f"the schema of slot {name!r} is not JSON: pass dicts, lists, text and numbers") from exc
    try:
        broken = broken_rule(ready_schema(text), value)
    except SchemaFaultError as exc:
        raise UsageError(f"the schema of slot {name!r} {exc}; correct it") from exc
    except EndlessError as exc:
        raise UsageError(f"the value for slot {name!r} cannot be checked by its schema: {exc}; correct either") from exc
    if broken is None:
        return
    known = set(_names(schema))
    steps = [str(step) if isinstance(step, int) or step in known else "*" for step in broken.absolute_path]
    rule = f"satisfy {broken.validator} {broken.validator_value!r}"
    if broken.validator in ("properties", None):
        rule = "satisfy properties" if broken.validator else "not be there"
    raise SchemaError(name, "/" + "/".join(steps), f"it must {rule[:128]}")


def _names(schema: object) -> Iterator[str]:
    """All keys and texts of a schema, property names among them."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        members = as_dict(part)
        if members is not None:
            yield from members
            waiting += members.values()
        elif isinstance(part, str):
            yield part
        else:
            waiting += as_list(part) or []
