"""Paths of a model's memory files: which are allowed, what lies where, and the slots that hold the texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from offprompt.errors import NameInvalidError, UsageError
from offprompt.records import MAX_NAME_CHARS, as_dict, as_list, clean_name, fold_name

ROOT: Final = "/memories"
MAX_PATH: Final = 1024
"""Characters of a path."""

MAX_DECODED: Final = 4
"""How often a path is read as percent-encoded: what hides more layers than that is refused."""


class FileError(UsageError):
    """What cannot be done with a path, as the model is told."""


def relative(path: object) -> str:
    """The path below /memories, `` for the folder itself, without `.`, `..` and doubled slashes.

    Raises   FileError for a path elsewhere, and for one that leaves the folder, written plainly or percent-encoded.
    """
    if not isinstance(path, str) or not (path == ROOT or path.startswith(f"{ROOT}/")):
        raise FileError(f"Path must start with {ROOT}, got: {str(path)[:MAX_PATH]}")
    if len(path) > MAX_PATH:
        raise FileError(f"Path has {len(path)} characters; give one of {MAX_PATH} at most")
    if not path.isprintable():
        raise FileError(f"Path {path!r} holds characters that do not show; use letters, digits, '_', '-', '.', '/'")
    read = path
    for _ in range(MAX_DECODED):
        _normal(read.replace("\\", "/"), path)
        if (further := unquote(read)) == read:
            return _normal(path, path)
        read = further
    raise FileError(f"Path {path} would escape {ROOT} directory")


def _normal(path: str, given: str) -> str:
    parts: list[str] = []
    for part in path.removeprefix(ROOT).split("/"):
        if part == "..":
            if not parts:
                raise FileError(f"Path {given} would escape {ROOT} directory")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def parents(path: str) -> Iterator[str]:
    """The folders that a path lies in, the nearest first; not /memories itself."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


@dataclass(slots=True)
class Tree:
    """What lies where. files: name of the slot by path; folders: paths, empty ones too. /memories is always there."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    folders: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, stored: object) -> Tree:
        """The tree that a slot's value says; an empty one for what is none."""
        value: dict[str, Any] = as_dict(stored) or {}
        files = {path: str(slot) for path, slot in (as_dict(value.get("files")) or {}).items()}
        return cls(files, {str(path) for path in as_list(value.get("folders")) or ()})

    def stored(self) -> dict[str, Any]:
        """The tree as a slot's value."""
        return {"files": dict(sorted(self.files.items())), "folders": sorted(self.folders)}

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there."""
        return not path or path in self.folders

    def below(self, path: str) -> list[str]:
        """The paths of all files and folders in a folder, at any depth."""
        front = f"{path}/" if path else ""
        return [each for each in (*self.files, *self.folders) if each.startswith(front)]

    def inside(self, path: str) -> list[str]:
        """The paths of what lies right in a folder, sorted by name."""
        front = f"{path}/" if path else ""
        return sorted(each for each in self.below(path) if "/" not in each.removeprefix(front))

    def make_way(self, path: str, given: str) -> None:
        """Make the folders that a path lies in.

        Raises   FileError if a file stands in the way.
        """
        for folder in parents(path):
            if folder in self.files:
                raise FileError(f"The path {given} lies below {ROOT}/{folder}, which is a file. Choose another path.")
            self.folders.add(folder)

    def move(self, old: str, new: str) -> None:
        """Move a file, or a folder with all in it."""
        for path in [old, *self.below(old)]:
            moved = new + path.removeprefix(old)
            if path in self.files:
                self.files[moved] = self.files.pop(path)
            elif path in self.folders:
                self.folders.remove(path)
                self.folders.add(moved)

    def drop(self, path: str) -> None:
        """Take a file away, or a folder with all in it."""
        for each in [path, *self.below(path)]:
            self.files.pop(each, None)
            self.folders.discard(each)


def slot_name(path: str, taken: Iterable[str]) -> str:
    """A slot's name that shows which file it holds, and that nothing else has.

    taken    folded names. A name never ends in `.` and a number, as the parts of a long value do.
    """
    text = unicodedata.normalize("NFC", path).replace("/", "-")
    kept = "".join(char if _fits(char) else "_" for char in text).lstrip(".")
    base = re.sub(r"\.(?=\d+$)", "_", kept)[-(MAX_NAME_CHARS - 8) :].lstrip(".") or "file"
    if not _fits(base):
        base = f"file-{base}"
    used = set(taken)
    number, name = 1, base
    while fold_name(name) in used:
        number += 1
        name = f"{base}-{number}"
    return name


def _fits(text: str) -> bool:
    """Whether a slot may have that name, or a character be within one."""
    try:
        clean_name(text if len(text) > 1 else f"a{text}")
    except NameInvalidError:
        return False
    return True
