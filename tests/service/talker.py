"""Talks in a session until it is killed, and says which replies were absorbed: the killed process's program.

python talker.py FILE
"""

from __future__ import annotations

import sys
from typing import Any

import offprompt
from offprompt.testing.strict import StrictUpstream


def says(**request: Any) -> str:
    """A model; what it says is not used."""
    del request
    return "ok"


def main() -> None:
    """Turn after turn, each saving its number by a native call, from where the session stands."""
    session = offprompt.open(sys.argv[1]).scope(user="ann").session("s1", model="gpt-4o-mini")
    provider = StrictUpstream("openai", says)
    messages: list[Any] = []
    number = 0
    while True:
        messages.append({"role": "user", "content": f"Turn {number}"})
        provider(**session.prepare(messages))
        arguments = f'{{"slot":"progress","value":"turn {number} is done"}}'
        call = {"id": f"c{number}", "type": "function", "function": {"name": "mem_write", "arguments": arguments}}
        reply = session.absorb({"role": "assistant", "content": None, "tool_calls": [call]})
        provider(**session.prepare([*messages, *reply.messages]))
        reply = session.absorb({"role": "assistant", "content": f"Done {number}"})
        messages += reply.messages
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    main()
