"""Misfits: what a request that does not fit its shape is told: what is wrong, and what there is in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.inspect import DataclassType, ListType, LiteralType, StructType, Type, UnionType, VarTupleType, type_info

_AT: Final = re.compile(r" - at `\$(.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([A-Za-z_0-9]+)|\[[^\]]*\]")


def misfit(kind: Any, error: msgspec.ValidationError) -> str:
    """What does not fit, with the members or the words that there are where the error names one that is not.

    kind     the shape that was read, as `msgspec.convert` takes it.
    """
    said = str(error)
    found = _AT.search(said)
    places = list(_places(type_info(kind), found[1] if found else ""))
    if said.startswith("Object contains unknown field"):
        there = [
            each.encode_name for one in places if isinstance(one, StructType | DataclassType) for each in one.fields
        ]
    elif said.startswith("Invalid enum value"):
        there = [repr(each) for one in places if isinstance(one, LiteralType) for each in one.values]
    else:
        there = []
    return f"{said}; there is {', '.join(there)}" if there else said


def _places(kind: Type, path: str) -> Iterator[Type]:
    """The types that may stand at the path, such as `.messages[0].role`, within the type."""
    if isinstance(kind, UnionType):
        for one in kind.types:
            yield from _places(one, path)
        return
    step = _STEP.match(path)
    if step is None:
        yield kind
    elif step[1] is None:
        if isinstance(kind, ListType | VarTupleType):
            yield from _places(kind.item_type, path[step.end() :])
    elif isinstance(kind, StructType | DataclassType):
        for field in kind.fields:
            if field.encode_name == step[1]:
                yield from _places(field.type, path[step.end() :])
