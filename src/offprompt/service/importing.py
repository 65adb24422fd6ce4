"""Memories in from a file: our own lines, exports of mem0, and chat logs of all forms that replay reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from offprompt.errors import OffpromptError, UsageError
from offprompt.protocols import apply
from offprompt.records import (
    AddMemory,
    GetMemories,
    Memory,
    Scope,
    UpdateMemory,
    as_dict,
    as_list,
)
from offprompt.records.imported import Imported, Problem
from offprompt.records.values import checked_tags, moment
from offprompt.service.encryption import sealer_in
from offprompt.service.exporting import FORMAT, MADE_ANEW, VERSION
from offprompt.service.indexing import index_texts
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.peers import PEER_FIELDS, expiry_of, with_marks
from offprompt.service.remembering import Marks, Rememberer, Said, digest_of
from offprompt.service.replay.readers import read_conversations
from offprompt.service.sealing import Seal

BATCH: Final = 200
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
PLACED_BY: Final = ("app", "user", "agent", "space")
"""What a line may say of the scope that it belongs to."""
MAX_HEAD_BYTES: Final = 10_000


def import_file(kit: MemoryKit, scope: Scope, path: Path, *, rescope: bool = False, derive: bool = True) -> Imported:
    """Store what a file holds; once more, it changes nothing. See `imports`."""
    *_, done = imports(kit, scope, path, rescope=rescope, derive=derive)
    return done


def imports(
    kit: MemoryKit, scope: Scope, path: Path, *, rescope: bool = False, derive: bool = True, name: str = ""
) -> Iterator[Imported]:
    """Store what a file holds, batch by batch; gives what was done so far, one object that grows, behind each of them.

    path      our own export (JSON Lines), an export of mem0 (JSON), or a chat log: OpenAI or Anthropic messages,
              ShareGPT, agent trajectories, Claude Code transcripts.
    rescope   put everything into this scope, whatever ids the file names; else memories of another user, agent or app
              than this scope's are refused.
    derive    read facts and profile in what users say in a chat log.
    name      what messages call the file; its path unless given.
    Problems  a line that cannot be used is named in `refused`; the rest goes on.
    Again     what is stored already is known by its id or text: an import that broke off is just done once more.
    Raises    UsageError if the file cannot be read or is of none of these forms.
    """
    done, name = Imported(), name or str(path)
    if _is_own(path, name):
        yield from _import_own(kit, scope, path, done, name, rescope=rescope)
    elif (peers := _peer_records(path)) is not None:
        yield from _import_peers(kit, scope, peers, done, name, rescope=rescope)
    else:
        yield from _import_log(kit, scope, path, done, name, derive=derive)
    yield done


def _import_log(
    kit: MemoryKit, scope: Scope, path: Path, done: Imported, name: str, *, derive: bool
) -> Iterator[Imported]:
    seen, why = 0, ""

    def refuse(problem: Problem) -> None:
        nonlocal why
        why = why or problem.why
        done.refused.append(replace(problem, file=name))

    for conversation in read_conversations(path, refuse):
        seen += 1
        asked = ["", *(message.text if message.kind == "assistant" else "" for message in conversation.messages)]
        said = [
            Said(
                message.text,
                "episode",
                message.kind,
                session=conversation.name,
                order=at,
                op_key=f"log/{conversation.name}/{at}/{_digest(kit, scope, message.text)}",
                derives=derive and message.kind == "user",
                asked=before,
            )
            for at, (message, before) in enumerate(zip(conversation.messages, asked, strict=False))
            if message.kind in ("user", "assistant") and message.text.strip()
        ]
        for first in range(0, len(said), BATCH):
            _remember(kit, scope, said[first : first + BATCH], Marks(actor="import"), done)
            yield done
    if not seen:
        why = why or "it holds no conversation and no memory"
        raise UsageError(
            f"{name} cannot be imported: {why}; give an export of offprompt (JSON Lines) or mem0, or a chat log"
        )


def _digest(kit: MemoryKit, scope: Scope, text: str) -> str:
    """By what a message of a log is known again; a keyed one where texts are sealed, so that none can be guessed by it.

    The key is the app's, which stays the same when the scope's user is joined to another.
    """
    sealer, digest = sealer_in(kit.memories), digest_of(text)
    return digest if sealer is None else sealer.looked_up((scope.app, "shared", ""), f"log\n{digest}")


def _remember(kit: MemoryKit, scope: Scope, said: Sequence[Said], marks: Marks, done: Imported) -> None:
    for one in Rememberer(kit, scope).store(said, marks):
        if one.kind == "slot":
            continue
        new = one.outcome in ("added", "pending", "superseded")
        done.added, done.known = done.added + new, done.known + (not new)


def _is_own(path: Path, name: str) -> bool:
    """Whether the file begins with our head.

    Raises   UsageError if it cannot be read, or is of a newer version.
    """
    try:
        with path.open("rb") as file:
            head = _table(file.readline(MAX_HEAD_BYTES).decode("utf-8-sig"))
    except OSError as exc:
        raise UsageError(f"{name} cannot be read: {exc.strerror or exc}; correct the path") from exc
    except ValueError:
        return False
    if head is None or head.get("format") != FORMAT:
        return False
    if head.get("version") != VERSION:
        raise UsageError(
            f"{name} is of version {head.get('version')!r} and this program reads {VERSION}; install a newer offprompt"
        )
    return True


def _import_own(
    kit: MemoryKit, scope: Scope, path: Path, done: Imported, name: str, *, rescope: bool
) -> Iterator[Imported]:
    memories: list[Memory] = []
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if number == 1 or not raw.strip():
                continue
            try:
                memories.append(_memory(raw.decode(), scope, rescope=rescope))
            except (OffpromptError, ValueError, TypeError) as exc:
                done.refused.append(Problem(name, number, str(exc)))
            if len(memories) == BATCH:
                _store(kit, memories, done, name)
                memories.clear()
                yield done
    _store(kit, memories, done, name)


def _memory(line: str, scope: Scope, *, rescope: bool) -> Memory:
    """The memory of a line, in its own scope or in ours.

    Raises   UsageError, ValueError, TypeError for what is no memory.
    """
    table = _table(line)
    if table is None or not isinstance(table.get("text"), str) or not table["text"].strip():
        raise UsageError("no memory: an object with `text` is needed")
    given = as_dict(table.get("scope")) or {}
    place = scope if rescope else _place(given, scope)
    known = {item.name for item in fields(Memory)} - {"scope", *MADE_ANEW}
    plain = {name: value for name, value in table.items() if name in known}
    if table.get("state") == "forgotten":
        raise UsageError("it was forgotten")
    memory = msgspec.convert({"memory_id": "", "kind": "fact", **plain, "scope": {"user": "x"}}, Memory)
    digest = _own_digest(memory, table) or digest_of(memory.text, memory.tags)
    return replace(memory, scope=place, digest=digest, version=1)


def _own_digest(memory: Memory, table: Mapping[str, Any]) -> str:
    """The digest that a passage brings along: the same words in two documents are two passages."""
    digest = table.get("digest")
    is_one = memory.kind == "passage" and isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None
    return str(digest) if is_one else ""


def _place(given: Mapping[str, Any], scope: Scope) -> Scope:
    """The scope that a line names, if it lies in ours.

    Raises   UsageError if it does not.
    """
    ids = {kind: value for kind, value in given.items() if kind in PLACED_BY and value is not None}
    if not ids:
        return scope
    place = Scope(**{"app": scope.app, **ids}, shared=ids.keys() <= {"app"})
    if place != scope and not scope.holds(place):
        raise UsageError(
            f"it belongs to {place}, not to {scope}; import it there, or all of it here with rescope=True (--rescope)"
        )
    return place


def _store(kit: MemoryKit, memories: Sequence[Memory], done: Imported, name: str) -> None:
    """Add memories under the keys of their ids."""
    now = kit.clock.now()
    cleaned = [_cleaned(kit, one, now) for one in memories]
    clean = [memory for memory, _ in cleaned]
    there = {one.memory_id for app in {one.scope.app for one in clean} for one in _known(kit, app, clean)}
    named = [
        one
        if one.memory_id.startswith("m_") and one.memory_id not in there
        else replace(one, memory_id=kit.ids.new(now))
        for one in clean
    ]
    indexed, _ = index_texts(kit.embedder, named)
    erased = {place: kit.slots.erased_at(place) for place in {one.scope for one in named}}
    for given, one, made, (_, seals) in zip(memories, named, indexed, cleaned, strict=True):
        if one.created_at <= erased[one.scope]:
            done.refused.append(Problem(name, 0, f"{given.memory_id}: it is older than the erasure of {one.scope}"))
            continue
        key = f"import/{given.memory_id or one.digest}"
        try:
            kit.slots.check_consents(one.scope, one.tags)
            if kit.slots.quotas is not None:
                kit.slots.quotas.make_room(one.scope.app, memories=1, size=len(one.text.encode("utf-8", "replace")))
            with kit.sealing(one.scope, seals, one.trust):
                result = apply(kit.memories, AddMemory(one, made, key))
        except OffpromptError as exc:
            done.refused.append(Problem(name, 0, f"{given.memory_id or given.text[:40]!r}: {exc}"))
            continue
        new = result.outcome != "merged"
        done.added, done.known = done.added + new, done.known + (not new)
        if new and given.state == "archived":
            apply(kit.memories, UpdateMemory(one.scope, one.memory_id, archived=True))


def _cleaned(kit: MemoryKit, one: Memory, now: float) -> tuple[Memory, tuple[Seal, ...]]:
    """A memory as it may be stored, and what is to be sealed before it is."""
    named = ("text", "gist", "quote", "speaker")
    texts, seals = kit.sealed_value([getattr(one, name) for name in named], one.scope)
    (tags, metadata), more = kit.sealed_value([list(one.tags), dict(one.metadata)], one.scope)
    clean = dict(zip(named, texts, strict=True))
    at = {"created_at": one.created_at or now, "updated_at": one.updated_at or now}
    own = {"tags": tuple(tags), "metadata": metadata, "digest": digest_of(clean["text"], one.tags)}
    if one.kind == "passage":
        own["digest"] = one.digest
    return replace(one, **clean, **at, **own), (*seals, *more)


def _known(kit: MemoryKit, app: str, memories: Sequence[Memory]) -> list[Memory]:
    ids = tuple(one.memory_id for one in memories if one.scope.app == app and one.memory_id)
    return apply(kit.memories, GetMemories(app, ids))


def _peer_records(path: Path) -> list[dict[str, Any]] | None:
    """The records of an export of mem0: objects with `memory`, in a list, or in one under results or memories."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return None
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    table = as_dict(value)
    listed = as_list(value if table is None else table.get("results", table.get("memories")))
    records = [record for item in listed or [] if (record := as_dict(item)) is not None]
    return records if any(isinstance(record.get("memory"), str) for record in records) else None


def _import_peers(
    kit: MemoryKit, scope: Scope, records: Sequence[Mapping[str, Any]], done: Imported, name: str, *, rescope: bool
) -> Iterator[Imported]:
    memories: list[Memory] = []
    for at, record in enumerate(records, 1):
        try:
            memories.append(_peer(record, scope, kit.clock.now(), rescope=rescope))
        except OffpromptError as exc:
            done.refused.append(Problem(name, at, str(exc)))
    for first in range(0, len(memories), BATCH):
        _store(kit, memories[first : first + BATCH], done, name)
        yield done


def _peer(record: Mapping[str, Any], scope: Scope, now: float, *, rescope: bool) -> Memory:
    """A record of mem0 as a memory."""
    text = record.get("memory")
    if not isinstance(text, str) or not text.strip():
        raise UsageError("no memory: a text under `memory` is needed")
    ids = {"user": record.get("user_id"), "agent": record.get("agent_id")}
    run = str(record.get("run_id") or record.get("session_id") or "")
    place = scope if rescope else _place(ids, scope)
    if place.shared and run:
        place = Scope(scope.app, session=run)  # of nobody but its run, and not of everybody
    at = moment("created_at", record.get("created_at"))
    metadata = as_dict(record.get("metadata")) or {}
    categories = as_list(record.get("categories")) or []
    return Memory(
        str(record.get("id") or ""),
        place,
        "fact",
        text,
        session=run,
        actor="import",
        created_at=now,
        updated_at=now,
        event_at=at,
        tags=checked_tags([str(tag) for tag in categories]),
        metadata=with_marks(metadata, {name: record.get(name) for name in PEER_FIELDS}),
        expires_at=expiry_of(record.get("expiration_date")),
        digest=digest_of(text),
    )


def _table(line: str) -> dict[str, Any] | None:
    try:
        return as_dict(json.loads(line))
    except (ValueError, RecursionError):
        return None
