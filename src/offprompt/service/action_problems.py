"""What the model is told when an action was not done: short, in its language, with the way out."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from offprompt.errors import ConflictError, LimitError, NameInvalidError, NotFoundError, OffpromptError, UsageError
from offprompt.wire.head import Language, receipt_text

Refusal: TypeAlias = Literal["locked", "only_names", "conflict", "never"]
REFUSALS: Final[tuple[Refusal, ...]] = ("locked", "only_names", "conflict", "never")


class NeedsError(UsageError):
    """An argument that is not there, or not what it must be."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the action needs `{what}`; give it")


class RefusedError(ConflictError):
    """A name that the model may not change, or see; `kind`: the receipt that says why."""

    def __init__(self, name: str, kind: Refusal) -> None:
        self.kind: Refusal = kind
        verb = "see" if kind == "never" else "change"
        super().__init__(f"models may not {verb} slot {name!r} ({kind}); the application may")


def error_name(exc: OffpromptError) -> str:
    """The error's class as `offprompt.errors` names it, whatever finer class it is of."""
    return next(kind.__name__ for kind in type(exc).__mro__ if kind.__module__ == "offprompt.errors")


def problem_text(exc: OffpromptError, name: str, language: Language) -> str:
    """The receipt of an error; `name`: the slot that the action named. Never a value."""
    match exc:
        case NeedsError():
            return receipt_text("needs", language, name=exc.what)
        case RefusedError():
            return receipt_text(exc.kind, language, name=name)
        case NameInvalidError():
            return receipt_text("bad_name", language)
        case NotFoundError():
            return receipt_text("missing", language, name=name)
        case LimitError(unit="bytes"):
            return receipt_text("long", language, version=exc.limit)
        case LimitError(unit="writes a minute"):
            return receipt_text("often", language, name=name, version=exc.limit)
        case LimitError():
            return receipt_text("full", language, version=exc.limit)
        case ConflictError():
            return receipt_text("conflict", language, name=name)
        case _:
            return receipt_text("bad_value", language, name=name)
