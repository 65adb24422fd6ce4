"""`offprompt memory …`, and `remember`, `recall`, `forget` as short forms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from offprompt.cli import memory_files, memory_text, slots
from offprompt.cli.call import Call, command
from offprompt.cli.errors import corrected, quoted
from offprompt.cli.given import ConsentOption, PurposeOption, WithinOption, parsed, scope_words, stdin_text, text_given
from offprompt.cli.render import seconds_of
from offprompt.errors import NotFoundError, ScopeError, UsageError
from offprompt.records import DEFAULT, MEMORY_KINDS, Default, MemoryKind, MemoryState, as_dict
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.records.values import check_unversioned
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt

memories = typer.Typer(name="memory", help="Texts of one scope, found by meaning.", no_args_is_help=True)

FILTER_WAY_OUT = 'write an object such as \'{"topic": "travel"}\', see docs/memories.md'
METADATA_WAY_OUT = 'write an object such as \'{"topic": "travel"}\''

Id = Annotated[str, typer.Argument(help="The memory's id, m_….")]
Ids = Annotated[list[str], typer.Argument(help="The memories' ids, m_….")]
File = Annotated[Path | None, typer.Option(help="Read the text from this file.")]
Metadata = Annotated[str | None, typer.Option(help="A JSON object that filters may ask about.")]
Tags = Annotated[list[str] | None, typer.Option(help="A tag; may be repeated.")]
Importance = Annotated[float | None, typer.Option(help="0 to 1.")]
Filter = Annotated[str | None, typer.Option("--filter", help="A JSON object of conditions.")]
Since = Annotated[str | None, typer.Option(help="Happened at this time or after.")]
Until = Annotated[str | None, typer.Option(help="Happened before this time.")]
Kinds = Annotated[list[str] | None, typer.Option(help="Only fact, episode or passage; may be repeated.")]
NoDerive = Annotated[bool, typer.Option("--no-derive", help="Read no facts or profile in it.")]


@command(memories, "remember")
def remember(
    call: Call,
    text: Annotated[str | None, typer.Argument(help="The text; `-` reads it from stdin.")] = None,
    *,
    file: File = None,
    messages: Annotated[bool, typer.Option("--messages", help="It is JSON: a message, or a list of them.")] = False,
    metadata: Metadata = None,
    tag: Tags = None,
    importance: Importance = None,
    event_at: Annotated[str | None, typer.Option(help="When it happened.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="When it is over.")] = None,
    pinned: Annotated[bool, typer.Option("--pinned", help="It never expires.")] = False,
    key: Annotated[str | None, typer.Option(help="The write's own name: once more with it changes nothing.")] = None,
    no_derive: NoDerive = False,
    purpose: PurposeOption = None,
    consent: ConsentOption = None,
) -> None:
    """Store a text, and what rules read in it."""
    given = text_given(call, "the memory", text, file)
    what = parsed(given, "--messages", "give an object with role and content, or a list of them") if messages else given
    with call.scope(create=True) as scope:
        stored = scope.remember(
            what,
            metadata=object_of(metadata, "--metadata", METADATA_WAY_OUT),
            tags=tag or (),
            importance=importance,
            event_at=seconds_of(event_at, "--event-at"),
            expires_at=seconds_of(expires_at, "--expires-at"),
            pinned=pinned,
            idempotency_key=key,
            derive="none" if no_derive else "rules",
            purpose=purpose,
            consent=consent,
        )
    document = {"remembered": [memory_text.remembered_json(one) for one in stored]}
    call.put(document, memory_text.remembered_lines(call, stored))


@command(memories, "recall")
def recall(
    call: Call,
    query: Annotated[str, typer.Argument(help="The question; `-` reads it from stdin.")],
    *,
    top: Annotated[int | None, typer.Option(help="At most so many.")] = None,
    within: WithinOption = "inherit",
    filter_: Filter = None,
    since: Since = None,
    until: Until = None,
    as_of: Annotated[str | None, typer.Option(help="What was known at this time.")] = None,
    kind: Kinds = None,
    floor: Annotated[float | None, typer.Option(help="Evidence from which a memory counts, 0 to 1.")] = None,
    rerank: Annotated[
        bool | None,
        typer.Option("--rerank/--no-rerank", help="Have the model of the table models.rerank put them in order."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Each score by part.")] = False,
    purpose: Annotated[
        list[str] | None, typer.Option(help="What the answer is for; may be repeated. Others are not found.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(help="A space to look in besides, if it is granted to whose memory it is; may be repeated."),
    ] = None,
) -> None:
    """Find memories by meaning, best first; with one --space, and nobody named, in that alone."""
    with call.memory() as memory:
        found = _asked_in(call, memory, space or ()).recall(
            stdin_text("the question") if query == "-" else query,
            top_k=top,
            within=within,
            filters=object_of(filter_, "--filter", FILTER_WAY_OUT),
            since=seconds_of(since, "--since"),
            until=seconds_of(until, "--until"),
            as_of=seconds_of(as_of, "--as-of"),
            kinds=kinds_of(kind),
            floor=floor,
            rerank=rerank,
            explain=explain,
            purposes=purpose,
            spaces=space or (),
        )
    call.put(memory_text.recalled_json(found), memory_text.recalled_text(call, found, explain=explain))


def _asked_in(call: Call, memory: Offprompt, spaces: Sequence[str]) -> BoundScope:
    """Where a recall looks: the scope of the options, else the one space that they name."""
    try:
        return call.scope_of(memory)
    except ScopeError:
        if call.scoped or len(spaces) != 1:
            raise
        return memory.space(spaces[0], app=call.options.app)


@command(memories, "list")
def list_(
    call: Call,
    *,
    kind: Kinds = None,
    state: Annotated[
        list[str] | None, typer.Option(help="live, superseded, archived or forgotten; may be repeated.")
    ] = None,
    filter_: Filter = None,
    since: Since = None,
    until: Until = None,
    within: WithinOption = "inherit",
    limit: Annotated[int, typer.Option(help="At most so many.")] = 100,
    cursor: Annotated[str, typer.Option(help="Where the page begins: what the page before said.")] = "",
) -> None:
    """List memories in order of creation; with --session those of that session."""
    with call.scope() as scope:
        page = scope.memories.list(
            filters=object_of(filter_, "--filter", FILTER_WAY_OUT),
            kinds=kinds_of(kind),
            states=cast("list[MemoryState]", state or ["live"]),
            session=call.options.session,
            since=seconds_of(since, "--since"),
            until=seconds_of(until, "--until"),
            within=within,
            limit=limit,
            cursor=cursor,
        )
    text = memory_text.memory_table(call, page.memories)
    if page.cursor:
        text += f"\n{call.say('more:')} {corrected(without(call.argv, '--cursor'), ['--cursor', page.cursor])}"
    call.put({"memories": [memory_text.memory_json(one) for one in page], "cursor": page.cursor}, text)


@command(memories, "get")
def get(call: Call, memory_id: Id) -> None:
    """All that is known of a memory."""
    with call.scope() as scope:
        memory = scope.memories.get(memory_id)
        if memory is None:
            raise unknown(scope.scope, [memory_id])
    call.put({"memory": memory_text.memory_json(memory)}, memory_text.memory_lines(memory))


@command(memories, "update")
def update(
    call: Call,
    memory_id: Id,
    text: Annotated[str | None, typer.Argument(help="The new text; `-` reads it from stdin.")] = None,
    *,
    file: File = None,
    metadata: Annotated[str | None, typer.Option(help="A JSON object: members to set; null takes one out.")] = None,
    tag: Tags = None,
    importance: Importance = None,
    event_at: Annotated[str | None, typer.Option(help="When it happened, or `none`.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="When it is over, or `none`.")] = None,
    pinned: Annotated[bool | None, typer.Option("--pinned/--no-pinned", help="Whether it never expires.")] = None,
    if_version: Annotated[int | None, typer.Option(help="Only if this is the current version.")] = None,
) -> None:
    """Change a memory; what is left out stays."""
    new = None if text is None and file is None else text_given(call, "the memory", text, file)
    with call.scope() as scope:
        memory = scope.memories.update(
            memory_id,
            text=new,
            metadata=object_of(metadata, "--metadata", METADATA_WAY_OUT),
            tags=tag,
            importance=importance,
            event_at=time_or_none(event_at, "--event-at"),
            expires_at=time_or_none(expires_at, "--expires-at"),
            pinned=pinned,
            if_version=if_version,
        )
    line = f"{call.say('stored')}: {memory.memory_id}, {call.say('version')} {memory.version}"
    call.put({"memory": memory_text.memory_json(memory)}, line)


@command(memories, "forget")
def forget(call: Call, ids: Ids) -> None:
    """Hide memories; `memory undo` brings them back within 7 days."""
    with call.scope() as scope:
        hidden = scope.memories.forget(*ids)
        if not hidden:
            raise unknown(scope.scope, ids)
    back = " ".join(["offprompt", "memory", "undo", *map(quoted, ids), *scope_words(call)])
    call.put({"forgotten": hidden}, f"{hidden} {call.say('hidden for now; bring it back with')} {back}")


@command(memories, "undo")
def undo(call: Call, ids: Ids) -> None:
    """Bring back what `forget` hid."""
    with call.scope() as scope:
        back = scope.memories.undo(*ids)
        if not back:
            hidden = " ".join(["offprompt", "memory", "list", "--state", "forgotten", *scope_words(call)])
            raise NotFoundError(f"nothing is hidden under {', '.join(ids)} in scope {scope.scope}; see: {hidden}")
    call.put({"restored": back}, f"{back} {call.say('is back')}")


@command(memories, "archive")
def archive(
    call: Call, ids: Ids, *, back: Annotated[bool, typer.Option("--back", help="Into recall again.")] = False
) -> None:
    """Take memories out of recall, and keep them."""
    with call.scope() as scope:
        changed = [scope.memories.update(memory_id, archived=not back) for memory_id in ids]
    said = call.say("is back") if back else call.say("archived")
    document = {"memories": [memory_text.memory_json(memory) for memory in changed]}
    call.put(document, "\n".join(f"{memory.memory_id}: {said}" for memory in changed))


@command(memories, "erase")
def erase(
    call: Call,
    ids: Annotated[list[str] | None, typer.Argument(help="The memories' ids, m_….")] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All memories of the scope.")] = False,
    subtree: Annotated[bool, typer.Option("--subtree", help="And of every scope below it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Yes: there is no undo.")] = False,
) -> None:
    """Remove memories with all their versions, for good."""
    if bool(ids) == all_:
        raise UsageError(f"name the memories, or say --all: {corrected(call.argv, ['--all'])}")
    if not yes:
        raise UsageError(f"erase cannot be undone; if that is meant: {corrected(call.argv, ['--yes'])}")
    with call.scope() as scope:
        erased = scope.memories.erase(*(ids or ()), within="subtree" if subtree else "exact")
        if ids and not erased:
            raise unknown(scope.scope, ids)
    call.put({"erased": erased}, f"{erased} {call.say('erased for good')}")


@command(memories, "history")
def history(call: Call, memory_id: Id) -> None:
    """The versions of a memory, oldest first; of a forgotten one without their texts."""
    with call.scope() as scope:
        versions = scope.memories.history(memory_id)
    document = {"memory_id": memory_id, "versions": [memory_text.version_json(one) for one in versions]}
    call.put(document, memory_text.version_table(call, versions))


def forget_any(
    call: Call,
    names: Annotated[list[str], typer.Argument(help="Slots by name, or memories by id, m_….")],
    *,
    if_version: Annotated[int | None, typer.Option(help="Only if this is the slot's current version.")] = None,
) -> None:
    """Hide one slot, or memories; 7 days long `slot undo` and `memory undo` bring them back."""
    ids = [name for name in names if name.startswith(RESERVED_PREFIX)]
    if ids == names:
        check_unversioned(ids[0], if_version)
        forget(call, ids)
    elif ids or len(names) > 1:
        raise UsageError(f"forget takes one slot's name, or ids of memories; try: offprompt forget {quoted(names[0])}")
    else:
        slots.forget(call, names[0], if_version=if_version)


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    memory_files.mount(memories)
    app.add_typer(memories)
    for name, function in (("forget", forget_any), ("remember", remember), ("recall", recall)):
        command(app, name)(function)


def unknown(scope: object, ids: Sequence[str]) -> NotFoundError:
    """That there is none of these."""
    return NotFoundError(f"no memory {', '.join(one[:40] for one in ids)} in scope {scope}", name=ids[0])


def object_of(text: str | None, option: str, way_out: str) -> dict[str, Any] | None:
    """The JSON object of an option.

    Raises   UsageError if it is none.
    """
    if text is None:
        return None
    table = as_dict(parsed(text, option, way_out))
    if table is None:
        raise UsageError(f"{option} is no JSON object; {way_out}")
    return table


def kinds_of(given: list[str] | None) -> Sequence[MemoryKind]:
    """The kinds that were asked for, which the library checks; all unless any are named."""
    return cast("list[MemoryKind]", given) if given else MEMORY_KINDS


def time_or_none(text: str | None, option: str) -> float | Default | None:
    """An option that keeps, takes away, or sets a time."""
    if text is None:
        return DEFAULT
    return None if text.lower() == "none" else seconds_of(text, option)


def without(argv: Sequence[str], option: str) -> list[str]:
    """A command line without an option and its value."""
    words, skip = list[str](), False
    for word in argv:
        if not skip and word.partition("=")[0] != option:
            words.append(word)
        skip = word == option
    return words
