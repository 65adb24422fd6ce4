"""A log of 50 MB is replayed in a small multiple of its largest conversation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MEGABYTES = 50
RUN = """
import resource, sys
from pathlib import Path
from offprompt.models.tokenizers import tokenizer_for
from offprompt.service.replay.log import Rules
from offprompt.service.replay.readers import read_conversations
from offprompt.service.replay.simulate import simulate
from offprompt.wire.prices import builtin_sheets, named_sheet
rules, tokenizer = Rules(sheet=named_sheet("default", builtin_sheets())), tokenizer_for()
tokenizer.count("loaded")
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
done = simulate(read_conversations(Path(sys.argv[1]), print), tokenizer, rules, chain=sys.argv[2] == "chain")
print(done.requests, peak() - before)
"""


def _conversation(number: int) -> dict[str, object]:
    """About 100 KB in English and Chinese, with results."""
    messages: list[Any] = []
    for turn in range(25):
        text = f"turn {turn} of {number}: the quick brown fox, 敏捷的狐狸。"
        messages += [
            {"role": "user", "content": text * 5},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "content": text * 50},
            {"role": "assistant", "content": text * 5},
        ]
    return {"messages": messages}


def _write(path: Path, shape: str) -> None:
    """The same conversations as lines, or as one array without a line break."""
    first, between, last = ("", "\n", "\n") if shape == "lines" else ("[", ",", "]")
    conversations = [json.dumps(_conversation(number), ensure_ascii=False) for number in range(10)]
    with path.open("w", encoding="utf-8") as file:
        file.write(first)
        number, size = 0, 0
        while size < MEGABYTES * 1_000_000:
            text = conversations[number % 10].replace("turn", f"turn-{number}")
            size += file.write((between if number else "") + text) + text.count("敏") * 12
            number += 1
        file.write(last)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "how", "limit_mb"),
    [("lines", "apart", 32), ("array", "apart", 32), ("lines", "chain", 150)],
)
def test_fifty_megabytes_in_bounded_memory(tmp_path: Path, shape: str, how: str, limit_mb: int) -> None:
    path = tmp_path / ("log.jsonl" if shape == "lines" else "log.json")
    _write(path, shape)
    assert path.stat().st_size > MEGABYTES * 1_000_000
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), how], capture_output=True, text=True, check=True, timeout=280
    )
    requests, grown_mb = map(int, done.stdout.split())
    assert requests > 10_000
    assert grown_mb < limit_mb
