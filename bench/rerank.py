"""What reranking by a chat model gains: R@5 of the same questions without and with it, and what it takes.

    python bench/rerank.py [--questions 30] [--model NAME --base-url URL]

Questions and memories are those of the folder that OFFPROMPT_DATA names. Without --model it starts the small model of
the tests, which can show that the plumbing holds and nothing else.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import offprompt
from offprompt.protocols import ChatModel
from offprompt.service.bound import BoundScope
from offprompt.service.model_calls import spent_in
from offprompt.service.recall_bench.datasets import Corpus, DataSet, Question, read

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

TOP = 5


@dataclass
class Sums:
    """Over the questions of a data set."""

    questions: int = 0
    plain: float = 0.0
    reranked: float = 0.0
    not_reranked: int = 0
    degraded: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    given = parser.parse_args()
    # An end from outside lets go of the model's server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as closing:
        model = chosen(given.model, given.base_url, closing)
        for folder in sorted(Path(os.environ["OFFPROMPT_DATA"]).iterdir()):
            for data in sets_in(folder):
                print(f"{data.name} …", file=sys.stderr, flush=True)
                sums = measured(data, model, given.questions)
                count = max(sums.questions, 1)
                print(
                    f"{data.name}: {sums.questions} questions, R@{TOP} {sums.plain / count:.3f} plain, "
                    f"{sums.reranked / count:.3f} reranked; not reranked {sums.not_reranked}",
                    flush=True,
                )
                for why in dict.fromkeys(sums.degraded):
                    print(f"  {sums.degraded.count(why)} × {why[:160]}")


def chosen(name: str | None, base_url: str | None, closing: ExitStack) -> ChatModel:
    """The model that is named, or the small one, started."""
    if name:
        return offprompt.chat_model(name, base_url=base_url)
    from tests import servers  # noqa: PLC0415 - only who has no model needs it

    server = closing.enter_context(servers.running(servers.small_model()))
    return offprompt.chat_model("smollm2", base_url=servers.openai_url(server), timeout_s=300)


def sets_in(folder: Path) -> list[DataSet]:
    """The data sets of a folder; none, if it holds other things."""
    try:
        return read(folder) if folder.is_dir() else []
    except offprompt.UsageError:
        return []


def measured(data: DataSet, model: ChatModel, most: int) -> Sums:
    """The first questions of a data set, asked twice."""
    sums = Sums()
    with offprompt.open(":memory:", models={"rerank": model}) as mem:
        for scope, question in islice(asked(data, mem), most):
            plain = scope.recall(question.text, top_k=TOP, floor=0.0)
            again = scope.recall(question.text, top_k=TOP, floor=0.0, rerank=True)
            sums.questions += 1
            sums.plain += found(plain, question)
            sums.reranked += found(again, question)
            if again.degraded:
                sums.not_reranked += 1
                sums.degraded.append(again.degraded)
        took = [spent_in(each) for each in mem.parts.sessions.sessions() if each.requests]
        calls, tokens = (sum(each) for each in zip(*((one.calls["rerank"], one.tokens) for one in took), strict=True))
        print(f"{data.name}: {calls:,} calls, {tokens:,} tokens")
    return sums


def asked(data: DataSet, mem: offprompt.Offprompt) -> Iterator[tuple[BoundScope, Question]]:
    """Each question with the scope that holds its memories; every third one, so that all kinds come."""
    for at, corpus in enumerate(data.corpora):
        scope = stored(corpus, mem.scope(user=f"{data.name}-{at}"))
        yield from ((scope, question) for question in corpus.questions[::3])


def stored(corpus: Corpus, scope: BoundScope) -> BoundScope:
    """The scope with the corpus's notes in it."""
    for note in corpus.notes:
        said = f"{note.speaker}: {note.text}" if note.speaker else note.text
        scope.remember(said, metadata={"note": note.note_id}, event_at=note.event_at, derive="none")
    return scope


def found(recalled: offprompt.Recalled, question: Question) -> float:
    """The share of what answers the question that was found."""
    ids = {str(hit.memory.metadata.get("note")) for hit in recalled}
    return len(ids & question.relevant) / len(question.relevant)


if __name__ == "__main__":
    main()
