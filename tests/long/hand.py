"""Works on a session as it is told, line by line: the other process's program.

python hand.py FILE USER SESSION OPTIONS
"""

from __future__ import annotations

import json
import sys

import msgspec

import offprompt


def main() -> None:
    """Until there are no more lines; each answer is a line."""
    path, user, session_id, options = sys.argv[1:]
    with offprompt.open(path) as memory:
        session = memory.scope(user=user).session(session_id, **json.loads(options))
        for line in sys.stdin:
            what, *given = json.loads(line)
            if what == "prepare":
                answer = session.prepare(given[0], show=given[1])
            elif what == "absorb":
                answer = session.absorb(given[0])
            else:
                stream = session.absorb_stream(given[0])
                out = list(stream)
                answer = [stream.reply, out]
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
