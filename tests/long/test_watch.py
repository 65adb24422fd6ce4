"""The watch sees what it looks for: each request here is spoiled in one way."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.long.test_sessions import RUNS, Run, played
from tests.service.canary import ENGLISH

Request = dict[str, Any]


def changed(request: Request, at: int, text: str) -> Request:
    request = copy.deepcopy(request)
    request["messages"][at]["content"] = f"{request['messages'][at]['content']}{text}"
    return request


SPOILED: dict[str, Callable[[Request], Request]] = {
    "system changed|message 0": lambda request: changed(request, 0, " "),
    "message 2 of": lambda request: changed(request, 2, " "),
    "is gone": lambda request: {**request, "messages": request["messages"][:3]},
    "tools changed": lambda request: {**request, "tools": request["tools"][:-1]},
    "api_key|en": lambda request: changed(request, -1, ENGLISH[5:30].upper()),
    "stands in the system text|message 0": lambda request: changed(request, 0, "Oakland-1001"),
    "stands in a frame": lambda request: changed(request, -1, "<memory x>\nOakland-1001\n</memory x>"),
}


@pytest.mark.data
@pytest.mark.parametrize("why", SPOILED)
def test_a_spoiled_request_is_seen(data: Path, tmp_path: Path, why: str) -> None:
    run = Run("openai", "reader", "en", "off")
    assert run not in RUNS
    with played(run, data, tmp_path / "a.db", turns=4) as (one, plan):
        for turn in itertools.islice(plan, 4):
            one.turn(turn)
        messages = [*one.messages, {"role": "user", "content": "And then?"}]
        request, record = one.hands[0].prepare(messages, []), one.record()
        assert record is not None
        spoiled = SPOILED[why](request)
        with pytest.raises(AssertionError, match=why):
            one.watch.request(messages, spoiled, record)
        one.watch.request(messages, request, record)
