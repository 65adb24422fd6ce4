from __future__ import annotations

import json

import pytest

from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import Size
from offprompt.service.replay.columns import COLUMNS
from offprompt.service.replay.evidence import values_of
from offprompt.service.replay.log import MESSAGE_TOKENS, Log, Rules, head_size
from offprompt.service.replay.logged import Conversation, LoggedCall, LoggedMessage
from offprompt.service.replay.report import totals
from offprompt.service.replay.simulate import Replayed, simulate, turn_ranges
from offprompt.wire.prices import PriceSheet, builtin_sheets, named_sheet

TOKENIZER = tokenizer_for()
FLAT = PriceSheet("flat", input=1.0, cache_write=1.0, cache_read=0.0, output=1.0)
NO_HEAD = Size()
HEAD = Size(40, 10)


def _replay(*conversations: Conversation, **more: object) -> Replayed:
    chain, limit = bool(more.pop("chain", False)), more.pop("limit", None)
    rules = Rules(**({"sheet": FLAT, "head": HEAD, "memory_tokens": 50} | more))  # pyright: ignore[reportArgumentType]
    return simulate(conversations, TOKENIZER, rules, chain=chain, limit=limit if isinstance(limit, int) else None)


def _talk(*texts: str, system: str = "sys") -> Conversation:
    kinds = ("user", "assistant")
    messages = tuple(LoggedMessage(kinds[at % 2], text) for at, text in enumerate(texts))
    return Conversation("talk", system, messages)


def _size(text: str) -> int:
    return TOKENIZER.count(text) + MESSAGE_TOKENS


def test_as_logged_each_request_repeats_the_one_before() -> None:
    series = _replay(_talk("hello", "你好啊", "again", "再见")).columns["logged"]
    first = _size("sys") + _size("hello")
    assert list(series.tokens) == [first, first + _size("你好啊") + _size("again")]
    assert list(series.cached) == [0, first]
    assert list(series.chars) == [8, 8 + 3 + 5]
    assert sum(series.price) * 1e6 == pytest.approx(sum(series.tokens) - sum(series.cached))


def test_calls_cost_their_names_arguments_and_frames_unless_the_text_has_them() -> None:
    log = Log("", TOKENIZER, Rules(sheet=FLAT))
    call = LoggedCall("find_user", '{"name":"李雷"}')
    assert log.size(LoggedMessage("assistant", "hm", (call, call))) == _size("hm") + 2 * (
        _size("find_user") + TOKENIZER.count('{"name":"李雷"}')
    )
    assert log.size(LoggedMessage("assistant", "ls src", (LoggedCall("ls", "ls src", inline=True),))) == _size("ls src")


def test_rewritten_memory_is_read_back_only_within_its_turn() -> None:
    messages = (
        LoggedMessage("user", "u"),
        LoggedMessage("assistant", "", (LoggedCall("f", "{}"),)),
        LoggedMessage("tool", "r"),
        LoggedMessage("assistant", "a"),
        LoggedMessage("user", "v"),
        LoggedMessage("assistant", "b"),
    )
    replayed = _replay(Conversation("c", "sys", messages))
    logged, rewritten = replayed.columns["logged"], replayed.columns["rewritten"]
    assert [with_memory - plain for with_memory, plain in zip(rewritten.tokens, logged.tokens, strict=True)] == [50] * 3
    assert list(rewritten.cached) == [0, rewritten.tokens[0], _size("sys")]
    assert list(replayed.turns) == [1, 1, 2]


def test_our_policies_pay_for_their_head() -> None:
    replayed = _replay(_talk("hello", "there"))
    assert replayed.columns["window"].tokens[0] == replayed.columns["logged"].tokens[0] + HEAD.tokens
    assert replayed.columns["auto"].tokens[0] == replayed.columns["logged"].tokens[0]
    assert replayed.columns["window"].chars[0] == replayed.columns["logged"].chars[0] + HEAD.chars


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_head_is_what_a_session_sends(language: str) -> None:
    size = head_size(TOKENIZER, "zh" if language == "zh" else "en")
    assert 200 < size.tokens <= 300


def test_stubs_keep_the_prefix_and_shrink_results() -> None:
    long = "\n".join(f"row {n} 数据" for n in range(2000))
    messages = (
        LoggedMessage("user", "u"),
        LoggedMessage("assistant", "", (LoggedCall("f", "{}"),)),
        LoggedMessage("tool", long),
        LoggedMessage("assistant", "a"),
        LoggedMessage("user", "v"),
        LoggedMessage("assistant", "b"),
    )
    series = _replay(Conversation("c", "", messages), head=NO_HEAD).columns["stub_at_once"]
    assert series.tokens[1] < 400
    assert list(series.cached) == [0, series.tokens[0], series.tokens[1]]


def test_the_window_keeps_requests_small_and_breaks_the_prefix_at_cuts_only() -> None:
    talk = _talk(*["word " * 100] * 400, system="s " * 50)
    replayed = _replay(talk, high_tokens=2000, low_tokens=1000)
    series, logged = replayed.columns["window"], replayed.columns["logged"]
    base = _size("s " * 50) + HEAD.tokens
    assert max(series.tokens) <= base + 2000 + 40
    cuts = [at for at in range(1, replayed.requests) if series.cached[at] != series.tokens[at - 1]]
    assert 10 < len(cuts) < 60
    assert series.cached[cuts[0]] == base
    assert all(series.cached[at] > base for at in cuts[1:])
    assert logged.tokens[-1] > 30_000


def test_truncation_fits_the_middle_of_the_window_and_reads_only_the_system_text_back() -> None:
    replayed = _replay(_talk(*["word " * 100] * 100), high_tokens=2000, low_tokens=1000)
    series = replayed.columns["truncation"]
    assert max(series.tokens) <= _size("sys") + 1500
    assert series.cached[-1] == _size("sys")


def test_conversations_begin_anew_unless_they_are_chained() -> None:
    talks = [_talk("one", "two", "three", "four", system="first"), _talk("five", "six", system="second")]
    apart, chained = _replay(*talks), _replay(*talks, chain=True)
    assert (apart.conversations, apart.requests, list(apart.turns)) == (2, 3, [1, 2, 3])
    assert apart.columns["logged"].tokens[-1] == _size("second") + _size("five")
    assert chained.columns["logged"].tokens[-1] == _size("first") + sum(
        map(_size, ["one", "two", "three", "four", "five"])
    )
    assert list(chained.turns) == [1, 2, 3]


def test_the_limit_stops_after_so_many_requests() -> None:
    assert _replay(*[_talk("a", "b", "c", "d")] * 5, limit=3).requests == 3


def test_a_conversation_without_a_question_or_an_answer_has_no_request() -> None:
    assert _replay(Conversation("c", "", (LoggedMessage("assistant", "hi"),))).requests == 0
    assert _replay(Conversation("c", "", (LoggedMessage("user", "hi"),))).requests == 0
    assert _replay(Conversation("c", "", ())).requests == 0


def test_turn_ranges_cover_all_requests() -> None:
    replayed = _replay(_talk(*"abcdefgh"), _talk(*"abcd"))
    ranges = list(turn_ranges(replayed.turns))
    assert [turn for turn, _, _ in ranges] == [1, 2, 3, 4, 5, 6]
    assert sum(end - first for _, first, end in ranges) == replayed.requests


@pytest.mark.parametrize("sheet", builtin_sheets(), ids=lambda sheet: sheet.name)
def test_auto_is_never_dearer_on_a_made_up_agent_log(sheet: PriceSheet) -> None:
    messages: list[LoggedMessage] = []
    for turn in range(60):
        messages.append(LoggedMessage("user", f"please do {turn} 请处理"))
        for step in range(turn % 4):
            call = LoggedCall("run", json.dumps({"step": step}))
            messages.append(LoggedMessage("assistant", "", (call,)))
            messages.append(LoggedMessage("tool", f"output {step} " * (10 + 97 * turn % 1300)))
        messages.append(LoggedMessage("assistant", "done 完成 " * 30))
    rules = Rules(sheet=sheet, context_tokens=10**9)
    replayed = simulate([Conversation("c", "s " * 800, tuple(messages))], TOKENIZER, rules)
    ours, everything = 0.0, 0.0
    for mine, other in zip(replayed.columns["auto"].price, replayed.columns["logged"].price, strict=True):
        ours, everything = ours + mine, everything + other
        assert ours <= 1.02 * everything + 1e-12


def test_values_are_text_leaves_of_six_characters() -> None:
    call = LoggedCall("f", '{"id": "abc123", "n": 1234567, "deep": [{"x": "short"}, "LONGER"], "again": "abc123"}')
    assert list(values_of(call)) == ["abc123", "LONGER"]
    assert list(values_of(LoggedCall("open", "open src/fields.py 10", inline=True))) == ["src/fields.py"]
    assert list(values_of(LoggedCall("f", '{"书": "红楼梦与三国演义"}'))) == ["红楼梦与三国演义"]


def _agent(result: str, value: str, *, between: int = 0, ask: str = "book it", first: str = "hello") -> Conversation:
    """A result, some turns, then a call that uses a value."""
    gap = [m for _ in range(between) for m in (LoggedMessage("user", "filler " * 60), LoggedMessage("assistant", "ok"))]
    return Conversation(
        "agent",
        "system text",
        (
            LoggedMessage("user", first),
            LoggedMessage("assistant", "", (LoggedCall("find", "{}"),)),
            LoggedMessage("tool", result),
            LoggedMessage("assistant", "fine"),
            *gap,
            LoggedMessage("user", ask),
            LoggedMessage("assistant", "", (LoggedCall("book", json.dumps({"id": value}, ensure_ascii=False)),)),
        ),
    )


ROWS = " ".join(f"flight {n} to somewhere" for n in range(300))


def test_a_value_in_the_window_is_kept_by_all() -> None:
    replayed = _replay(_agent("code QX7788", "QX7788"))
    assert replayed.values == 1
    assert set(replayed.kept.values()) == {1}


def test_a_value_that_left_is_found_by_search_and_lost_by_truncation() -> None:
    agent = _agent("reservation for Tuesday: QX7788", "QX7788", between=30, ask="take the Tuesday reservation")
    replayed = _replay(agent, high_tokens=1000, low_tokens=500)
    assert (replayed.kept["window"], replayed.kept["truncation"], replayed.kept["logged"]) == (1, 0, 1)


def test_a_value_that_left_without_a_common_word_is_lost() -> None:
    agent = _agent("编号 QX7788", "QX7788", between=30, ask="go on")
    replayed = _replay(agent, high_tokens=1000, low_tokens=500)
    assert (replayed.kept["window"], replayed.kept["stub_at_once"]) == (0, 1)


def test_chinese_evidence_is_found_by_search() -> None:
    agent = _agent("周二的预订编号：甲乙丙丁戊己庚", "甲乙丙丁戊己庚", between=30, ask="就用周二的预订")
    replayed = _replay(agent, high_tokens=1000, low_tokens=500)
    assert (replayed.values, replayed.kept["window"], replayed.kept["truncation"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("result", "kept"), [("QX7788 " + ROWS, 1), (ROWS + " QX7788", 1), (ROWS + " QX7788 " + ROWS, 1)]
)
def test_head_and_tail_of_a_stub_are_kept_and_its_middle_is_searched(result: str, kept: int) -> None:
    replayed = _replay(_agent(result, "QX7788", ask="the flight"))
    assert replayed.columns["stub_at_once"].tokens[-1] < replayed.columns["logged"].tokens[-1]
    assert replayed.kept["stub_at_once"] == kept


def test_the_middle_of_a_stub_is_lost_where_no_word_leads_to_it() -> None:
    replayed = _replay(_agent(f"{ROWS} QX7788 {ROWS}", "QX7788", ask="十万火急"))
    assert (replayed.kept["stub_at_once"], replayed.kept["window"]) == (0, 1)


def test_a_value_in_the_question_that_stays_is_kept() -> None:
    """A long turn is cut inside; its question, which repeats the value, goes on being sent."""
    rounds = [
        m
        for _ in range(30)
        for m in (LoggedMessage("assistant", "", (LoggedCall("f", "{}"),)), LoggedMessage("tool", "filler " * 60))
    ]
    first = _agent("编号 QX7788", "QX7788").messages
    use = LoggedMessage("assistant", "", (LoggedCall("book", '{"id": "QX7788"}'),))
    agent = Conversation("agent", "", (*first[:4], LoggedMessage("user", "QX7788"), *rounds, use))
    replayed = _replay(agent, high_tokens=1000, low_tokens=500)
    assert (replayed.values, replayed.kept["window"], replayed.kept["truncation"]) == (1, 1, 0)


def test_what_somebody_said_first_is_no_evidence() -> None:
    assert _replay(_agent("code QX7788", "QX7788", first="my code is QX7788")).values == 0
    assert _replay(_agent("nothing", "QX7788")).values == 0
    known = LoggedMessage("assistant", "", (LoggedCall("book", '{"id": "system text"}'),))
    result = LoggedMessage("tool", "a system text")
    assert _replay(Conversation("c", "the system text", (LoggedMessage("user", "u"), result, known))).values == 0
    assert _replay(Conversation("c", "nothing", (LoggedMessage("user", "u"), result, known))).values == 1


def test_the_value_itself_is_not_in_the_query() -> None:
    """The reply that makes the call names the value; only its other words may lead to what left."""
    agent = _agent("编号 QX7788", "QX7788", between=30, ask="go on")
    *before, last = agent.messages
    said = Conversation("agent", "", (*before, LoggedMessage("assistant", "QX7788", last.calls)))
    led = Conversation("agent", "", (*before, LoggedMessage("assistant", "编号", last.calls)))
    assert _replay(said, high_tokens=1000, low_tokens=500).kept["window"] == 0
    assert _replay(led, high_tokens=1000, low_tokens=500).kept["window"] == 1


def test_texts_stop_growing_but_sizes_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offprompt.service.replay.log.EVIDENCE_CHARS", 100)
    log = Log("", TOKENIZER, Rules(sheet=FLAT))
    for _ in range(50):
        log.append(LoggedMessage("user", "ten chars!"))
    assert len(log.texts) == 10
    assert (log.form.chars(), len(log.history)) == (500, 50)
    assert log.evidence_open is False


def test_every_column_has_a_total() -> None:
    found = totals(_replay(_talk(*"abcdef"), sheet=named_sheet("default", builtin_sheets())))
    assert list(found) == list(COLUMNS)
    assert found["logged"].input_ratio == found["logged"].price_ratio == 1.0
    assert found["auto"].uncached == found["auto"].tokens - found["auto"].cached
    assert found["logged"].evidence is None
