"""Reading log files: JSON Lines line by line, one big array element by element, the rest whole.

Memory   a JSON Lines file: its longest line; a file whose lines are messages (a transcript): its longest
         conversation; an array: about three times its longest element; a file that is one object: all of it.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from offprompt.records import as_dict
from offprompt.records.imported import Problem
from offprompt.service.replay.formats import conversations_of
from offprompt.service.replay.logged import Conversation
from offprompt.service.replay.transcripts import Transcript, is_transcript_line

CHUNK: Final = 1 << 18
LINE_SUFFIXES: Final = (".jsonl", ".ndjson")
TOO_DEEP: Final = "nested too deeply to be read"

OnProblem = Callable[[Problem], None]
OnBytes = Callable[[int], None]


def read_conversations(path: Path, on_problem: OnProblem, on_bytes: OnBytes = lambda _: None) -> Iterator[Conversation]:
    """The conversations of a file in its order, one at a time.

    on_problem   told of each part that cannot be read; the rest goes on. (Inside a JSON array nothing behind a syntax
                 error can be read.)
    on_bytes     told how many more bytes were read.
    """
    try:
        with path.open("rb") as file:
            first = _first_byte(file)
            if first == b"[" and path.suffix.lower() not in LINE_SUFFIXES:
                yield from _from_array(file, path, on_problem, on_bytes)
            else:
                yield from _from_lines(file, path, on_problem, on_bytes)
    except OSError as exc:
        on_problem(Problem(str(path), 0, f"cannot be read: {exc.strerror or exc}"))


def _first_byte(file: IO[bytes]) -> bytes:
    """The first byte that is neither a byte order mark nor a space; the file is left at its beginning."""
    head = file.read(4096).removeprefix(codecs.BOM_UTF8).lstrip()
    file.seek(0)
    return head[:1]


def _from_lines(
    file: IO[bytes], path: Path, on_problem: OnProblem, on_bytes: OnBytes, *, first: int = 1
) -> Iterator[Conversation]:
    transcript = Transcript(path.name)
    loose: list[Any] = []
    for number, raw in enumerate(file, first):
        on_bytes(len(raw))
        line = raw.removeprefix(codecs.BOM_UTF8).strip()
        if not line:
            continue
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError) as exc:
            if number == 1 and path.suffix.lower() not in LINE_SUFFIXES:
                yield from _from_document(raw + file.read(), path, on_problem, on_bytes)
                return
            on_problem(Problem(str(path), number, f"not JSON: {_why(exc)}"))
            continue
        table = as_dict(value)
        if table is not None and is_transcript_line(table):
            for name, messages in transcript.add(table):
                yield from _checked(messages, name, path, number, on_problem)
        elif table is not None and isinstance(table.get("role"), str) and "messages" not in table:
            loose.append(table)
        else:
            yield from _checked(value, f"{path.name}:{number}", path, number, on_problem)
    for name, messages in transcript.finish():
        yield from _checked(messages, name, path, 0, on_problem)
    if loose:
        yield from _checked(loose, path.name, path, 0, on_problem)


def _from_document(data: bytes, path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[Conversation]:
    try:
        value: Any = json.loads(data.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError) as exc:
        second = data.split(b"\n", 2)[1:2]
        if second and _is_json(second[0]):
            on_problem(Problem(str(path), 1, f"not JSON: {_why(exc)}"))
            rest = io.BytesIO(data[data.index(b"\n") + 1 :])
            yield from _from_lines(rest, path, on_problem, on_bytes, first=2)
        else:
            line = exc.lineno if isinstance(exc, json.JSONDecodeError) else 0
            on_problem(Problem(str(path), line, f"not JSON: {_why(exc)}"))
        return
    on_bytes(len(data) - data.find(b"\n") - 1)  # the first line was told when it was read
    yield from _checked(value, path.name, path, 1, on_problem)


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), (dict, list))
    except (ValueError, RecursionError):
        return False


def _checked(value: Any, name: str, path: Path, line: int, on_problem: OnProblem) -> Iterator[Conversation]:
    """What can be made of a value; what cannot is told."""
    try:
        yield from conversations_of(value, name)
    except ValueError as exc:
        on_problem(Problem(str(path), line, str(exc)))
    except RecursionError:
        on_problem(Problem(str(path), line, TOO_DEEP))


def _from_array(file: IO[bytes], path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[Conversation]:
    """A list of conversations, or a list of messages: then it is one conversation."""
    messages: list[Any] = []
    number = 0
    for number, (line, value) in enumerate(_elements(file, path, on_problem, on_bytes), 1):
        table = as_dict(value)
        if table is not None and ("role" in table or "from" in table):
            messages.append(table)
        else:
            yield from _checked(value, f"{path.name}#{number}", path, line, on_problem)
    if messages:
        yield from _checked(messages, path.name, path, 0, on_problem)


def _elements(file: IO[bytes], path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[tuple[int, Any]]:
    """The elements of the array that the file holds, each with the line where it begins."""
    source = _Source(file, on_bytes)
    decoder = json.JSONDecoder()
    try:
        source.skip("[")
        while (char := source.peek()) not in ("]", ""):
            if char == ",":
                source.skip(",")
                continue
            line = source.line
            yield line, source.element(decoder)
        if not char:
            on_problem(Problem(str(path), source.line, "not JSON: the file ends inside its array"))
    except (ValueError, RecursionError) as exc:
        on_problem(Problem(str(path), source.line, f"not JSON from here on: {_why(exc)}"))


class _Source:
    """A window over a file's text that grows only as far as the element that is being read."""

    def __init__(self, file: IO[bytes], on_bytes: OnBytes) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def peek(self) -> str:
        """The next character that is no space, "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self.line += self._text[self._at] == "\n"
                self._at += 1
            if self._at < len(self._text) or not self._more(CHUNK):
                return self._text[self._at : self._at + 1]

    def skip(self, char: str) -> None:
        """Take the next character, which must be this one."""
        if self.peek() != char:
            raise ValueError(f"expected {char!r}")
        self._at += 1

    def element(self, decoder: json.JSONDecoder) -> Any:
        """The next value; the window is doubled until it is whole, so that the cost stays linear."""
        self.peek()
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._more(max(CHUNK, len(self._text) - self._at)):
                    raise
                continue
            if end == len(self._text) and self._more(CHUNK):
                continue  # a number may go on
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            return value

    def _more(self, size: int) -> bool:
        if self._ended:
            return False
        data = self._file.read(size)
        self._on_bytes(len(data))
        self._ended = not data
        self._text = self._text[self._at :] + self._decoder.decode(data, final=self._ended)
        self._at = 0
        return not self._ended


def _why(exc: ValueError | RecursionError) -> str:
    if isinstance(exc, RecursionError):
        return TOO_DEEP
    if isinstance(exc, json.JSONDecodeError):
        return f"{exc.msg} at column {exc.colno}"
    return "bytes that are not UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)
