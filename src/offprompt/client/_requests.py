"""One request to a server, and how calls are made of requests: each is written once, and is sync and async."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, overload
from urllib.parse import quote

from offprompt.errors import OffpromptError
from offprompt.records import Scope

P = ParamSpec("P")
R = TypeVar("R")

PLAIN: Final = " !#$&'()*+,/:;=?@[]"
"""What may stand in a header as it is, beside letters and digits."""

ABSENT: Final = object()
"""A body that is not there; None is JSON's null."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a server.

    path      percent-encoded. query: None and empty lists are left out. body: JSON, or ABSENT.
    is_read   it changes nothing: it may be asked again without a key of its own.
    on_line   the answer is lines: called with each as it comes. The result says whether they came to their end.
    upload    a file whose bytes are the body. content: the bytes themselves.
    download  a new file that takes the answer's lines; then the answer is their number.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: object = ABSENT
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_read: bool = False
    on_line: Callable[[Any], object] | None = None
    upload: Path | None = None
    content: bytes | None = None
    download: Path | None = None

    @property
    def changes(self) -> bool:
        """Whether it may change something."""
        return self.method != "GET" and not self.is_read


Asking: TypeAlias = Generator[Request, Any, R]
"""Yields requests, is given what each was answered (or its error is raised there), and returns a call's result."""


class Sending(Protocol):
    """Sends a request and gives what was answered, as plain data."""

    def send(self, request: Request, /) -> Any:
        """Raises   the error of `offprompt.errors` that the server names."""
        ...


class AsyncSending(Protocol):
    """`Sending`, awaited."""

    async def send(self, request: Request, /) -> Any:
        """Raises   the error of `offprompt.errors` that the server names."""
        ...


class Sync:
    """A face whose calls return results."""

    _transport: Sending


class Async:
    """A face whose calls are awaited."""

    _transport: AsyncSending


class asked(Generic[P, R]):  # noqa: N801 - a decorator
    """A method that asks a server: on a `Sync` face it returns, on an `Async` one it is awaited."""

    def __init__(self, function: Callable[Concatenate[Any, P], Asking[R]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, face: Sync, owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, face: Async, owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, face: Sync | Async | None, owner: type) -> Callable[..., Any]:
        run = _awaited(self.function) if issubclass(owner, Async) else _returned(self.function)
        return run if face is None else functools.partial(run, face)


@functools.cache
def _returned(function: Callable[..., Asking[Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(face: Sync, *args: Any, **given: Any) -> Any:
        asking, answer = function(face, *args, **given), None
        try:
            request = next(asking)
            while True:
                try:
                    answer = face._transport.send(request)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                except OffpromptError as exc:
                    request = asking.throw(exc)
                else:
                    request = asking.send(answer)
        except StopIteration as end:
            return end.value

    return _described(run, function)


@functools.cache
def _awaited(function: Callable[..., Asking[Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(face: Async, *args: Any, **given: Any) -> Any:
        asking, answer = function(face, *args, **given), None
        try:
            request = next(asking)
            while True:
                try:
                    answer = await face._transport.send(request)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                except OffpromptError as exc:
                    request = asking.throw(exc)
                else:
                    request = asking.send(answer)
        except StopIteration as end:
            return end.value

    return _described(run, function)


def _described(run: Callable[..., Any], function: Callable[..., Asking[Any]]) -> Callable[..., Any]:
    """The runner with the call's own signature, which returns what the call returns."""
    signature = inspect.signature(function)
    returned = str(signature.return_annotation).removeprefix("Asking[").removesuffix("]")
    run.__dict__["__signature__"] = signature.replace(return_annotation=returned)
    del run.__dict__["__wrapped__"]
    return run


def id_headers(app: str | None, scope: Scope | None = None) -> dict[str, str]:
    """The headers that name a scope; None: the server's default for the key. app: None: the key's own."""
    named = {"App": app}
    if scope is not None:
        named |= {"User": scope.user, "Agent": scope.agent, "Session": scope.session}
    headers = {f"Offprompt-{kind}": quote(value, safe=PLAIN) for kind, value in named.items() if value is not None}
    if scope is not None and scope.space is not None:
        headers["Offprompt-Space"] = quote(scope.space, safe=PLAIN)
    return headers | ({"Offprompt-Shared": "true"} if scope is not None and scope.shared else {})


def path_of(*parts: str) -> str:
    """The path of these parts, each percent-encoded: a slash in a name is part of the name."""
    return "/" + "/".join(map(_segment, parts))


def _segment(part: str) -> str:
    # Dots alone, or nothing at all, would mean another path.
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E") or "%20"


def condition(if_version: int | None) -> dict[str, str]:
    """The headers that make a write depend on the version that is there; 0: that there is none."""
    if if_version is None:
        return {}
    return {"If-None-Match": "*"} if if_version == 0 else {"If-Match": f'"{if_version}"'}
