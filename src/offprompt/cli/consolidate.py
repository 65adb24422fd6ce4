"""`offprompt consolidate`: a language model reads the turns that wait for one."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.render import scope_json, table
from offprompt.errors import ModelError
from offprompt.records import Scope

if TYPE_CHECKING:  # what reads turns loads NumPy
    from offprompt.service.extracting import Extracted

COUNTS = ("read", "added", "updated", "superseded", "forgotten", "merged", "pending", "waiting", "calls")
LABELS = {"pending": "set aside"}


def consolidate(
    call: Call,
    *,
    limit: Annotated[int | None, typer.Option(help="At most so many turns.", min=1)] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Also turns that were set aside.")] = False,
) -> None:
    """Let the model of the table models.extract read what users said, of a scope or all; broken off, it goes on.

    With the setting summary_tokens long values get their summaries too. Exit code 5 if the model failed: what is left
    waits for the next run.
    """
    with call.memory() as memory:
        # NumPy and the embedder are loaded with the command, not with the program.
        from offprompt.service import consolidating, summarizing  # noqa: PLC0415

        kit = memory.parts.memories.kit
        scope = call.scope_of(memory).scope.without_session() if call.scoped else None
        found = list(consolidating.consolidate(kit, scope, limit=limit, pending=pending))
        left = consolidating.waits(memory.parts.main, scope)
        failed = next((one.stopped for one in found if one.cause in ("trouble", "useless")), "")
        everywhere = Scope(memory.parts.settings.app, shared=True)
        summed = [] if failed else list(summarizing.summarize(kit, scope or everywhere, limit=limit))
    failed = failed or next((one.why for one in summed if one.outcome == "trouble"), "")
    document: dict[str, Any] = {"scopes": [_json(one) for one in found], "left": asdict(left)}
    document["summaries"] = [{**asdict(one), "scope": scope_json(one.scope)} for one in summed]
    lines = [_text(call, found, left.waiting, left.pending)]
    lines += [
        f"{call.say('summary')} {one.name} ({one.scope}): {call.say(one.outcome)} {one.why}".rstrip() for one in summed
    ]
    call.put(document, "\n".join(lines))
    if failed:
        raise ModelError(f"what was read is stored, and the rest waits: {failed}", kind="reply")


def _json(one: Extracted) -> dict[str, Any]:
    return {**asdict(one), "scope": scope_json(one.scope)}


def _text(call: Call, found: list[Extracted], waiting: int, pending: int) -> str:
    left = f"{call.say('turns that wait')}: {waiting:,}, {call.say('set aside')}: {pending:,}"
    if not found:
        return left
    heads = [call.say("scope"), *(call.say(LABELS.get(name, name)) for name in COUNTS), call.say("tokens")]
    rows = [
        [str(one.scope), *(f"{getattr(one, name):,}" for name in COUNTS), f"{one.input_tokens + one.output_tokens:,}"]
        for one in found
    ]
    dropped: Counter[str] = Counter()
    for one in found:
        dropped.update(one.dropped)
    lines = [table(heads, rows)]
    if dropped:
        reasons = ", ".join(f"{why} {count:,}" for why, count in dropped.most_common())
        lines.append(f"{call.say('decisions that its turns do not carry')}: {reasons}")
    lines += [f"{call.say('stopped by')}: {one.stopped} ({one.scope})" for one in found if one.stopped]
    return "\n".join([*lines, left])


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "consolidate")(consolidate)
