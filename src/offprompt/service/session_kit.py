"""What a session is made of: the parts it shares, and the options it was opened with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from offprompt.config import Settings
from offprompt.errors import UnsupportedError, UsageError
from offprompt.protocols import Clock, Coordinator, SessionStore, SlotStore, Tokenizer
from offprompt.service.leak_watch import LeakWatches
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.slot_writer import Kit
from offprompt.wire.prices import PriceSheet, sheet_for
from offprompt.wire.profiles import SHAPES, Profile, profile_for
from offprompt.wire.shapes import Shape, Wire, check_tools

HistoryPolicy: TypeAlias = Literal[
    "auto", "off", "stub_at_once", "window", "stubs+window", "stub_after_use", "after_use+window", "context_editing"
]
Mode: TypeAlias = Literal["off_prompt", "inline", "auto"]
Capture: TypeAlias = Literal["all", "user", "off"]
Derive: TypeAlias = Literal["rules", "model", "none"]
HISTORY_POLICIES: tuple[HistoryPolicy, ...] = get_args(HistoryPolicy)
MODES: tuple[Mode, ...] = ("off_prompt", "inline", "auto")
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

    def __post_init__(self) -> None:
        for what, value, known in (
            ("policy", self.policy, HISTORY_POLICIES),
            ("mode", self.mode, MODES),
            ("actions", self.actions, ("tools", "text")),
            ("capture", self.capture, CAPTURES),
            ("derive", self.derive, DERIVES),
            ("wire", self.wire, (None, *SHAPES)),
        ):
            if value not in known:
                raise UsageError(f"{what}={value!r}: it is one of {', '.join(str(each) for each in known)}")
        if not isinstance(self.model, str) or not isinstance(self.system, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"model={self.model!r}, system={self.system!r}: both are text")
        given = self.context_tokens
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"context_tokens={self.context_tokens!r}: give the model's window, a number above 0")


@dataclass(frozen=True, slots=True)
class SessionKit:
    """What sessions share. coordinator: None: only the store's revisions keep processes apart."""

    slots: SlotStore
    sessions: SessionStore
    clock: Clock
    tokenizer: Tokenizer
    settings: Settings
    sheets: Sequence[PriceSheet]
    memories: MemoryAccess
    watches: LeakWatches = field(default_factory=LeakWatches)
    coordinator: Coordinator | None = None

    @property
    def slot_kit(self) -> Kit:
        """The part of it that slots need."""
        return Kit(self.slots, self.clock, self.tokenizer, self.settings)

    def sheet(self, model: str) -> PriceSheet | None:
        """The model's price sheet, or None if none is known."""
        return sheet_for(model, self.sheets)


@dataclass(frozen=True, slots=True)
class Model:
    """What a session knows of its model.

    context_editing_tokens  of a request over which its provider clears old tool results; None: it clears nothing.
    lapsing                 shown values stand in system messages that lapse with their turn.
    """

    name: str
    profile: Profile
    shape: Shape
    sheet: PriceSheet | None
    context_tokens: int
    context_editing_tokens: int | None = None
    lapsing: bool = False

    @classmethod
    def of(cls, options: SessionOptions, kit: SessionKit) -> Model:
        """The options filled up by the model's profile and price sheet, then by the settings.

        Raises   UsageError for tools of another wire, or with a name of ours; UnsupportedError for
                 policy="context_editing" on a wire whose provider clears nothing.
        """
        profile, sheet = profile_for(options.model), kit.sheet(options.model)
        known = profile.context_tokens or (sheet.context_tokens if sheet is not None else 0)
        context = options.context_tokens or known or kit.settings.context_tokens
        shape = SHAPES[options.wire or profile.wire]
        check_tools(options.tools, shape.name)
        clears = options.policy == "context_editing"
        if clears and shape.name != "anthropic":
            raise UnsupportedError(
                f"policy='context_editing': only Anthropic clears tool results itself, and the wire is {shape.name}; "
                "use policy='stub_after_use' or 'window' there"
            )
        edited_at = kit.settings.context_editing_tokens if clears else None
        lapsing = kit.settings.shown_after_turn == "clear_at"
        if lapsing and not (profile.lapsing and shape.name == "anthropic"):
            raise UnsupportedError(
                "shown_after_turn='clear_at': only Anthropic's models from Opus 4.8, Sonnet 5.5 and Haiku 5.5 on take "
                f"system messages that lapse, on its own wire; the model is {options.model!r}, the wire {shape.name}; "
                "use shown_after_turn='replace' or 'cheaper' there"
            )
        return cls(options.model, profile, shape, sheet, context, edited_at, lapsing)


def date_of(at: float) -> str:
    """The day of a time, UTC, as shown beside a value."""
    try:
        return dt.datetime.fromtimestamp(at, tz=dt.UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        # A clock that is far off must not take the request with it.
        return "?"
