"""What schemathesis leaves as it is and what it does not, when it asks the server of test_schema.py."""

from __future__ import annotations

import re
from typing import Any

import schemathesis

from offprompt.rest.openapi import FORMS

SCOPES = (
    "Offprompt-User",
    "Offprompt-Agent",
    "Offprompt-Session",
    "Offprompt-App",
    "Offprompt-Shared",
    "Offprompt-Space",
)
TAGS = ("If-Match", "If-None-Match")
USERS = ("alice", "%E5%B0%8F%E6%98%8E")

BEYOND_SCHEMAS = (
    r"ids are printable text",  # a category of characters
    r"ids have 1 to 256 bytes",  # bytes, not characters
    r"give seconds since 1970, a datetime, or ISO 8601 text",  # more forms than a format of JSON Schema has
    r"\bcursor='",  # only those that were answered
    r"is no part of a score",  # names of members
    r"content is text or a list of parts",  # messages are as a provider has them
    r"absorb came before prepare|began on the wire|the session's wire is",  # what came before
    r"the same id; name two users",  # two members that differ
    r"is everyone's; change it in the shared scope",  # whose the memory is
    r"cannot be imported",  # a file of one of several forms
    r"nothing is named; give slots or memories",  # one of two members
    r"is not one handle",  # what a handle is spelled like
    r"of a place(: give text| has control characters)",  # a place's parts are optional, and never empty
    r"nothing is to be changed: name one of",  # one of several members
    r"(says|asks) nothing; give some words",  # more than spaces
    r"is over; give a later time",  # later than now
    r"is no operator; the operators are|is an empty object; name an operator",  # names of members
    r"is an empty object; name an operator",
    r"the first line is not JSON",  # of a stream whose lines are of two kinds
    r"there is no message to send",  # messages are as a provider has them
    r"the reply holds no assistant message",
    r"has role .*; responses know",
    r"holds no message of a user with text",
    r"(filters: none were given|so it would find everybody's)",  # of mem0's: an id in every branch
    r"filters in the address are no object",  # an object written as text
    r"schema is a text that is no JSON object",
    r"an entity of type",  # a part of the path
    r"nothing is to be changed; name a setting",  # one of several members
    r"operation=.*: it is",
    r"the name of a space '",  # letters of any script, unique once folded
)
"""Beginnings or parts of what is said about requests that fit the schema and not the rules that no schema can say."""


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType]
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Whose memory a right request is about is one of two users: that the shared scope stands alone, and that bytes are
    UTF-8 of printable text, no schema of one header can say. Wrong requests stay as they were made."""
    del context, kwargs
    if case.meta is None or case.meta.generation.mode.is_positive:
        for name in TAGS:  # of that pattern it makes a `0` too
            if not re.fullmatch(FORMS[name]["pattern"], case.headers.get(name, "*")):
                del case.headers[name]
        named = [name for name in SCOPES if case.headers.pop(name, None) is not None]
        if named:
            case.headers["Offprompt-User"] = USERS[len(named) % len(USERS)]


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType]
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether it is one: a refusal for a rule that no schema can say is none."""
    del context, case
    if type(failure).__name__ != "RejectedPositiveData" or response.status_code != 400:
        return True
    return not any(re.search(rule, response.text) for rule in BEYOND_SCHEMAS)
