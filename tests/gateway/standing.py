"""A gateway as the command line makes it: with keys, options, and the rules of where it listens."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import Any

import httpx

from offprompt.gateway.made import gateway_for
from offprompt.gateway.options import GatewayOptions
from offprompt.service.offprompt import Offprompt
from offprompt.testing.upstream import Upstream
from tests.gateway.client import script
from tests.gateway.conftest import Running, served
from tests.service.talk import MODELS, Say, Wire

PATHS: dict[Wire, str] = {"openai": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}


@contextlib.contextmanager
def standing(
    memory: Offprompt,
    replies: list[dict[str, Any]],
    *,
    host: str = "127.0.0.1",
    user: str | None = None,
    **options: Any,
) -> Generator[Running]:
    """A gateway over the memory, before an upstream with these replies. host: where it believes to listen."""
    with Upstream(replies) as upstream:
        made = gateway_for(memory, (host, host), GatewayOptions(upstreams=(upstream.url,), **options), user=user)
        with served(made) as url:
            yield Running(url, memory, upstream)


def said(wire: Wire, *texts: str | Say) -> list[dict[str, Any]]:
    return script(wire, *texts)


def body(wire: Wire, *messages: str | Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A request of these messages; a text is a user's."""
    given = [{"role": "user", "content": each} if isinstance(each, str) else dict(each) for each in messages]
    needed = {"max_tokens": 100} if wire == "anthropic" else {}
    return {"model": MODELS[wire], "input" if wire == "responses" else "messages": given, **needed, **more}


def post(running: Running, wire: Wire, asked: Mapping[str, Any], **headers: str) -> httpx.Response:
    """Ask; names of headers with `_` in place of `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(running.url + PATHS[wire], json=asked, headers=named, timeout=30)
