"""`offprompt slot …`, and `write`, `read`, `forget` as short forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from offprompt.cli import guards
from offprompt.cli.call import Call, command
from offprompt.cli.errors import corrected, quoted
from offprompt.cli.given import ConsentOption, PurposeOption, WithinOption, file_text, parsed, scope_words, text_given
from offprompt.cli.render import moment, scope_json, seconds_of, shortened, slot_json, table, version_json
from offprompt.errors import NotFoundError, UsageError
from offprompt.records import DEFAULT, Default, Policy, Slot, as_dict, text_of

slots = typer.Typer(name="slot", help="Named values of one scope: exact state.", no_args_is_help=True)

JSON_WAY_OUT: Final = "quote it for your shell, as in '{\"a\": 1}', or leave out --json-value"

HIDDEN: Final = "<hidden>"

Name = Annotated[str, typer.Argument(help="The slot's name.")]


@command(slots, "write")
def write(
    call: Call,
    name: Name,
    value: Annotated[str | None, typer.Argument(help="The value; `-` reads it from stdin.")] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="Read the value from this file.")] = None,
    json_value: Annotated[bool, typer.Option("--json-value", help="The value is JSON, not text.")] = False,
    ttl: Annotated[str | None, typer.Option(help="Seconds to live, or `none` for ever.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag, also a name to ask by; may be repeated.")] = None,
    importance: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    policy: Annotated[Policy | None, typer.Option(help="What the model sees of it.")] = None,
    if_version: Annotated[int | None, typer.Option(help="Only if this is the current version; 0: not there.")] = None,
    split: Annotated[bool, typer.Option("--split", help="Spread a long text over several slots.")] = False,
    schema: Annotated[Path | None, typer.Option(help="A JSON Schema that this and later values must fit.")] = None,
    purpose: PurposeOption = None,
    consent: ConsentOption = None,
) -> None:
    """Write a value."""
    text = text_given(call, f"slot {name!r}", value, file)
    content = parsed(text, f"the value for slot {name!r}", JSON_WAY_OUT) if json_value else text
    rules = schema_of(schema) if schema else None
    with call.scope(create=True) as scope:
        slot = scope.write(
            name,
            content,
            ttl_s=ttl_of(ttl),
            tags=tag,
            importance=importance,
            policy=policy,
            if_version=if_version,
            split=split,
            schema=rules,
            purpose=purpose,
            consent=consent,
        )
    line = (
        f"{call.say('stored')}: {slot.name}, {call.say('version')} {slot.version}, {slot.policy}, "
        f"{slot.bytes:,} {call.say('bytes')}"
    )
    if slot.spooled:
        line = f"{call.say('spooled')}: {slot.name}; {call.say('the store did not take it in time; it is done later')}"
    call.put({"slot": slot_json(slot)}, line)


@command(slots, "read")
def read(call: Call, name: Name) -> None:
    """Print a value."""
    with call.scope() as scope:
        value = scope.read(name)
    call.put({"name": name, "value": value}, text_of(value))


@command(slots, "forget")
def forget(
    call: Call,
    name: Name,
    *,
    if_version: Annotated[int | None, typer.Option(help="Only if this is the current version.")] = None,
) -> None:
    """Hide a value; `slot undo` brings it back within 7 days."""
    with call.scope() as scope:
        stored = scope.slots.forget(name, if_version=if_version)
    back = " ".join(["offprompt", "slot", "undo", quoted(stored), *scope_words(call)])
    call.put({"forgotten": stored}, f"{stored}: {call.say('hidden for now; bring it back with')} {back}")


@command(slots, "undo")
def undo(call: Call, name: Name) -> None:
    """Bring back what `forget` hid."""
    with call.scope() as scope:
        try:
            slot = scope.slots.undo(name)
        except NotFoundError as exc:
            hidden = " ".join(["offprompt", "slot", "list", "--forgotten", *scope_words(call)])
            raise NotFoundError(f"{exc}: {hidden}") from exc
    call.put({"slot": slot_json(slot)}, f"{slot.name}: {call.say('is back')}, {call.say('version')} {slot.version}")


@command(slots, "list")
def list_(
    call: Call,
    pattern: Annotated[str | None, typer.Argument(help="`*` any run, `?` one character.")] = None,
    *,
    tag: Annotated[list[str] | None, typer.Option(help="Only with this tag; may be repeated.")] = None,
    since: Annotated[str | None, typer.Option(help="Updated at this time or after.")] = None,
    until: Annotated[str | None, typer.Option(help="Updated before this time.")] = None,
    within: WithinOption = "inherit",
    forgotten: Annotated[bool, typer.Option("--forgotten", help="What was forgotten instead.")] = False,
) -> None:
    """List slots by name, without their values."""
    with call.scope() as scope:
        found = scope.slots.list(
            pattern,
            tags=tag or (),
            since=seconds_of(since, "--since"),
            until=seconds_of(until, "--until"),
            within=within,
            forgotten=forgotten,
        )
    call.put({"slots": [slot_json(slot) for slot in found]}, slot_table(call, found))


@command(slots, "rank")
def rank(call: Call, *, limit: Annotated[int | None, typer.Option(help="The best so many.")] = None) -> None:
    """Slots by use and importance, best first."""
    with call.scope() as scope:
        ranked = scope.slots.rank(limit=limit)
    heads = [call.say(head) for head in ("score", "name", "uses", "policy", "updated")]
    rows = [[f"{score:.3f}", slot.name, slot.uses, slot.policy, moment(slot.updated_at)] for slot, score in ranked]
    document = {"slots": [{"score": score} | slot_json(slot) for slot, score in ranked]}
    call.put(document, table(heads, rows) if rows else call.say("nothing here"))


@command(slots, "history")
def history(
    call: Call,
    name: Name,
    *,
    values: Annotated[bool, typer.Option("--values", help="The values of secrets too.")] = False,
) -> None:
    """The kept versions of a slot, oldest first; of a secret without their values."""
    with call.scope() as scope:
        versions = scope.slots.history(name)
    heads = [call.say(head) for head in ("version", "written", "source", "trust", "outcome", "value")]
    rows = [
        [
            one.version,
            moment(one.written_at),
            one.source,
            one.trust,
            one.outcome,
            HIDDEN if one.policy == "never" and not values else shortened(text_of(one.value)),
        ]
        for one in versions
    ]
    call.put({"name": name, "versions": [version_json(one, secret=values) for one in versions]}, table(heads, rows))


@command(slots, "snapshot")
def snapshot(call: Call) -> None:
    """All values that a scope sees, as JSON."""
    with call.scope() as scope:
        values = scope.slots.snapshot()
        document = {"scope": scope_json(scope.scope), "values": values}
    call.put(document, json.dumps(values, ensure_ascii=False, indent=2))


@command(slots, "erase")
def erase(
    call: Call,
    names: Annotated[list[str] | None, typer.Argument(help="The slots' names.")] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All slots of the scope.")] = False,
    subtree: Annotated[bool, typer.Option("--subtree", help="And of every scope below it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Yes: there is no undo.")] = False,
) -> None:
    """Remove slots with all their versions, for good."""
    if bool(names) == all_:
        raise UsageError(f"name the slots, or say --all: {corrected(call.argv, ['--all'])}")
    if not yes:
        raise UsageError(f"erase cannot be undone; if that is meant: {corrected(call.argv, ['--yes'])}")
    with call.scope() as scope:
        erased = scope.slots.erase(*(names or ()), within="subtree" if subtree else "exact")
        if names and not erased:
            listed = " ".join(["offprompt", "slot", "list", "--within", "subtree", *scope_words(call)])
            raise NotFoundError(f"no slot {', '.join(map(repr, names))} in scope {scope.scope}; see: {listed}")
    call.put({"erased": erased}, f"{erased} {call.say('erased for good')}")


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    guards.mount(slots)
    app.add_typer(slots)
    for name, function in (("write", write), ("read", read)):
        command(app, name)(function)


def schema_of(path: Path) -> dict[str, Any]:
    """The JSON Schema in a file.

    Raises   UsageError if it is not a JSON object.
    """
    rules = as_dict(parsed(file_text(path, "--schema"), f"--schema {str(path)!r}", "correct the file"))
    if rules is None:
        raise UsageError(f'--schema {str(path)!r} is no JSON object; give a JSON Schema such as {{"type": "object"}}')
    return rules


def ttl_of(text: str | None) -> float | Default | None:
    """`--ttl` as `ttl_s`: absent, `none`, or seconds.

    Raises   UsageError if it is neither.
    """
    if text is None:
        return DEFAULT
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError as exc:
        raise UsageError(f"--ttl {text!r} is no number of seconds; write --ttl 3600, or --ttl none for ever") from exc


def slot_table(call: Call, found: list[Slot]) -> str:
    """Slots as a table without values."""
    if not found:
        return call.say("nothing here")
    heads = [call.say(head) for head in ("name", "policy", "type", "bytes", "version", "updated", "expires", "scope")]
    rows = [
        [
            slot.name,
            slot.policy,
            slot.kind,
            f"{slot.bytes:,}",
            slot.version,
            moment(slot.updated_at),
            moment(slot.expires_at) or call.say("never"),
            slot.scope,
        ]
        for slot in found
    ]
    return table(heads, rows)
