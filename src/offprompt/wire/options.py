"""How a session is opened: the options, checked, that a local and a remote session share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from offprompt.errors import UsageError
from offprompt.records import Message
from offprompt.records.basis import basis
from offprompt.records.scope import clean_spaces
from offprompt.wire.head import Language
from offprompt.wire.shapes import Wire

HistoryPolicy: TypeAlias = Literal[
    "auto", "off", "stub_at_once", "window", "stubs+window", "stub_after_use", "after_use+window", "context_editing"
]
Mode: TypeAlias = Literal["off_prompt", "inline", "auto", "as_needed"]
Capture: TypeAlias = Literal["all", "user", "off"]
Derive: TypeAlias = Literal["rules", "model", "none"]
HISTORY_POLICIES: tuple[HistoryPolicy, ...] = get_args(HistoryPolicy)
MODES: tuple[Mode, ...] = get_args(Mode)
CAPTURES: tuple[str | None, ...] = (None, "all", "user", "off")
DERIVES: tuple[str | None, ...] = (None, "rules", "model", "none")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session was opened; see `BoundScope.session`."""

    model: str = ""
    wire: Wire | None = None
    system: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    context_tokens: int | None = None
    policy: HistoryPolicy = "auto"
    mode: Mode = "off_prompt"
    actions: Literal["tools", "text"] = "tools"
    capture: Capture | None = None
    derive: Derive | None = None
    purpose: str | None = None
    consent: str | None = None
    spaces: tuple[str, ...] = ()

    @property
    def basis(self) -> tuple[str, ...]:
        """The tags of what is stored of the session."""
        return basis(self.purpose, self.consent)

    def __post_init__(self) -> None:
        for what, value, known in (
            ("policy", self.policy, HISTORY_POLICIES),
            ("mode", self.mode, MODES),
            ("actions", self.actions, ("tools", "text")),
            ("capture", self.capture, CAPTURES),
            ("derive", self.derive, DERIVES),
            ("wire", self.wire, (None, *get_args(Wire))),
        ):
            if value not in known:
                raise UsageError(f"{what}={value!r}: it is one of {', '.join(str(each) for each in known)}")
        if not isinstance(self.model, str) or not isinstance(self.system, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"model={self.model!r}, system={self.system!r}: both are text")
        _ = self.basis
        object.__setattr__(self, "spaces", clean_spaces(self.spaces))
        given = self.context_tokens
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"context_tokens={self.context_tokens!r}: give the model's window, a number above 0")


class Underway(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request whose reply is still to come, as plain data.

    asked    the request's number in the ledger, 0: none. The rest is there where memory was not.
    cause    why the request went without memory; empty: it did not. language: of its user.
    added    what the turn added behind what was given. given: the request's messages. is_recorded: it is stored.
    """

    asked: int = 0
    cause: str = ""
    language: Language = "en"
    added: tuple[Message, ...] = ()
    given: tuple[Message, ...] = ()
    is_recorded: bool = False
