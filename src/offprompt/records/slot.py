"""Slot: a named place in one scope with one current value."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from offprompt.errors import NameInvalidError
from offprompt.records.json import Json
from offprompt.records.scope import Scope, Within

Policy: TypeAlias = Literal["never", "by_handle", "when_asked", "card"]
"""What the model sees of a slot; see the table in docs/concepts.md."""

Source: TypeAlias = Literal["app", "user", "model", "tool", "document"]
"""Where a value came from: the application's code, the user, the model, a tool's output, a document."""

Trust: TypeAlias = Literal["user", "tool"]
"""`user`: the application, the user, or the model in a turn without foreign text. `tool`: everything else."""

POLICIES: Final = ("never", "by_handle", "when_asked", "card")
RULES: Final = "rules"
"""The actor of what rules derived. Slots that it wrote do not count among `max_slots`: their names are a short list."""

MAX_NAME_CHARS: Final = 64
RESERVED_PREFIX: Final = "m_"
_PLAIN_NAME: Final = re.compile(r"(?![mM]_)[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")
"""Names that need no closer look."""

# Letters and marks that show nothing: the Hangul fillers, joiners, Khmer inherent vowels, variation selectors.
_INVISIBLE: Final = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
) | frozenset(map(chr, range(0xE0100, 0xE01F0)))


class Default(Enum):
    """The type of `DEFAULT`."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default.DEFAULT
"""Not given: the setting's value applies. Not `None`, which means "none": for `ttl_s`, for ever."""


def clean_name(name: object) -> str:
    """A slot name in NFC, checked.

    Raises   NameInvalidError unless it is 1–64 letters of any script, marks, digits, `_ - .`, all of which show,
             without a leading dot or mark, and does not fold to one that begins with `m_` (kept for memory ids).
    """
    if not isinstance(name, str):
        raise NameInvalidError(str(name), "is not text", "pass a str")
    if (plain := _PLAIN_NAME.fullmatch(name)) is not None:
        return plain[0]
    text = unicodedata.normalize("NFC", name)
    if not 1 <= len(text) <= MAX_NAME_CHARS:
        raise NameInvalidError(text[:80], f"has {len(text)} characters", f"use 1 to {MAX_NAME_CHARS}")
    for position, char in enumerate(text):
        category = unicodedata.category(char)
        fits = category[0] == "L" or category == "Nd" or (char in "_-." if char.isascii() else category in ("Mn", "Mc"))
        if not fits or char in _INVISIBLE or (position == 0 and (char == "." or category[0] == "M")):
            shown = char if char.isprintable() and char not in _INVISIBLE else f"U+{ord(char):04X}"
            rule = f"has {shown!r} at position {position + 1}"
            raise NameInvalidError(text, rule, "use letters, digits, '_', '-', '.', and no dot or accent in front")
    if fold_name(text).startswith(RESERVED_PREFIX):
        raise NameInvalidError(text, "begins with 'm_', which is kept for memory ids", "choose another first letter")
    return text


def fold_name(name: str) -> str:
    """The form in which slot names are unique: NFKC, case folded, NFKC again."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def masked_repr(record: Any) -> str:
    """A record with value and policy as logs and tracebacks show it: without the value of a `never` slot."""
    shown = {item.name: repr(getattr(record, item.name)) for item in fields(record) if item.name != "value"}
    shown["value"] = "<hidden>" if record.policy == "never" else repr(record.value)
    return f"{type(record).__name__}({', '.join(f'{name}={text}' for name, text in shown.items())})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a `never` slot's handle resolves: one string of one tool's arguments.

    argument  a JSON pointer into the arguments (`/headers/Authorization`), as `wire.places.clean_place` makes it.
    host      not empty: only while all URLs of the call name exactly this host; see `wire.places.hosts_of`.
    """

    tool: str
    argument: str
    host: str = ""

    def __str__(self) -> str:
        return f"{self.tool} {self.argument}" + (f" {self.host}" if self.host else "")


@dataclass(frozen=True, slots=True)
class Slot:
    """The current version of a slot.

    Units    created_at, updated_at, used_at, expires_at, forgotten_at: seconds since 1970 by the store's clock;
             ttl_s seconds; importance 0 to 1; bytes: UTF-8 bytes of the value's text.
             `sliding`: a read moves expires_at to the read's time + ttl_s.
    allow    places where the handle of a `never` slot resolves; of other policies always empty.
    locked   models may neither write nor forget it.
    recent   times of the model's writes within the last minute before the newest, oldest first.
    spooled  only of a write that the store has not taken yet: it waits on this machine, version 0; its policy is
             `never` where it is still to be chosen.
    """

    scope: Scope
    name: str
    value: Json
    version: int
    policy: Policy
    trust: Trust
    source: Source
    actor: str
    created_at: float
    updated_at: float
    bytes: int
    expires_at: float | None = None
    ttl_s: float | None = None
    sliding: bool = False
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    uses: int = 0
    used_at: float | None = None
    schema: Mapping[str, Any] | None = None
    parts: int = 0
    forgotten_at: float | None = None
    allow: tuple[Place, ...] = ()
    locked: bool = False
    recent: tuple[float, ...] = ()
    spooled: bool = False

    def __repr__(self) -> str:
        return masked_repr(self)

    def used(self, uses: int, used_at: float | None, expires_at: float | None) -> Slot:
        """This slot with another count of uses, and another life. As `dataclasses.replace`, which takes longer."""
        return Slot(
            self.scope,
            self.name,
            self.value,
            self.version,
            self.policy,
            self.trust,
            self.source,
            self.actor,
            self.created_at,
            self.updated_at,
            self.bytes,
            expires_at,
            self.ttl_s,
            self.sliding,
            self.tags,
            self.importance,
            uses,
            used_at,
            self.schema,
            self.parts,
            self.forgotten_at,
            self.allow,
            self.locked,
            self.recent,
            self.spooled,
        )

    @property
    def is_temporary(self) -> bool:
        """Whether a write, or a sweep, may find it over: it expires, is hidden, or rests on a consent."""
        return self.expires_at is not None or self.forgotten_at is not None or bool(self.consent)

    @property
    def purpose(self) -> str:
        """What it may be used for; empty: for anything. Of several, with commas."""
        return ",".join(tag.removeprefix("purpose:") for tag in self.tags if tag.startswith("purpose:"))

    @property
    def consent(self) -> str:
        """The consent that it rests on; empty: none. Of several, with commas."""
        return ",".join(tag.removeprefix("consent:") for tag in self.tags if tag.startswith("consent:"))

    @property
    def kind(self) -> Literal["text", "json"]:
        """`text` for a str, else `json`."""
        return "text" if isinstance(self.value, str) else "json"


@dataclass(frozen=True, slots=True)
class SlotVersion:
    """One version of a slot, as history lists it; `value` is None once it was erased or the slot is forgotten."""

    version: int
    value: Json
    policy: Policy
    trust: Trust
    source: Source
    actor: str
    written_at: float
    bytes: int
    outcome: Literal["written", "forgotten", "restored"] = "written"

    def __repr__(self) -> str:
        return masked_repr(self)


KEEP_ALL: Final = 2**31 - 1
"""`SlotLimits.keep_versions` of a scope under a legal hold: no version goes, under whatever consent it was written."""


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """What a write may not exceed; the settings' values. model_writes: by the model, of one slot in a minute."""

    max_slots: int = 64
    max_bytes: int = 4096
    keep_versions: int = 10
    undo_s: float = 7 * 86400
    model_writes: int = 10


@dataclass(frozen=True, slots=True)
class SlotQuery:
    """Which slots a list returns; every condition given must hold.

    within   `exact`: this scope only · `inherit`: the scopes it inherits, of one name the most specific ·
             `subtree`: every scope that has all its ids.
    names    a pattern over folded names: `*` any run, `?` one character, all else literal.
    tags     all of them must be there. since/until: updated_at, since ≤ t < until.
    forgotten  the hidden slots that an undo could bring back, instead of the live ones; their values are None.
    """

    scope: Scope
    within: Within = "inherit"
    names: str | None = None
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    forgotten: bool = False
    limit: int | None = None
