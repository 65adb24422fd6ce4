"""What a client can attach without the model's asking: `mem://` resources, and prompts that a person picks."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, quote, unquote

from offprompt.errors import NotFoundError, UsageError
from offprompt.records import compact, fold_name
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.model_answers import MAX_TOKENS, Pager
from offprompt.service.model_memory import ModelMemory
from offprompt.service.model_words import ABOUT, KEEP, PROFILE_TITLE, PROMPTS, PromptDef, nothing_text
from offprompt.wire.head import Language

PROFILE: Final = "mem://profile"
SLOTS: Final = "mem://slots/"
MEMORIES: Final = "mem://memories/"
TEMPLATES: Final = (
    (f"{SLOTS}{{name}}{{?cursor}}", "slot", "A value by its name."),
    (f"{MEMORIES}{{id}}{{?cursor}}", "memory", "A memory by its id."),
)
LIST_TOKENS: Final = 1800
MAX_URI: Final = 1000
"""Characters of a URI that is read: a name of 64 characters, four bytes each, takes 768. Answers repeat it."""

FRAME_TOKENS: Final = 10
"""A page of the list, and what the protocol puts around each of its resources."""

_CURSOR: Final = re.compile(r"\d{1,15}-\d{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Listed:
    """A resource in the list. mime: `text/plain` or `application/json`. title: where its name does not say enough."""

    uri: str
    name: str
    mime: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """Lists and reads resources of one memory."""

    memory: ModelMemory
    pager: Pager

    def listed(self, cursor: str) -> tuple[list[Listed], str]:
        """A page of resources, the profile first, then slots by name; and the cursor of the next, empty on the last.

        Memories have no place in the list: there may be any number of them, and their ids say nothing. They are read by
        the template.
        """
        slots = [slot for slot in self.memory.slots() if fold_name(slot.name) > fold_name(cursor)]
        found = [Listed(slot_uri(slot.name), slot.name, _mime(slot.kind)) for slot in slots]
        if not cursor:
            found.insert(0, Listed(PROFILE, "profile", "text/plain", PROFILE_TITLE[self.pager.language]))
        left, page = LIST_TOKENS, list[Listed]()
        for one in found:
            left -= self.pager.tokenizer.count(compact([one.uri, one.name, one.mime, one.title]))
            if page and left < 0:
                return page, page[-1].name
            left -= FRAME_TOKENS
            page.append(one)
        return page, ""

    def read(self, uri: str) -> tuple[str, str]:
        """A resource's mime type and text; a long one is cut, and its last line says which URI has the rest.

        Raises   NotFoundError for a URI that names nothing, and as `ModelMemory.read`.
        """
        if uri == PROFILE:
            return "text/plain", self.profile()
        name, cursor = named(uri)
        known = self.memory.read(name)
        answer = self.pager.piece(known, cursor, str)
        rest = answer.data.get("cursor")
        mime = "text/plain" if rest or cursor else _mime(known.kind)
        text = str(answer.data["value"])
        return mime, f"{text}\n… {uri.partition('?')[0]}?cursor={rest}" if rest else text

    def profile(self) -> str:
        """What is known, a line each, pinned ones first, then the newest, as many as fit."""
        lines = self.pager.lines(self.memory.about())
        return lines or nothing_text(self.pager.language, searched=False)


def prompt_text(memory: ModelMemory, pager: Pager, prompt: PromptDef, arguments: Mapping[str, str]) -> str:
    """What a prompt says.

    Raises   UsageError if the text to remember is missing, or too long for one answer.
    """
    if prompt.argument is None:
        nonce = secrets.token_hex(4)  # what is stored cannot know it, and so not close the frame
        known = f"<memory {nonce}>\n{Resources(memory, pager).profile()}\n</memory {nonce}>"
        return ABOUT[prompt.language].format(known=known)
    given = arguments.get(prompt.argument, "").strip()
    if not given:
        raise UsageError(f"the prompt {prompt.name!r} needs `{prompt.argument}`: what to remember")
    if pager.tokenizer.count(given) > MAX_TOKENS // 2:
        raise UsageError(f"`{prompt.argument}` is over {MAX_TOKENS // 2:,} tokens; shorten it, or say it in the chat")
    return KEEP[prompt.language].format(text=given)


def prompts(language: Language | None) -> list[PromptDef]:
    """The prompts in a language, or in both."""
    return [prompt for prompt in PROMPTS if language in (None, prompt.language)]


def named(uri: str) -> tuple[str, str]:
    """The name or id that a resource's URI stands for, and its cursor.

    Raises   NotFoundError for any other URI.
    """
    bare, _, query = uri.partition("?")
    asked = parse_qs(query, keep_blank_values=True) if len(uri) <= MAX_URI else {"": [""]}
    cursor = (asked.get("cursor") or [""])[0]
    for prefix in (SLOTS, MEMORIES) if asked.keys() <= {"cursor"} else ():
        name = unquote(bare.removeprefix(prefix))
        is_memory = fold_name(name).startswith(RESERVED_PREFIX)
        known = bare.startswith(prefix) and name and "/" not in name and is_memory == (prefix == MEMORIES)
        if known and (not cursor or _CURSOR.fullmatch(cursor)):
            return name, cursor
    raise NotFoundError(f"no resource {uri[:80]!r}; there are {PROFILE}, {SLOTS}NAME and {MEMORIES}ID", name=uri[:80])


def slot_uri(name: str) -> str:
    """The URI of a slot."""
    return SLOTS + quote(name, safe="")


def _mime(kind: str) -> str:
    return "application/json" if kind == "json" else "text/plain"
