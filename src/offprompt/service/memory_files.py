"""A scope's slots as the text files of a model's memory directory: view, create, replace, insert, delete, rename."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from offprompt.errors import ConflictError, OffpromptError
from offprompt.records import Slot, fold_name, text_of
from offprompt.service.action_problems import RefusedError
from offprompt.service.memory_tree import ROOT, FileError, Tree, relative, slot_name
from offprompt.service.model_doors import Door
from offprompt.service.model_memory import ModelMemory
from offprompt.service.model_rules import check_forget

T = TypeVar("T")

INDEX: Final = "memory_files"
"""The slot that says which file is where."""

MAX_LINES: Final = 999_999
NUMBER_WIDTH: Final = 6
AROUND: Final = 2
"""Lines shown before and behind the one that was changed."""

DEPTH: Final = 2
TRIES: Final = 16
"""How often a change of the tree is made anew, because another process was faster."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is there. text: as stored; shown: with handles in place of secrets."""

    slot: Slot
    text: str
    shown: str


class MemoryFiles:
    """Files under /memories, each a slot of exactly this scope, written in the model's name.

    door     to the scope, in a store or on a server.
    Layout   the slot `memory_files` says which path is which slot: a rename, also of a folder, is one write. A file
             is named after its path when it is made; other slots of the scope are no files and are never replaced.
    Limits   those of slots: 64 a scope with the parts of long texts, ten writes of one slot a minute. More files than
             that want the setting `max_slots`.
    Secrets  values of the policy `never` show as their handles, and a file that holds one as its whole is refused.
    Raises   FileError with what the model is told; other OffpromptErrors as `ModelMemory` does. Nothing is half done:
             a file is there when both its slot and its path are. Any number of threads and processes.
    Source   answers as the reference implementation of the tool `memory_20250818` words them (SDK `anthropic` 2.14).
    """

    def __init__(self, door: Door) -> None:
        self._door, self._memory, self._slots, self._scope = door, ModelMemory(door), door.slots, door.scope

    def view(self, path: str, lines: Sequence[int] | None = None) -> str:
        """A file's lines with their numbers, or what is in a folder, two levels deep, with sizes.

        lines    first and last to show, from 1; -1: to the end.
        """
        at, (tree, _) = relative(path), self._tree()
        if tree.is_folder(at):
            return self._listed(path.rstrip("/"), at, tree)
        file = self._file(tree, at)
        if file is None:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        text = file.shown.split("\n")
        if len(text) > MAX_LINES:
            raise FileError(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
        first, last = 0, len(text)
        if lines is not None and len(lines) == 2:
            first, last = max(1, lines[0]) - 1, len(text) if lines[1] == -1 else lines[1]
        return f"Here's the content of {path} with line numbers:\n" + _numbered(text[first:last], first + 1)

    def create(self, path: str, text: str) -> str:
        """Make a file, and the folders that it lies in."""
        at = relative(path)
        taken = {fold_name(slot.name) for slot in self._slots.list()}

        def claim(tree: Tree) -> tuple[str, Tree]:
            before = Tree.of(tree.stored())
            if tree.is_folder(at) or self._file(tree, at) is not None:
                raise FileError(f"File {path} already exists")
            tree.make_way(at, path)
            # An entry without its slot is of somebody who is making the same file, or did not come to it.
            used = taken | {fold_name(name) for each, name in tree.files.items() if each != at}
            tree.files[at] = tree.files.get(at) or slot_name(at, used)
            return tree.files[at], before

        name, before = self._change(claim)
        try:
            self._memory.write(name, text, if_version=0)
        except OffpromptError as exc:
            if isinstance(exc, ConflictError) and self._own(name) is not None:
                raise FileError(f"File {path} already exists") from exc
            self._change(lambda tree: self._unclaim(tree, at, name, before))
            raise
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands in a file once."""
        file = self._to_edit(path)
        count = file.text.count(old)
        if count == 0:
            raise FileError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        if count > 1:
            found = ", ".join(str(line) for line in _lines_of(file.text, old))
            raise FileError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {found}. "
                "Please ensure it is unique"
            )
        line = file.text[: file.text.find(old)].count("\n")
        text = file.text.replace(old, new)
        self._rewrite(file, text)
        shown = self._door.hider()(text).split("\n")
        first = max(0, line - AROUND)
        told = _numbered(shown[first : line + AROUND + 1], first + 1)
        return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{told}"

    def insert(self, path: str, line: int, text: str) -> str:
        """Insert text behind a line, 0 for the beginning."""
        file = self._to_edit(path)
        lines = file.text.removesuffix("\n").split("\n") if file.text else []
        if not 0 <= line <= len(lines):
            raise FileError(
                f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, text.rstrip("\n"))
        self._rewrite(file, "\n".join(lines).removesuffix("\n") + "\n")
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Hide a file, or a folder with all in it; the application can bring the slots back, without their paths."""
        at, (tree, _) = relative(path), self._tree()
        if not at:
            raise FileError(f"Cannot delete the {ROOT} directory itself")
        below = [at, *tree.below(at)]
        found = [file.slot for each in below if (file := self._file(tree, each)) is not None]
        if not found and at not in tree.folders:
            raise FileError(f"The path {path} does not exist")
        for slot in found:
            check_forget(slot, self._scope)
        for slot in found:
            self._door.forget(slot.name, None)
        self._change(lambda tree: tree.drop(at))
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or a folder; the slots keep their names."""
        old, new = relative(old_path), relative(new_path)
        if not old:
            raise FileError(f"Cannot rename the {ROOT} directory itself")

        def move(tree: Tree) -> None:
            if tree.is_folder(new) or self._file(tree, new) is not None:
                raise FileError(f"The destination {new_path} already exists")
            if self._file(tree, old) is None and old not in tree.folders:
                raise FileError(f"The path {old_path} does not exist")
            if new.startswith(f"{old}/"):
                raise FileError(f"The destination {new_path} lies in {old_path}. Choose another path.")
            tree.make_way(new, new_path)
            tree.move(old, new)

        self._change(move)
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        """Hide all files."""
        tree, _ = self._tree()
        for name in tree.files.values():
            if self._own(name) is not None:
                self._memory.forget(name)
        self._change(lambda tree: tree.drop(""))
        return "All memory cleared"

    def _tree(self) -> tuple[Tree, int]:
        """What lies where, and the version of the slot that says so."""
        slot = self._own(INDEX)
        return (Tree.of(slot.value), slot.version) if slot is not None else (Tree(), 0)

    def _change(self, change: Callable[[Tree], T]) -> T:
        """Change the tree, in one write.

        Raises   ConflictError if others were faster each time.
        """
        for tried in range(TRIES):
            tree, version = self._tree()
            before = tree.stored()
            done = change(tree)
            if tree.stored() == before:
                return done
            try:
                self._slots.write(INDEX, tree.stored(), if_version=version, split=True, policy="by_handle")
            except ConflictError:
                if tried == TRIES - 1:
                    raise
                continue
            return done
        raise AssertionError("the last try returns or raises")

    def _unclaim(self, tree: Tree, at: str, name: str, before: Tree) -> None:
        """Take away the path of a file that could not be made, and the folders that were made for it."""
        if tree.files.get(at) == name and self._own(name) is None:
            del tree.files[at]
        for folder in sorted(tree.folders - before.folders, key=len, reverse=True):
            if not tree.below(folder):
                tree.folders.discard(folder)

    def _own(self, name: str) -> Slot | None:
        slot = self._door.get(name)
        return slot if slot is not None and slot.scope == self._scope else None

    def _file(self, tree: Tree, at: str) -> _File | None:
        slot = self._own(tree.files[at]) if at in tree.files else None
        if slot is None:
            return None
        if slot.policy == "never":
            raise RefusedError(slot.name, "never")
        text = text_of(slot.value)
        return _File(slot, text, self._door.hider()(text))

    def _to_edit(self, path: str) -> _File:
        at, (tree, _) = relative(path), self._tree()
        if tree.is_folder(at):
            raise FileError(f"The path {path} is not a file.")
        file = self._file(tree, at)
        if file is None:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        return file

    def _rewrite(self, file: _File, text: str) -> None:
        self._memory.write(file.slot.name, text, if_version=file.slot.version)

    def _listed(self, path: str, at: str, tree: Tree) -> str:
        there = {slot.name: slot.bytes for slot in self._slots.list(within="exact") if slot.policy != "never"}
        sizes = {each: there[name] for each, name in tree.files.items() if name in there}
        front = f"{at}/" if at else ""

        def total(folder: str) -> int:
            return sum(sizes.get(each, 0) for each in tree.below(folder))

        def rows(folder: str, depth: int) -> list[str]:
            found: list[str] = []
            for each in tree.inside(folder):
                name = each.removeprefix(front)
                if name.rpartition("/")[2].startswith(".") or (each in tree.files and each not in sizes):
                    continue
                if each in tree.files:
                    found.append(f"{_size(sizes[each])}\t{path}/{name}")
                    continue
                found.append(f"{_size(total(each))}\t{path}/{name}/")
                found += rows(each, depth + 1) if depth < DEPTH else []
            return found

        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([head, f"{_size(total(at))}\t{path}", *rows(at, 1)])


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _lines_of(text: str, part: str) -> list[int]:
    """The lines in which a part begins, each time it does."""
    found: list[int] = []
    at = text.find(part)
    while at != -1:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(part, at + 1)
    return found


def _size(size: int) -> str:
    """Bytes in words: 0B, 17B, 1.5K."""
    at = min((size.bit_length() - 1) // 10, 3) if size else 0
    number = size / 1024**at
    return f"{int(number) if number == int(number) else f'{number:.1f}'}{'BKMG'[at]}"
