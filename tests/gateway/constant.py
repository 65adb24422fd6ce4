"""An upstream that costs little: constant answers, streamed with the time at which each piece leaves, or whole.

    python -m tests.gateway.constant       prints its port

What it is asked does not matter, but for `"stream":true`, and `x-events` among the headers: how many pieces of text
come; `x-gap-ms`: the pause before each; `x-number`: what each piece says of itself, to be told from others.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any, Final

import uvicorn

MODEL: Final = "gpt-4.1-mini"
TEXT: Final = "Both files say the same about it: the limit is checked once, before anything is written. "
PIECES: Final = 20


def event(delta: dict[str, Any], **more: Any) -> bytes:
    """A piece of a streamed chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def whole() -> bytes:
    """A whole chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT * 3}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 25_000, "completion_tokens": 60, "total_tokens": 25_060}
    reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    return json.dumps({**reply, "usage": usage}).encode()


WHOLE: Final = whole()


def said(pieces: int) -> str:
    """What a stream of so many pieces says."""
    return TEXT * pieces


FIRST: Final = event({"role": "assistant", "content": ""})
LAST: Final = event({}, finish_reason="stop") + b"data: [DONE]\n\n"


def piece(at: int, number: str) -> str:
    """The text of one piece of a stream."""
    return f"piece {at} of {number} " if number else TEXT


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer one request."""
    if scope["type"] == "lifespan":
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})
        return
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    given = {name: value.decode() for name, value in scope["headers"]}
    if b'"stream":true' in body or b'"stream": true' in body:
        await _stream(send, given)
        return
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(WHOLE)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": WHOLE})


async def _stream(send: Any, given: dict[bytes, str]) -> None:
    gap, number = float(given.get(b"x-gap-ms", "0")) / 1000, given.get(b"x-number", "")
    head = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    pieces = [FIRST]
    for at in range(int(given.get(b"x-events", str(PIECES)))):
        if gap:
            await asyncio.sleep(gap)
        pieces.append(event({"content": piece(at, number)}, left_at=time.monotonic_ns()))
        await send({"type": "http.response.body", "body": b"".join(pieces), "more_body": True})
        pieces = []
    await send({"type": "http.response.body", "body": b"".join(pieces) + LAST})


def main() -> None:
    """Serve on a free port."""
    bound = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(bound.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", http="httptools", loop="uvloop")
    uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main()
