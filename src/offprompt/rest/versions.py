"""Versions of what is stored, as HTTP asks for them: ETag, If-Match, If-None-Match."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from offprompt.errors import ConflictError
from offprompt.rest.endpoint import Call
from offprompt.rest.problems import RequestError

TAG: Final = re.compile(r'(?:W/)?"([!#-~]*)"')
TAGS: Final = re.compile(rf"{TAG.pattern}(?:[ \t]*,[ \t]*{TAG.pattern})*")
"""A list of them. A tag may hold a comma."""

BARE: Final = re.compile("[1-9][0-9]{0,17}")
"""A version as a tag. No slot has one of more digits."""

NONE_THERE: Final = 0
"""As a version: nothing is there."""


def tag_of(version: int, *what: object) -> str:
    """The tag of a record: its version, and a digest of what may change without one, or begin anew.

    what   JSON, but for how often it was used: that changes with each look.
    """
    digest = hashlib.blake2b(msgspec.json.encode(what), digest_size=6).hexdigest()
    return f"{version}-{digest}"


def is_known(call: Call, tag: str) -> bool:
    """Whether the client has that version already, by If-None-Match."""
    given = call.headers.get("if-none-match")
    return given is not None and _has(_tags("If-None-Match", given), tag)


def expected_version(call: Call, current: Callable[[], tuple[int, str] | None]) -> int | None:
    """The version that must be there for the change that is asked for; None: any, NONE_THERE: none.

    current  the version and tag of what would be changed, None if it is not there; called where it has to be known.
    Bare     versions are tags too: `If-Match: "3"`.
    Raises   ConflictError if it is known already that it is another one; RequestError for what is no list of tags.
    """
    match, none_match = call.headers.get("if-match"), call.headers.get("if-none-match")
    if match is None and none_match is None:
        return None
    wanted = None if match is None else _tags("If-Match", match)
    if wanted is not None and none_match is None and len(wanted) == 1 and BARE.fullmatch(wanted[0]):
        return int(wanted[0])
    if wanted is None and none_match == "*":
        return NONE_THERE
    there = current()
    if wanted is not None and (there is None or not _has(wanted, there[1])):
        raise ConflictError("If-Match: what is there is of another version, or nothing is; read it, and decide anew")
    if none_match is not None and there is not None and _has(_tags("If-None-Match", none_match), there[1]):
        raise ConflictError("If-None-Match: that version is there; read it, and decide anew")
    return NONE_THERE if there is None else there[0]


def _has(tags: list[str], tag: str) -> bool:
    return "*" in tags or tag in tags or tag.partition("-")[0] in tags


def _tags(header: str, given: str) -> list[str]:
    """The tags of a header, without their quotes; `*` stands for any."""
    if given.strip() == "*":
        return ["*"]
    if TAGS.fullmatch(given.strip()) is None:
        raise RequestError(
            HTTPStatus.BAD_REQUEST, f"{header}: {given[:60]} is no list of tags; send an ETag as it came, or *"
        )
    return TAG.findall(given)
