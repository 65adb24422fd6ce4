"""Grants of an app that a server keeps: what `service.granting` offers, and the server runs it."""

from __future__ import annotations

from typing import Any, Final

from offprompt.client._answers import record_of, records_of
from offprompt.client._requests import Asking, Async, Request, Sync, asked, id_headers, path_of
from offprompt.records import Grant, GrantKind

GRANTS: Final = path_of("v1", "grants")


class GrantCalls:
    """The calls of both faces; see `offprompt.service.granting.Grants`. For keys that are admins of the whole app."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    @asked
    def add(self, kind: GrantKind, name: str, *, to: str, app: str | None = None) -> Asking[Grant]:
        """Let somebody find what a space or an agent holds; once more changes nothing."""
        body = {"kind": kind, "name": name, "to": to}
        return record_of((yield Request("POST", GRANTS, body=body, headers=id_headers(app))), Grant)

    @asked
    def list(self, app: str | None = None) -> Asking[list[Grant]]:
        """The grants of an app, the oldest first."""
        return records_of((yield Request("GET", GRANTS, headers=id_headers(app)))["grants"], Grant)

    @asked
    def remove(self, kind: GrantKind, name: str, *, to: str, app: str | None = None) -> Asking[Grant]:
        """Take a grant back."""
        query = {"kind": kind, "name": name, "to": to}
        return record_of((yield Request("DELETE", GRANTS, query=query, headers=id_headers(app))), Grant)


class Grants(GrantCalls, Sync):
    """The grants of an app."""


class AsyncGrants(GrantCalls, Async):
    """The grants of an app, for `async` code."""
