"""Every error that Offprompt raises on purpose.

    OffpromptError                 exit code 1
    ├── UsageError (ValueError)    2   the caller asked for something that cannot be done as asked
    │   ├── ScopeError                 no scope, or ids that are not ids
    │   ├── NameInvalidError           a slot name that is not a name, or that folds to another's
    │   ├── LimitError                 over a limit: slots, bytes, tokens
    │   │   ├── BudgetError            what a scope may spend on models in a day is spent
    │   │   └── RateError              more requests than an app may make in a time; says when to ask again
    │   ├── ConflictError              another version, another writer, another trust
    │   │   └── HeldError              what was to be erased is under a legal hold
    │   ├── SchemaError                a value that its slot's JSON schema refuses
    │   ├── HandleError                a handle that was not issued, or not for this place
    │   ├── LeakError                  a stored value that is about to be sent without having been shown or said
    │   └── AccessError                who asks may not
    │       ├── UnauthenticatedError   no key, or one that is not valid
    │       └── ForbiddenError         a key that does not allow it: another app, user, agent, or a role that it lacks
    ├── NotFoundError (LookupError) 3  nothing under that name
    ├── UnsupportedError            4  this engine or wire cannot do it
    └── BackendError                5  the engine failed; the cause is chained
        └── ModelError                 a model's endpoint failed, was too slow, or was called off

Each message is one sentence or two: what, which value, the rule, the way out. No message holds a stored value.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

ModelTrouble: TypeAlias = Literal["rate_limit", "timeout", "connection", "server", "reply", "cancelled"]


class OffpromptError(Exception):
    """The root of the tree; catch it to catch everything that Offprompt raises on purpose."""

    exit_code = 1


class UsageError(OffpromptError, ValueError):
    """The call cannot be done as asked; nothing was changed."""

    exit_code = 2


class ScopeError(UsageError):
    """A missing scope, or an id that is not one."""


class NameInvalidError(UsageError):
    """A slot name that breaks the rules, or that folds to a name that is taken."""

    def __init__(self, name: str, rule: str, way_out: str) -> None:
        self.name = name
        super().__init__(f"the slot name {name!r} {rule}; {way_out}")


class LimitError(UsageError):
    """More than a limit allows; `used` and `limit` are in `unit`."""

    def __init__(self, what: str, *, used: int, limit: int, unit: str, way_out: str) -> None:
        self.used, self.limit, self.unit = used, limit, unit
        super().__init__(f"{what}: {used:,} {unit}, the limit is {limit:,}; {way_out}")


class BudgetError(LimitError):
    """What a scope may spend on models for memory in a day is spent: no call was made, and memory goes on without.

    retry_after_s  seconds until the next day begins, in UTC.
    """

    def __init__(self, what: str, *, used: int, limit: int, unit: str, way_out: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(what, used=used, limit=limit, unit=unit, way_out=way_out)


class RateError(LimitError):
    """More requests than an app may make in a time; `retry_after_s` seconds later the next one is taken."""

    def __init__(self, what: str, *, used: int, limit: int, unit: str, way_out: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(what, used=used, limit=limit, unit=unit, way_out=way_out)


class ConflictError(UsageError):
    """What was expected is not what is there: a version, a writer, a trust.

    retry_after_s  seconds after which the same call may well work, since it is another one that is in its way; None:
                   it does not work by waiting.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class HeldError(ConflictError):
    """What was to be erased is under a legal hold; nothing was changed."""


class SchemaError(UsageError):
    """A value that the slot's JSON schema refuses; says where and why, never the value."""

    def __init__(self, name: str, path: str, rule: str) -> None:
        self.name, self.path = name, path
        super().__init__(
            f"the value for slot {name!r} breaks its schema at {path or '/'}: {rule}; "
            "write a value that fits, or pass another schema with the value"
        )


class HandleError(UsageError):
    """A handle that was not issued in this session, or that may not be used where it stands."""


class LeakError(UsageError):
    """A stored value was found in text that Offprompt was about to send; `name`, `form` and `where` say which and how.

    form   how it is spelled: `as_is`, `json`, `url`, `folded` (case, spaces, widths), `base64`, `hex`.
    """

    def __init__(self, name: str, *, form: str, chars: int, whole: bool, where: str, way_out: str) -> None:
        self.name, self.form, self.where = name, form, where
        what = "the whole value" if whole else f"{chars:,} characters of the value"
        super().__init__(
            f"{what} of {name!r} ({form}) would be sent in {where}; with leaks='refuse' no stored value is sent "
            f"unless it is shown on purpose or was said; {way_out}"
        )


class AccessError(UsageError):
    """Who asks may not. No message says whether what was asked for is there."""


class UnauthenticatedError(AccessError):
    """Nobody showed who asks: no key or token, or one that is not valid (any more)."""


class ForbiddenError(AccessError):
    """The key or token is valid, and does not allow this: another app, user or agent, or a role that it lacks."""


class NotFoundError(OffpromptError, LookupError):
    """Nothing is stored under that name; nothing was changed. `name`: what was asked for; `alike`: names like it."""

    exit_code = 3

    def __init__(self, message: str, *, name: str = "", alike: tuple[str, ...] = ()) -> None:
        self.name, self.alike = name, alike
        super().__init__(message)


class UnsupportedError(OffpromptError):
    """The engine, wire or model does not offer what was asked."""

    exit_code = 4


class BackendError(OffpromptError):
    """The engine failed; the cause is chained with `from`."""

    exit_code = 5


class WouldWait(Exception):  # noqa: N818 - no error: the same is asked again where waiting does no harm
    """A store was asked for what it has at once, and would have to wait, or to write. Nothing was done."""


class ModelError(BackendError):
    """A model's endpoint failed; `kind` says how, `tries` how often it was asked, `status` its HTTP status or 0.

    kind   `rate_limit`, `timeout` (the deadline), `connection`, `server` (HTTP 5xx), `reply` (what came is no answer),
           `cancelled` (called off by the caller).
    """

    def __init__(self, message: str, *, kind: ModelTrouble, tries: int = 1, status: int = 0) -> None:
        self.kind: ModelTrouble = kind
        self.tries, self.status = tries, status
        super().__init__(message)
