"""What a session is made of: the parts that all share, and what it knows of its model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field

from offprompt.config import Settings
from offprompt.errors import UnsupportedError
from offprompt.protocols import Clock, Coordinator, SessionStore, SlotStore, Tokenizer
from offprompt.records import APPLICATION, Actor
from offprompt.records.basis import purposes_of
from offprompt.service.leak_watch import LeakWatches
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.quotas import Quotas
from offprompt.service.slot_writer import Kit
from offprompt.wire.options import SessionOptions
from offprompt.wire.prices import PriceSheet, sheet_for
from offprompt.wire.profiles import SHAPES, Profile, profile_for
from offprompt.wire.shapes import Shape, check_tools


@dataclass(frozen=True, slots=True)
class SessionKit:
    """What sessions share.

    coordinator  None: only the store's revisions keep processes apart. actor: on whose behalf a session acts.
    basis        tags of what is stored of the session: its purpose and its consent.
    quotas       what an app may store; None: anything. spaces: where it looks for passages besides, if it may.
    """

    slots: SlotStore
    sessions: SessionStore
    clock: Clock
    tokenizer: Tokenizer
    settings: Settings
    sheets: Sequence[PriceSheet]
    memories: MemoryAccess
    watches: LeakWatches = field(default_factory=LeakWatches)
    coordinator: Coordinator | None = None
    actor: Actor = APPLICATION
    quotas: Quotas | None = None
    spaces: tuple[str, ...] = ()
    basis: tuple[str, ...] = ()

    @property
    def slot_kit(self) -> Kit:
        """The part of it that slots need."""
        own = (self.slots, self.clock, self.tokenizer, self.settings)
        return Kit(
            *own, quotas=self.quotas, holds=self.memories.holds, stones=self.memories.stones, purposes=self.purposes
        )

    @property
    def purposes(self) -> frozenset[str] | None:
        """What the session is for: what may not be used for it is not found. None: for anything."""
        return frozenset(purposes_of(self.basis)) or None

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
        if lapsing and not profile.takes_lapsing(shape.name):
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
