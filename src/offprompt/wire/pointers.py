"""JSON pointers to the parts of a value.

Source   RFC 6901: `~1` is `/`, `~0` is `~`.
"""

from __future__ import annotations

from collections.abc import Iterator

from offprompt.records import Json, as_dict, as_list


def step_of(key: str) -> str:
    """A key as a step of a pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def key_of(step: str) -> str:
    """The key that a step of a pointer names."""
    return step.replace("~1", "/").replace("~0", "~")


def leaves(value: Json) -> Iterator[tuple[str, object]]:
    """What is no object and no list in a value, with its pointer, the last ones first; keys are none.

    Cost   O(parts), of any depth.
    """
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        pointer, part = waiting.pop()
        members, items = as_dict(part), as_list(part)
        if members is not None:
            waiting += [(f"{pointer}/{step_of(key)}", item) for key, item in members.items()]
        elif items is not None:
            waiting += [(f"{pointer}/{at}", item) for at, item in enumerate(items)]
        else:
            yield pointer, part
