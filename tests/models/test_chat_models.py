"""Chat models against the strict server on loopback, by the providers' real clients, under faults."""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import offprompt
from offprompt import Cancel, ModelError, UnsupportedError, UsageError
from offprompt.models import clients
from offprompt.models.chat_anthropic import AnthropicChatModel
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries, asked_wait, is_worth_a_try
from offprompt.protocols import ChatModel
from offprompt.testing.strict import Said
from offprompt.testing.strict_server import StrictServer, Trouble
from offprompt.wire.streams import assemble

WIRES = ("openai", "anthropic")
AT_ONCE = Retries(times=3, base_s=0.0)
USER: dict[str, Any] = {"messages": [{"role": "user", "content": "How are you? 你好吗？"}]}
WORDS = "Well. 很好 😀"
KEY = "sk-not-to-be-seen"


def says_words(**_: Any) -> Said:
    return Said(WORDS)


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer(says_words) as running:
        yield running
        assert running.faults == []


def model_at(server: StrictServer, wire: str, **options: Any) -> ChatModel:
    options = {"key": KEY, "retries": AT_ONCE, "timeout_s": 20.0, **options}
    if wire == "anthropic":
        return AnthropicChatModel("claude-sonnet-5-5", base_url=server.url, **options)
    return OpenAIChatModel("small", base_url=f"{server.url}/v1", **options)


def text_of(reply: Any) -> str:
    return reply["choices"][0]["message"]["content"] if "choices" in reply else reply["content"][0]["text"]


@pytest.mark.parametrize("wire", WIRES)
def test_whole_streamed_and_awaited_replies_are_the_same(server: StrictServer, wire: Any) -> None:
    model = model_at(server, wire)
    assert text_of(model.create(USER)) == WORDS
    assert text_of(assemble(model.stream(USER), wire=wire)) == WORDS
    assert model.complete(USER["messages"]).text == WORDS

    async def awaited() -> list[str]:
        streamed = [chunk async for chunk in model.stream(USER)]
        answer = await model.acomplete(USER["messages"])
        return [text_of(await model.acreate(USER)), text_of(assemble(streamed, wire=wire)), answer.text]

    # A second loop, as with a second asyncio.run of the same program.
    assert asyncio.run(awaited()) == asyncio.run(awaited()) == [WORDS] * 3
    assert USER == {"messages": [{"role": "user", "content": "How are you? 你好吗？"}]}


@pytest.mark.parametrize("wire", WIRES)
def test_a_storm_of_rate_limits_is_sat_out(server: StrictServer, wire: str) -> None:
    model = model_at(server, wire)
    server.troubles = [Trouble(429, {"retry-after": "0"}), Trouble(529), Trouble(503)]
    assert text_of(model.create(USER)) == WORDS
    server.troubles = [Trouble(429)] * 3
    assert "".join(map(json.dumps, model.stream(USER)))
    assert len(server.requests) == 8


@pytest.mark.parametrize("wire", WIRES)
def test_a_storm_that_does_not_end_is_an_error_with_its_tries(server: StrictServer, wire: str) -> None:
    server.troubles = [Trouble(429, says="slow down")] * 9
    with pytest.raises(ModelError, match=r"takes no more requests now \(HTTP 429\) after 4 tries: slow down") as caught:
        model_at(server, wire).create(USER)
    assert (caught.value.kind, caught.value.tries, caught.value.status) == ("rate_limit", 4, 429)
    assert len(server.requests) == 4


@pytest.mark.parametrize("wire", WIRES)
def test_a_wait_longer_than_the_deadline_is_not_begun(server: StrictServer, wire: str) -> None:
    server.troubles = [Trouble(429, {"retry-after": "3600"})]
    with pytest.raises(ModelError, match=r"its wait of 3,600\.0 s is over the deadline"):
        model_at(server, wire).create(USER)
    assert len(server.requests) == 1


def test_a_spent_quota_is_not_tried_again(server: StrictServer) -> None:
    server.troubles = [Trouble(429, says="You exceeded your current quota, please check your plan")]
    with pytest.raises(ModelError, match="quota"):
        model_at(server, "openai").create(USER)
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_no_try_helps_is_said_at_once(server: StrictServer, wire: str, status: int) -> None:
    server.troubles = [Trouble(status, says=f"no: {KEY} and 你好吗？ and " + "x" * 900)]
    with pytest.raises(UsageError, match=f"HTTP {status}") as caught:
        model_at(server, wire).create(USER)
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_quotes_nothing_of_what_was_sent(server: StrictServer, wire: str) -> None:
    for told in ("the door code of the summer house is 4711-0815", "夏天住的那个院子的门密码是四七一一"):
        server.troubles = [Trouble(400, says=f"Input should be a valid string, got {told!r}; see the manual")]
        with pytest.raises(UsageError) as caught:
            model_at(server, wire).create({"messages": [{"role": "user", "content": f"Know that {told}."}]})
        assert "got '…'; see the manual" in str(caught.value)


@pytest.mark.parametrize("wire", WIRES)
def test_a_lost_connection_is_tried_again(server: StrictServer, wire: str) -> None:
    model = model_at(server, wire)
    server.troubles = [Trouble(drop=True), Trouble(cut=40)]
    assert text_of(model.create(USER)) == WORDS
    server.troubles = [Trouble(drop=True)]
    assert text_of(assemble(model.stream(USER), wire=wire)) == WORDS  # type: ignore[arg-type]
    assert len(server.requests) == 5


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_off_gives_what_came_and_is_not_tried_again(server: StrictServer, wire: str) -> None:
    server.troubles = [Trouble(cut=900)]
    got: list[Any] = []
    with pytest.raises(ModelError, match=r"the connection to .* failed") as caught:
        got.extend(model_at(server, wire).stream(USER))
    assert caught.value.kind == "connection"
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_no_server_is_a_connection_error_that_names_the_address(wire: str) -> None:
    with StrictServer(says_words) as gone:
        model = model_at(gone, wire)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:\d+.* failed after 4 tries") as caught:
        model.create(USER)
    assert caught.value.kind == "connection"
    assert model.context_tokens == 0


@pytest.mark.parametrize("wire", WIRES)
def test_a_page_in_place_of_json_is_said_so(server: StrictServer, wire: str) -> None:
    model = model_at(server, wire)
    asks: list[Callable[[], object]] = [lambda: model.create(USER), lambda: model.complete(USER["messages"])]
    for ask in asks:
        server.troubles = [Trouble(text="<html>Welcome</html>")]
        with pytest.raises(ModelError, match="not a JSON object; check base_url") as caught:
            ask()
        assert caught.value.kind == "reply"


@pytest.mark.parametrize("wire", WIRES)
def test_a_page_in_place_of_a_stream_is_said_so(server: StrictServer, wire: str) -> None:
    server.troubles = [Trouble(text="<html>Welcome</html>")]
    with pytest.raises(ModelError, match="a page or text, not a stream; check base_url") as caught:
        list(model_at(server, wire).stream(USER))
    assert caught.value.kind == "reply"
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_hanging_endpoint_meets_the_deadline_and_is_let_go(server: StrictServer, wire: str) -> None:
    server.troubles = [Trouble(hang=True)] * 2
    model = model_at(server, wire, timeout_s=0.2)
    with pytest.raises(ModelError, match=r"did not answer within 0\.2 s \(asked once\)") as caught:
        model.create(USER)
    assert caught.value.kind == "timeout"
    with pytest.raises(ModelError, match="did not answer"):
        list(model.stream(USER))
    wait_for(lambda: server.left == 2)


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_can_be_called_off_from_another_thread(server: StrictServer, wire: str) -> None:
    server.troubles = [Trouble(hang=True)]
    model, cancel = model_at(server, wire), Cancel()
    threading.Thread(target=lambda: (wait_for(lambda: bool(server.requests)), cancel.cancel())).start()
    with pytest.raises(ModelError, match="called off") as caught:
        model.create(USER, cancel=cancel)
    assert caught.value.kind == "cancelled"
    wait_for(lambda: server.left == 1)
    with pytest.raises(ModelError, match="called off"):
        next(iter(model.stream(USER, cancel=cancel)))
    assert len(server.requests) == 1, "nothing begins with what was called off"


@pytest.mark.parametrize("wire", WIRES)
def test_cancelling_an_awaiting_task_closes_the_connection(server: StrictServer, wire: str) -> None:
    server.troubles = [Trouble(hang=True)]
    model = model_at(server, wire)

    async def begin_and_stop() -> None:
        task = asyncio.create_task(model.acreate(USER))
        while not server.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(begin_and_stop())
    wait_for(lambda: server.left == 1)


@pytest.mark.parametrize("wire", WIRES)
def test_leaving_a_stream_early_closes_it(server: StrictServer, wire: str) -> None:
    model = model_at(server, wire)
    for _ in model.stream(USER):
        break
    assert text_of(model.create(USER)) == WORDS


@pytest.mark.parametrize("wire", WIRES)
def test_many_threads_share_one_model(server: StrictServer, wire: str) -> None:
    model, said = model_at(server, wire), list[str]()
    threads = [threading.Thread(target=lambda: said.append(text_of(model.create(USER)))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [WORDS] * 12
    model.close()
    model.close()
    assert text_of(model.create(USER)) == WORDS, "a closed model opens again when it is used"


@pytest.mark.parametrize("wire", WIRES)
def test_a_client_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch, wire: str) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    with StrictServer(says_words) as running:
        model = model_at(running, wire)
        monkeypatch.setattr(clients, "import_module", missing)
        with pytest.raises(UnsupportedError, match=rf"pip install 'offprompt\[{wire}\]'"):
            model.create(USER)
        with pytest.raises(UnsupportedError, match="pip install"):
            model.stream(USER)
        assert model.context_tokens == 0
        assert running.requests == []


def test_a_session_runs_on_a_model(server: StrictServer) -> None:
    mem = offprompt.open(":memory:")
    for wire in WIRES:
        model = model_at(server, wire)
        session = mem.scope(user="ada").session(wire, model=model.name, wire=model.wire)
        reply = session.absorb(model.create(session.prepare(USER["messages"])))
        assert reply.text == WORDS
        streamed = session.absorb_stream(
            model.stream(session.prepare([*USER["messages"], *reply.messages, *USER["messages"]]))
        )
        assert list(streamed)
        assert streamed.reply.text == WORDS
        assert all((entry.usage.input or 0) > 0 for entry in session.ledger())


def test_what_retry_after_asks_for() -> None:
    now = 1_800_000_000.0
    later = dt.datetime.fromtimestamp(now + 30, tz=dt.UTC)
    for headers, seconds in (
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": email.utils.format_datetime(later, usegmt=True)}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ):
        assert asked_wait(headers, now) == seconds, headers


def test_waits_grow_are_spread_and_bounded() -> None:
    rule = Retries(base_s=1.0, max_s=10.0)
    assert [rule.wait_s(tries, None, 1.0) for tries in (1, 2, 3, 4, 5, 50)] == [1, 2, 4, 8, 10, 10]
    assert rule.wait_s(3, None, 0.0) == 2
    assert rule.wait_s(1, 7.0, 0.0) == 7.0
    assert 7.0 < rule.wait_s(1, 7.0, 1.0) <= 7.25, "never earlier than asked for"
    assert [status for status in (400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 529) if is_worth_a_try(status)] == [
        408,
        425,
        429,
        500,
        529,
    ]


def wait_for(holds: Callable[[], bool]) -> None:
    """Until it holds; the test's own timeout ends it if it never does."""
    pause = threading.Event()
    while not holds():
        pause.wait(0.005)
