"""Memories, hits and what became of texts: as documents and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from offprompt.cli.call import Call
from offprompt.cli.render import moment, scope_json, shortened, table
from offprompt.records import Memory, MemoryVersion, Recalled, Remembered

OWN: Final = ("digest", "revision", "metadata", "scope", "tags")
"""Fields of a memory that a document leaves out, or writes in its own way."""


def memory_json(memory: Memory) -> dict[str, Any]:
    """A memory as a document."""
    plain = {name: value for name, value in asdict(memory).items() if name not in OWN}
    return plain | {"tags": list(memory.tags), "metadata": memory.metadata, "scope": scope_json(memory.scope)}


def memory_lines(memory: Memory) -> str:
    """What a document says of a memory, a line for each member that is not empty; times as a reader wants them."""
    lines: list[str] = []
    for name, value in memory_json(memory).items():
        if value in ("", None, [], {}, False, -1):
            continue
        shown = moment(value) if name.endswith("_at") else memory.scope if name == "scope" else value
        lines.append(f"{name}: {shown}")
    return "\n".join(lines)


def version_json(version: MemoryVersion) -> dict[str, Any]:
    """A version of a memory as a document."""
    return asdict(version)


def memory_table(call: Call, found: Sequence[Memory]) -> str:
    """Memories as a table, their texts shortened."""
    if not found:
        return call.say("nothing here")
    heads = [call.say(head) for head in ("memory", "kind", "state", "happened", "text")]
    rows = [
        [one.memory_id, one.kind, one.state, moment(one.happened_at), shortened(one.text) or f"<{one.state}>"]
        for one in found
    ]
    return table(heads, rows)


def version_table(call: Call, versions: Sequence[MemoryVersion]) -> str:
    """Versions as a table, their texts shortened."""
    heads = [call.say(head) for head in ("version", "written", "actor", "outcome", "text")]
    rows = [[one.version, moment(one.at), one.actor, one.outcome, shortened(one.text)] for one in versions]
    return table(heads, rows)


def remembered_json(one: Remembered) -> dict[str, Any]:
    """What became of a text, as a document."""
    return asdict(one) | {"replaced": list(one.replaced)}


def remembered_lines(call: Call, stored: Sequence[Remembered]) -> str:
    """A line for each text and for each thing that was derived."""
    lines: list[str] = []
    for one in stored:
        what = f"{call.say(one.outcome)}: " + (f"{call.say(one.kind)} {one.name}" if one.name else "")
        derived = f"{one.text} ({one.rule})" if one.rule else ""
        replaced = f"{call.say('in place of')} {', '.join(one.replaced)}" if one.replaced else ""
        lines.append(", ".join(part for part in (what.rstrip(), derived, replaced, one.why) if part))
    return "\n".join(lines)


def recalled_json(found: Recalled) -> dict[str, Any]:
    """An answer as a document."""
    hits = [
        {"score": hit.score, "parts": dict(hit.parts)}
        | ({} if hit.citation is None else {"citation": str(hit.citation)})
        | memory_json(hit.memory)
        for hit in found
    ]
    return {
        "hits": hits,
        "searched": found.searched,
        "below": found.below,
        "why": found.why,
        "degraded": found.degraded,
    }


def recalled_text(call: Call, found: Recalled, *, explain: bool) -> str:
    """The hits with their whole texts; of an empty answer why it is empty."""
    notes = [f"({found.degraded})"] if found.degraded else []
    if not found:
        counts = f"{found.searched} {call.say('searched')}, {found.below} {call.say('below the floor')}"
        return "\n".join([f"{call.say(found.why)} ({counts})", *notes])
    heads = [call.say(head) for head in ("score", "kind", "happened", "memory")]
    heads += ([call.say("parts")] if explain else []) + [call.say("text")]
    rows: list[list[object]] = []
    for hit in found:
        parts = " ".join(f"{name}={value:.3f}" for name, value in hit.parts.items())
        start = [f"{hit.score:.3f}", hit.memory.kind, moment(hit.memory.happened_at), hit.memory_id]
        stands = [f"[{hit.citation}]"] if hit.citation is not None else []
        rows.append([*start, *([parts] if explain else []), " ".join([*stands, *hit.text.split()])])
    return "\n".join([table(heads, rows), *notes])
