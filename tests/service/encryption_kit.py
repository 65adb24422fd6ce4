"""What the tests of encryption at rest share: canaries of each kind, and where they may be found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import offprompt
from offprompt.privacy.app_key import key_text
from offprompt.records import JournalEntry, SessionChange, SessionRecord
from offprompt.records.session import Body, Head
from offprompt.service.offprompt import Offprompt

CANARIES = {
    "value": "kanarien-wert-4711",
    "older": "kanarien-alt-4712",
    "tag": "kanarientag-4713",
    "schema": "kanarienschema-4714",
    "memory": "Marta wohnt in Kanarienfeld 4715",
    "meta": "kanarienmeta-4716",
    "chinese": "我住在金丝雀路四七一七号",
    "message": "kanariennachricht-4718",
    "body": "kanarienkörper-4719",
    "head": "kanarienkopf-4720",
    "resolved": "kanarienantwort-4721",
}


class Place:
    """A store with its keyring and key, in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.store, self.keyring, self.key = folder / "store" / "a.db", folder / "ring" / "keys.db", folder / "app.key"
        self.key.write_text(key_text(os.urandom(32)))

    @property
    def settings(self) -> dict[str, Any]:
        return {"encryption_keyring": str(self.keyring), "encryption_key_file": str(self.key), "embedder": "none"}

    def open(self, url: str | None = None, **settings: Any) -> Offprompt:
        memory = offprompt.open(url or self.store, **{**self.settings, **settings})
        assert isinstance(memory, Offprompt)
        return memory

    def bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.store.parent.iterdir()))


def fill(memory: Offprompt, user: str = "alice") -> None:
    """Something of each kind."""
    bound = memory.scope(user=user)
    bound.write("city", CANARIES["older"])
    bound.write(
        "city", CANARIES["value"], tags=[CANARIES["tag"]], schema={"type": "string", "title": CANARIES["schema"]}
    )
    bound.remember(CANARIES["memory"], metadata={"note": CANARIES["meta"]})
    bound.remember(CANARIES["chinese"])
    session = bound.scope.narrow(session="s1")
    entry = JournalEntry(
        "k1",
        "",
        1,
        "user",
        1.0,
        {"role": "user", "content": CANARIES["message"]},
        resolved={"content": CANARIES["resolved"]},
        live=({"role": "user", "content": CANARIES["message"]},),
    )
    body = Body("b1", CANARIES["body"], "tool", CANARIES["body"], 1.0, 9)
    record = SessionRecord(session, revision=1, head=Head(CANARIES["head"]))
    memory.parts.sessions.commit(SessionChange(record, (entry,), (body,)))


def read(memory: Offprompt, user: str = "alice") -> set[str]:
    """What of it can be read."""
    bound = memory.scope(user=user)
    session = bound.scope.narrow(session="s1")
    seen: list[object] = [
        *(bound.slots.history("city") if bound.slots.get("city") else ()),
        *bound.slots.list(),
        *bound.memories.list(),
        bound.recall("wohnt Marta? 我住在哪里"),
    ]
    seen += [memory.parts.sessions.load(session), *memory.parts.sessions.journal(session)]
    seen += memory.parts.sessions.bodies(session)
    text = "".join(map(repr, seen))
    return {name for name, canary in CANARIES.items() if canary in text}


def seen_in(data: bytes) -> list[str]:
    """Canaries that stand in bytes, also as JSON escapes them."""
    forms: list[Callable[[str], bytes]] = [
        lambda text: text.encode(),
        lambda text: ascii(text)[1:-1].encode(),
        lambda text: text.encode("utf-16-le"),
    ]
    parts = {name: [canary, *canary.split("-")[:1]] for name, canary in CANARIES.items()}
    return [name for name, own in parts.items() if any(form(text) in data for text in own for form in forms)]
