"""The file of a batch's results: a line for each task that ended, whole or not there; and what they add up to."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from offprompt.errors import BackendError, ConflictError, UsageError
from offprompt.records import as_dict
from offprompt.service.batch import Task, TaskResult

READABLE: Final = 0o600
BEGINNING: Final = b'{"task_id": "'
"""How each line begins."""


class ResultsFile:
    """JSONL, one result a line, appended whole and synced; the last line of an id is the one that counts.

    After a crash   what was written stays; a line that was cut is taken off when the file is opened again.
    Safety          one process at a time: a second one is refused.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Open it, making it if it is not there.

        resume   go on with what it holds. Raises   UsageError if it holds results and is not to go on with them;
                 ConflictError while another process writes it; BackendError if it cannot be opened.
        """
        self.path, self._size = path, 0
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, READABLE)
        except OSError as exc:
            raise BackendError(f"the results file {str(path)!r} cannot be opened: {exc.strerror}") from exc
        try:
            self._lock()
            self.lines = self._read(resume=resume)
        except BaseException:
            os.close(self._file)
            raise

    def _read(self, *, resume: bool) -> list[dict[str, Any]]:
        """The results that are there; what a crash left of a line is taken off."""
        data = self.path.read_bytes()
        if data and not resume:
            raise UsageError(
                f"{str(self.path)!r} holds results already; --resume goes on with them, or name another file with --out"
            )
        end = data.rfind(b"\n") + 1
        lines = [_line(line, number, self.path) for number, line in enumerate(data[:end].splitlines(), 1)]
        rest = data[end:]
        if not rest.startswith(BEGINNING) and not BEGINNING.startswith(rest):
            raise _no_result(len(lines) + 1, self.path)
        os.ftruncate(self._file, end)
        self._size = end
        return lines

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise ConflictError(
                f"another process writes {str(self.path)!r} now; wait for its end, or name another file with --out"
            ) from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def left(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks that have no good result yet; one that says something else now than it did then has none."""
        good = {str(line.get("task_id")): line.get("digest") for line in self.last.values() if line.get("ok")}
        return [task for task in tasks if good.get(task.task_id) != task.digest or task.fault]

    @property
    def last(self) -> dict[str, dict[str, Any]]:
        """The last line of each id."""
        return {str(line.get("task_id")): line for line in self.lines}

    def add(self, result: TaskResult) -> None:
        """Append a result; when it returns, the line is on disk.

        Raises   BackendError if it cannot be written.
        """
        document: dict[str, Any] = msgspec.to_builtins(result)
        line = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            written = os.write(self._file, line)
            os.fsync(self._file)
        except OSError as exc:
            raise self._unwritten(result, exc.strerror or str(exc)) from exc
        if written < len(line):
            raise self._unwritten(result, f"{written} of {len(line)} bytes were taken")
        self._size += written
        self.lines.append(document)

    def _unwritten(self, result: TaskResult, why: str) -> BackendError:
        """The error of a result that is not there whole; what is there of it goes."""
        os.ftruncate(self._file, self._size)
        return BackendError(
            f"the result of {result.task_id!r} cannot be written to {str(self.path)!r}: {why}; "
            "free space, then go on with --resume"
        )


def _line(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        found = as_dict(json.loads(line))
    except ValueError:
        found = None
    if found is None or "task_id" not in found:
        raise _no_result(number, path)
    return found


def _no_result(number: int, path: Path) -> UsageError:
    return UsageError(f"line {number} of {str(path)!r} is no result of a batch; name another file with --out")


@dataclass(frozen=True, slots=True)
class Summary:
    """What the results of a batch add up to: of each task the last one, of tokens and price all.

    kinds   failures by kind. waiting: tasks without a result.
    """

    tasks: int
    ok: int
    failed: int
    waiting: int
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    unpriced: int = 0
    seconds: float = 0.0


def summary(tasks: Sequence[Task], lines: Iterable[Mapping[str, Any]]) -> Summary:
    """The sums over the lines of these tasks."""
    ids = {task.task_id for task in tasks}
    own = [line for line in lines if line.get("task_id") in ids]
    last = {str(line["task_id"]): line for line in own}
    failed = [line for line in last.values() if not line.get("ok")]
    kinds = Counter(str(line.get("kind")) for line in failed)
    prices: dict[str, float] = {}
    for line in own:
        for currency, price in (as_dict(line.get("prices")) or {}).items():
            prices[currency] = prices.get(currency, 0.0) + price
    return Summary(
        len(ids),
        len(last) - len(failed),
        len(failed),
        len(ids) - len(last),
        dict(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))),
        *(sum(line.get(name, 0) for line in own) for name in ("requests", "tokens_in", "tokens_out")),
        prices=prices,
        unpriced=sum(line.get("unpriced", 0) for line in own),
        seconds=sum(line.get("seconds", 0.0) for line in own),
    )
