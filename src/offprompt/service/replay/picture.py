"""The picture of a replay: tokens of each request, one line a column, as SVG by a small writer, or as PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from offprompt.errors import UnsupportedError, UsageError
from offprompt.service.replay.report import Lang, label
from offprompt.service.replay.simulate import Replayed

WIDTH: Final = 900
HEIGHT: Final = 480
LEFT, RIGHT, TOP, BOTTOM = 80, 200, 40, 60
BOX: Final = f"0 0 {WIDTH} {HEIGHT}"
MAX_POINTS: Final = 600
COLOURS: Final = {
    "logged": "#333333",
    "rewritten": "#b2182b",
    "stub_at_once": "#e08214",
    "window": "#8073ac",
    "stubs+window": "#2166ac",
    "stub_after_use": "#d6604d",
    "after_use+window": "#4393c3",
    "auto": "#1b7837",
    "truncation": "#999999",
}
_TITLE: Final[dict[Lang, str]] = {"en": "Tokens of each request", "zh": "每次请求的令牌数"}
_REQUEST: Final[dict[Lang, str]] = {"en": "request", "zh": "请求"}


@dataclass(frozen=True, slots=True)
class Line:
    """One column's line: points (request from 1, tokens), thinned to the largest of each step."""

    name: str
    text: str
    points: tuple[tuple[int, int], ...]


def lines_of(replayed: Replayed, lang: Lang) -> list[Line]:
    """The lines of the picture."""
    return [Line(name, label(name, lang), thinned(series.tokens)) for name, series in replayed.columns.items()]


def thinned(values: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """At most 600 points: the largest value of each step of equal length, where it stands."""
    step = max(1, math.ceil(len(values) / MAX_POINTS))
    places = (
        max(range(first, min(first + step, len(values))), key=lambda at: values[at])
        for first in range(0, len(values), step)
    )
    return tuple((at + 1, values[at]) for at in places)


def write_picture(replayed: Replayed, path: Path, lang: Lang) -> None:
    """Write the picture; the file's ending says which kind.

    Raises   UsageError for another ending or a path that cannot be written; UnsupportedError for `.png` without
             the extra.
    """
    kind = path.suffix.lower()
    if kind not in (".svg", ".png"):
        raise UsageError(f"the picture {str(path)!r} ends in {kind or 'nothing'}; name it .svg or .png")
    try:
        if kind == ".svg":
            path.write_text(svg(lines_of(replayed, lang), lang), encoding="utf-8")
        else:
            _write_png(lines_of(replayed, lang), path)
    except OSError as exc:
        raise UsageError(f"the picture {str(path)!r} cannot be written: {exc.strerror or exc}") from exc


def svg(lines: Sequence[Line], lang: Lang) -> str:
    """The picture as an SVG document that needs nothing else."""
    last = max((line.points[-1][0] for line in lines if line.points), default=1)
    top = nice(max((tokens for line in lines for _, tokens in line.points), default=1))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(request: float) -> float:
        return LEFT + plot_width * (request - 1) / max(last - 1, 1)

    def down(tokens: float) -> float:
        return TOP + plot_height * (1 - tokens / top)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{BOX}" font-family="sans-serif" font-size="13">',
        f"<title>{escape(_TITLE[lang])}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="17">{escape(_TITLE[lang])}</text>',
    ]
    for at in range(5):
        tokens = top * at / 4
        y = down(tokens)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tokens:,.0f}</text>')
        request = 1 + (last - 1) * at / 4
        parts.append(
            f'<text x="{across(request):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{request:,.0f}</text>'
        )
    middle = LEFT + plot_width / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 16}" text-anchor="middle">{escape(_REQUEST[lang])}</text>')
    for number, line in enumerate(lines):
        colour = COLOURS.get(line.name, "#000000")
        points = " ".join(f"{across(request):.1f},{down(tokens):.1f}" for request, tokens in line.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        y = TOP + 10 + number * 22
        x = WIDTH - RIGHT + 16
        parts.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 32}" y="{y + 4}">{escape(line.text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def nice(value: float) -> float:
    """The smallest of 1, 2, 4, 8, 10 times a power of ten that is not below the value: quarters of it read well."""
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return next(power * factor for factor in (1, 2, 4, 8, 10) if power * factor >= value)


def _write_png(lines: Sequence[Line], path: Path) -> None:
    # Imported here: an extra.
    try:
        module: Any = import_module("matplotlib.figure")
    except ImportError as exc:
        raise UnsupportedError(
            "a PNG picture needs matplotlib: pip install 'offprompt[png]', or name the picture .svg"
        ) from exc
    figure = module.Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.subplots()
    for line in lines:
        requests, tokens = zip(*line.points, strict=True) if line.points else ((), ())
        # Policy names, not labels: matplotlib's own font has no Han characters.
        axes.plot(requests, tokens, label=line.name, color=COLOURS.get(line.name))
    axes.set_title(_TITLE["en"])
    axes.set_xlabel(_REQUEST["en"])
    axes.legend()
    figure.savefig(path, dpi=120)
