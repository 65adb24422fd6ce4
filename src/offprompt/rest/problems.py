"""Problems: what went wrong, as RFC 9457 says it. The one table of errors and HTTP statuses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from offprompt.errors import (
    BackendError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    LimitError,
    NameInvalidError,
    NotFoundError,
    OffpromptError,
    RateError,
    SchemaError,
    UnauthenticatedError,
    UnsupportedError,
    UsageError,
)
from offprompt.service.action_problems import error_name

MEDIA_TYPE: Final = "application/problem+json"

STATUS: Final[Mapping[type[OffpromptError], int]] = {
    UsageError: 400,
    UnauthenticatedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    LimitError: 422,
    NameInvalidError: 422,
    SchemaError: 422,
    RateError: 429,
    BudgetError: 429,
    OffpromptError: 500,
    UnsupportedError: 501,
    BackendError: 503,
}
"""The HTTP status of each error; of a class that is not here, that of the nearest one above it."""

HINTS: Final = ("name", "used", "limit", "unit", "path", "form", "where", "kind")
"""Fields of errors that their problems carry."""

RETRY_S: Final = 1
"""Seconds after which a store that did not answer may be asked again."""


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What went wrong.

    type     a reference to the page on errors. title: the status in words. detail: what, which value, the rule, the
             way out. code: the class of the error in `offprompt.errors`.
    retry_after_s  seconds after which the same request may work.
    used, limit, unit  of what is limited. name: what was asked for; alike: names that are spelled like it.
    path     where a value breaks its schema. form, where: of a stored value that was about to be sent.
    kind     of a model's trouble; or why a model may not: `locked`, `only_names`, `conflict`, `never`.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    retry_after_s: float | None = None
    used: int | None = None
    limit: int | None = None
    unit: str = ""
    name: str = ""
    alike: list[str] = []
    path: str = ""
    form: str = ""
    where: str = ""
    kind: str = ""


class RequestError(UsageError):
    """A request that breaks a rule of HTTP or of this API before any work is done; it has a status of its own."""

    def __init__(
        self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None, *, code: str = "UsageError"
    ) -> None:
        self.status, self.headers, self.code = status, dict(headers or {}), code
        super().__init__(message)


def status_of(error: OffpromptError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, RequestError):
        return int(error.status)
    if isinstance(error, LimitError) and error.unit == "bytes":
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def problem_of(error: OffpromptError, *, is_conditional: bool = False) -> tuple[Problem, dict[str, str]]:
    """An error as a problem, and the headers that go with it.

    is_conditional   the request says what it expects to be there: a conflict is that it is not.
    """
    status = status_of(error)
    if is_conditional and isinstance(error, ConflictError) and error.retry_after_s is None:
        status = HTTPStatus.PRECONDITION_FAILED
    headers: dict[str, str] = dict(error.headers) if isinstance(error, RequestError) else {}
    retry = getattr(error, "retry_after_s", None)
    retry = RETRY_S if retry is None and status == HTTPStatus.SERVICE_UNAVAILABLE else retry
    if retry is not None:
        headers["retry-after"] = str(max(1, math.ceil(retry)))
    if status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    code = error.code if isinstance(error, RequestError) else error_name(error)
    hints = {name: value for name in HINTS if (value := getattr(error, name, None))}
    return (
        Problem(
            type=f"/docs/errors#{code}",
            title=HTTPStatus(status).phrase,
            status=status,
            detail=str(error),
            code=code,
            retry_after_s=retry,
            alike=list(error.alike) if isinstance(error, NotFoundError) else [],
            **hints,
        ),
        headers,
    )


def plain_refusal(status: int, detail: str) -> bytes:
    """A whole answer for what never became a request; the connection ends with it."""
    problem = Problem(
        type="/docs/errors#UsageError",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code="UsageError",
    )
    body = msgspec.json.encode(problem)
    head = f"HTTP/1.1 {status} {problem.title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode("ascii") + body


def unexpected() -> Problem:
    """What is said of an error that nobody raised on purpose: not its text, which may hold anything."""
    return Problem(
        type="/docs/errors#OffpromptError",
        title=HTTPStatus.INTERNAL_SERVER_ERROR.phrase,
        status=500,
        detail="the server made a mistake; its log says which. Ask what is stored before you try again",
        code="OffpromptError",
    )
