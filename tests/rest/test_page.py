"""The numbers on the page about the server are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from offprompt.cli.serve import serve
from offprompt.rest import answering, cursors, dispatch, once, reading, serving, session_streams, sessions

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8").split())
KIB = 1024


def test_the_page_says_the_limits_of_the_code() -> None:
    rows = dict(re.findall(r"\| ([^|]+?) \| ([^|]+?) \| [^|]+? \|", PAGE))
    assert reading.MAX_LINE_BYTES == reading.MAX_BODY_BYTES
    assert rows["a body"].startswith(f"{reading.MAX_BODY_BYTES // KIB // KIB} MiB;")
    conversation, stream = (
        each // KIB // KIB for each in (sessions.MAX_CONVERSATION_BYTES, session_streams.MAX_STREAM_BYTES)
    )
    assert rows["a conversation, with its pictures"].startswith(f"{conversation} MiB; a model's")
    assert rows["a conversation, with its pictures"].endswith(f" {stream} MiB")
    assert rows["a piece of a model's reply"] == f"comes within {sessions.STREAM_WAIT_S:g} s"
    assert rows["JSON"] == f"{reading.MAX_DEPTH} levels deep"
    target, head = serving.MAX_TARGET_BYTES // KIB, serving.MAX_HEAD_BYTES // KIB
    assert rows["an address, a head"] == f"{target} KiB; {head} KiB and {serving.MAX_HEADERS} headers"
    assert rows["the head of a request"] == f"comes within {serving.HEAD_S:g} s"
    assert rows["a body; of a stream each piece"] == f"comes within {reading.BODY_S:g} s"
    assert rows["a piece of an answer"] == f"is taken within {answering.SEND_S:g} s"
    assert rows["a connection on which nothing is asked"] == f"{serving.IDLE_S} s"
    assert rows["connections of a process"].startswith(f"{serving.MAX_CONNECTIONS:,}, ")
    assert rows["streams that are read at a time, of a process"] == f"{dispatch.STREAMS}"


def test_it_listens_where_the_page_says() -> None:
    given = inspect.signature(serve).parameters
    assert f"listening on http://{given['host'].default}:{given['port'].default} try:" in PAGE
    assert (given["host"].default, given["port"].default) == ("127.0.0.1", 7333)


def test_the_page_says_for_how_long_answers_are_kept() -> None:
    assert f"for {once.KEPT_S / 3600:g} hours" in PAGE
    assert f"anew after {once.BEGUN_S:g} seconds" in PAGE
    assert f"over {once.MAX_KEPT_BYTES // KIB} KiB" in PAGE
    assert f"at most {cursors.MAX_PAGE:,} entries" in PAGE
