"""The results of a data set as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from offprompt.service.recall_bench.datasets import DataSet
from offprompt.service.recall_bench.measure import METRICS, Measured, Result, Scores


def lines(data: DataSet, measured: Measured) -> Iterator[str]:
    """Markdown tables: methods by metrics with the gain over the first; recall by category, by floor, without parts."""
    results = measured.results
    first, last = results[0], results[-1]
    corpora, number = len(data.corpora), len(first.categories)
    yield f"**{data.name}**: {corpora} corpora, {number} questions, {data.without_evidence} left out without evidence"
    yield ""
    yield f"| method | {' / '.join(METRICS)} | R@5 − {first.method}, 95 % | R@10 − {first.method}, 95 % |"
    yield "|---|---|---|---|"
    for result in results:
        gains = ["–", "–"] if result is first else _gains(result, first)
        yield f"| {result.method} | {_figures(result)} | {gains[0]} | {gains[1]} |"
    yield from _by_category(first, last)
    if measured.floors:
        yield ""
        yield f"| floor | {' / '.join(METRICS)} | no hit in the next corpus |"
        yield "|---|---|---|"
        for each in measured.floors:
            yield f"| {_short(each.floor)} | {_row(each.means)} | {100 * each.unanswered:.0f} % |"
    if measured.without:
        yield ""
        yield f"| {last.method} without | {' / '.join(METRICS)} |"
        yield "|---|---|"
        for name, means in measured.without.items():
            yield f"| {name} | {_row(means)} |"


def _by_category(first: Result, last: Result) -> Iterator[str]:
    categories = sorted(set(first.categories))
    if len(categories) == 1:
        return
    yield ""
    yield f"| {last.method}, by category | questions | {' / '.join(METRICS)} | R@5, 95 % | {first.method} |"
    yield "|---|---|---|---|---|"
    for category in categories:
        low, high = last.interval(category)
        yield (
            f"| {category} | {first.categories.count(category)} | {_figures(last, category)} "
            f"| {_short(low[0])} to {_short(high[0])} | {_figures(first, category)} |"
        )


def _gains(result: Result, first: Result) -> list[str]:
    low, high = result.interval(against=first)
    gain = result.mean() - first.mean()
    return [f"{gain[at]:+.3f} ({low[at]:+.3f} to {high[at]:+.3f})" for at in (0, 1)]


def _figures(result: Result, category: str | None = None) -> str:
    return _row(result.mean(category))


def _row(means: Scores) -> str:
    return " / ".join(_short(value) for value in means)


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")
