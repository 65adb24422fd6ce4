"""Two requests of one conversation at the same time, on two workers over one store."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from offprompt.testing.strict_replies import reply_from
from tests.gateway.conftest import worker
from tests.gateway.echo import Heard, RawUpstream, whole
from tests.gateway.standing import PATHS, body, said
from tests.gateway.test_gone import HEAD, events, spoken
from tests.service.talk import Wire, call, flat

ALWAYS = {"head": "always"}
FIRST, SECOND = "Name a colour", "Name a town"


@dataclass
class InOrder:
    """An upstream that answers the first request once it has the second, and the second once the first is over."""

    wire: Wire
    streams: bool
    calls: bool
    first_is_here: threading.Event = field(default_factory=threading.Event)
    second_is_here: threading.Event = field(default_factory=threading.Event)
    first_is_over: threading.Event = field(default_factory=threading.Event)

    def __call__(self, heard: Heard) -> Any:
        is_first = FIRST in heard.body.decode()
        (self.first_is_here if is_first else self.second_is_here).set()
        assert (self.second_is_here if is_first else self.first_is_over).wait(30)
        of_first = call("mem_write", slot="colour", value="red") if self.calls else "Red."
        (reply,) = said(self.wire, of_first if is_first else "Ulm.")
        reply = {"model": "m", **reply_from(reply, self.wire, int(is_first), sign=str)}
        if not self.streams:
            return whole("200 OK", [("Content-Type", "application/json")], json.dumps(reply).encode())
        return self._pieces(reply)

    def _pieces(self, reply: dict[str, Any]) -> Iterator[bytes]:
        yield HEAD
        yield from events(reply, self.wire)


@pytest.mark.parametrize("calls", [False, True], ids=["says", "calls"])
def test_a_reply_that_another_workers_request_has_overtaken_goes_on_or_is_asked_for_again(
    wire: Wire, streams: bool, calls: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Never a 409: what the model said goes to the client whole, and header and log say that it is not recorded; a
    call to the memory is not run, so the client is to ask again. The newer request has all of its memory.
    """
    upstream = InOrder(wire, streams, calls)
    with ExitStack() as stack:
        raw: Any = stack.enter_context(RawUpstream(upstream))
        one, other = (stack.enter_context(worker(raw, store=tmp_path / "a.db", options=ALWAYS)) for _ in range(2))

        def ask(url: str, text: str) -> httpx.Response:
            asked = body(wire, text, **({"stream": True} if streams else {}))
            return httpx.post(url + PATHS[wire], json=asked, headers={"Offprompt-Session": "s"}, timeout=60)

        with ThreadPoolExecutor(2) as pool:
            asked = pool.submit(ask, one.url, FIRST)
            assert upstream.first_is_here.wait(30)
            beside = pool.submit(ask, other.url, SECOND)
            first = asked.result()
            upstream.first_is_over.set()
            second = beside.result()
        journal = [flat(each.message) for each in one.alice.session("s", wire=wire, model="").journal()]
        assert one.alice.slots.get("colour") is None
    assert (second.status_code, second.headers["offprompt-memory"]) == (200, "on")
    told = ["".join(spoken(each.content, wire)) if streams else each.text for each in (first, second)]
    assert "Ulm." in told[1]
    assert first.status_code == (503 if calls and not streams else 200)
    assert ("Red." in told[0]) is not calls
    assert ("ask again" in first.text) is calls
    assert "mem_write" not in first.text
    if not streams:
        said_so = first.json()["error"]["message"] if calls else first.headers["offprompt-memory"]
        assert "not recorded" in said_so
    assert calls or "another call sent a newer request" in caplog.text
    assert ["Ulm." in " ".join(journal), "Red." in " ".join(journal)] == [True, False]
