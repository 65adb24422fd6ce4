"""What a replay says: totals by column, the JSON document, the table's cells, one line of advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

from offprompt.records.imported import Problem
from offprompt.service.replay.columns import OURS
from offprompt.service.replay.simulate import Replayed, Series, turn_ranges
from offprompt.wire.prices import PER

Lang: TypeAlias = Literal["en", "zh"]

WORTH: Final = 0.95
DEARER: Final = 1.05
NEAR: Final = 1.05

_HEADS: Final[dict[Lang, tuple[str, ...]]] = {
    "en": ("policy", "characters", "tokens", "cached", "new", "input ×", "price", "price ×", "evidence"),
    "zh": ("策略", "字符", "令牌", "缓存读取", "新令牌", "输入 ×", "价格", "价格 ×", "证据"),
}
_LABELS: Final[dict[Lang, dict[str, str]]] = {
    "en": {"logged": "as logged", "rewritten": "memory rewritten", "truncation": "truncation only"},
    "zh": {"logged": "原样发送", "rewritten": "每轮重写记忆", "truncation": "仅截断"},
}


@dataclass(frozen=True, slots=True)
class Total:
    """A column's sums; ratios against sending everything; evidence: the share kept, None where there are no values."""

    chars: int
    tokens: int
    cached: int
    price: float
    input_ratio: float
    price_ratio: float
    evidence: float | None

    @property
    def uncached(self) -> int:
        """Tokens not read from the cache."""
        return self.tokens - self.cached


def totals(replayed: Replayed) -> dict[str, Total]:
    """The sums of each column, in the table's order."""
    logged = replayed.columns["logged"]
    tokens, money = sum(logged.tokens), sum(logged.price)
    return {
        name: Total(
            chars=sum(series.chars),
            tokens=sum(series.tokens),
            cached=sum(series.cached),
            price=sum(series.price),
            input_ratio=_ratio(sum(series.tokens), tokens),
            price_ratio=_ratio(sum(series.price), money),
            evidence=replayed.kept[name] / replayed.values if replayed.values else None,
        )
        for name, series in replayed.columns.items()
    }


def document(replayed: Replayed, files: Sequence[str], problems: Sequence[Problem], lang: Lang) -> dict[str, Any]:
    """The whole result as JSON: totals, sums by turn, prompt tokens by request."""
    sheet = replayed.rules.sheet
    return {
        "files": list(files),
        "conversations": replayed.conversations,
        "requests": replayed.requests,
        "turns": replayed.turns[-1] if replayed.turns else 0,
        "tokenizer": {"name": replayed.tokenizer, "exact": replayed.exact},
        "prices": {"name": sheet.name, "currency": sheet.currency, "dated": sheet.dated, "source": sheet.source},
        "output": {"tokens": sum(replayed.output), "price": sum(replayed.output) * sheet.output / PER},
        "head": _head(replayed),
        "values": replayed.values,
        "columns": {
            name: {
                "chars": total.chars,
                "tokens": total.tokens,
                "cached": total.cached,
                "uncached": total.uncached,
                "price": total.price,
                "input_ratio": total.input_ratio,
                "price_ratio": total.price_ratio,
                "evidence": total.evidence,
            }
            for name, total in totals(replayed).items()
        },
        "by_turn": [_turn(replayed, *place) for place in turn_ranges(replayed.turns)],
        "by_request": {name: list(series.tokens) for name, series in replayed.columns.items()},
        "head_line": head_line(replayed, lang),
        "advice": advice(replayed, lang),
        "overflow": overflow(replayed, lang),
        "problems": [{"file": problem.file, "line": problem.line, "why": problem.why} for problem in problems],
    }


def table_cells(replayed: Replayed, lang: Lang) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows of the table."""
    rows = [
        (
            label(name, lang),
            f"{total.chars:,}",
            f"{total.tokens:,}",
            f"{total.cached:,}",
            f"{total.uncached:,}",
            f"{total.input_ratio:.3f}",
            f"{total.price:,.4f}",
            f"{total.price_ratio:.3f}",
            "-" if total.evidence is None else f"{total.evidence:.3f}",
        )
        for name, total in totals(replayed).items()
    ]
    return _HEADS[lang], rows


def label(name: str, lang: Lang) -> str:
    """What a column is called: our policies by their names."""
    return _LABELS[lang].get(name, name)


def summary(replayed: Replayed, lang: Lang) -> str:
    """One line on what was computed and with what."""
    sheet, exact = replayed.rules.sheet, replayed.exact
    turns = replayed.turns[-1] if replayed.turns else 0
    written = sum(replayed.output)
    if lang == "zh":
        counted = "" if exact else "（近似）"
        return (
            f"{replayed.conversations:,} 个对话，{turns:,} 轮，{replayed.requests:,} 次请求；"
            f"令牌按 {replayed.tokenizer} 计{counted}；价目 {sheet.name}（{_unit(replayed, lang)}，{sheet.dated}）；"
            f"各策略的输出相同：{written:,} 令牌，不计入价格。未计召回和展示的内容。"
        )
    counted = "" if exact else " (an approximation)"
    return (
        f"{replayed.conversations:,} conversations, {turns:,} turns, {replayed.requests:,} requests; tokens by "
        f"{replayed.tokenizer}{counted}; prices {sheet.name} ({_unit(replayed, lang)}, {sheet.dated}); output is the "
        f"same everywhere, {written:,} tokens, and not in the price. Recalled and shown text is not counted."
    )


def head_line(replayed: Replayed, lang: Lang) -> str:
    """One line on what the column `auto` leaves out: the head that a live session has in each request."""
    if not replayed.requests:
        return ""
    head = _head(replayed)
    tokens, share, money = f"{head['tokens']:,.0f}", head["input_share"] * 100, head["price_share"] * 100
    ratios = f"{head['auto_input_ratio']:.3f}", f"{head['auto_price_ratio']:.3f}"
    if lang == "zh":
        return (
            f"auto 一行在划算之前不含我们的任何内容；实际会话的每个请求都带有开头（{tokens} 令牌，另加槽位名称）："
            f"与原样发送相比输入 +{share:.1f} %，价格 +{money:.1f} %；"
            f"auto 加上它约为输入 {ratios[0]}，价格 {ratios[1]}。"
        )
    return (
        f"the auto row sends nothing of ours until it pays; a session carries its head of {tokens} tokens (and the "
        f"names of slots) in each request: + {share:.1f} % input, + {money:.1f} % price beside as logged; "
        f"auto with it: about {ratios[0]} input, {ratios[1]} price."
    )


def _head(replayed: Replayed) -> dict[str, float]:
    """What a session's head adds: shares of everything's input and price, and the ratios of `auto` with it."""
    head, found = replayed.head, totals(replayed)
    logged, auto = found["logged"], found["auto"]
    return {
        "tokens": _ratio(head.everything_tokens, replayed.requests),
        "input_share": _ratio(logged.tokens + head.everything_tokens, logged.tokens) - 1,
        "price_share": _ratio(logged.price + head.everything_price, logged.price) - 1,
        "auto_input_ratio": _ratio(auto.tokens + head.auto_tokens, logged.tokens),
        "auto_price_ratio": _ratio(auto.price + head.auto_price, logged.price),
    }


def _unit(replayed: Replayed, lang: Lang) -> str:
    """What a price of 1 is: the sheet's currency, or of a relative sheet the input tokens that it buys."""
    currency = replayed.rules.sheet.currency
    if not currency.startswith("×"):
        return currency
    return "1 = 一百万输入令牌的价格" if lang == "zh" else "1 = a million input tokens"


def overflow(replayed: Replayed, lang: Lang) -> str:
    """One line where sending everything would not even fit the model's context; empty where it fits."""
    rules = replayed.rules
    room = rules.context_tokens - rules.reserve_tokens
    first = next((at for at, tokens in enumerate(replayed.columns["logged"].tokens, 1) if tokens > room), None)
    if first is None:
        return ""
    if lang == "zh":
        return f"从第 {first} 次请求起，全部发送已超出模型的上下文（{rules.context_tokens:,} 令牌）。"
    return f"from request {first} on, everything does not fit the model's context of {rules.context_tokens:,} tokens."


def advice(replayed: Replayed, lang: Lang) -> str:
    """One line on what to do, from the prices."""
    if not replayed.turns:
        return ""
    found = totals(replayed)
    best = min(OURS, key=lambda name: found[name].price_ratio)
    if found["auto"].price_ratio <= NEAR * found[best].price_ratio:
        best = "auto"
    window = found["window"].price_ratio
    if found[best].price_ratio <= WORTH:
        since, saved = _saved(replayed.columns[best], replayed.columns["logged"])
        share, whole = _percent(saved), _percent(1 - found[best].price_ratio)
        if lang == "zh":
            line = f"{best}：从第 {since} 次请求起节省 {share} 的输入价格（全程 {whole}）"
            return line + (f"；不要单独用 window：会贵到 {window:.1f} 倍。" if window >= DEARER else "。")
        line = f"{best} saves {share} of the input price from request {since} on ({whole} in all)"
        return line + (f"; window alone would cost {window:.1f} times as much." if window >= DEARER else ".")
    if window >= DEARER:
        if lang == "zh":
            return f"这里不要开 window：会贵到 {window:.1f} 倍。"
        return f"leave the window off here: it would cost {window:.1f} times as much."
    if lang == "zh":
        return "照原样全部发送：这里没有策略能节省超过 5 %。"
    return "send everything: no policy saves more than 5 % here."


def _turn(replayed: Replayed, turn: int, first: int, end: int) -> dict[str, Any]:
    return {
        "turn": turn,
        "requests": end - first,
        "columns": {
            name: {
                "chars": sum(series.chars[first:end]),
                "tokens": sum(series.tokens[first:end]),
                "cached": sum(series.cached[first:end]),
                "uncached": sum(series.tokens[first:end]) - sum(series.cached[first:end]),
                "price": sum(series.price[first:end]),
            }
            for name, series in replayed.columns.items()
        },
    }


def _saved(policy: Series, logged: Series) -> tuple[int, float]:
    """The request from which on the sum stays below sending everything, and the share saved from there on."""
    ours, theirs = list(accumulate(policy.price)), list(accumulate(logged.price))
    dearer = [at for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)) if mine >= other]
    since = dearer[-1] + 1 if dearer and dearer[-1] + 1 < len(ours) else 0
    before_ours, before_theirs = (ours[since - 1], theirs[since - 1]) if since else (0.0, 0.0)
    return since + 1, 1 - _ratio(ours[-1] - before_ours, theirs[-1] - before_theirs)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
