"""Stored values in tool results, edited replies and added text: what is found, and what the setting makes of it."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

import offprompt
from offprompt.errors import LeakError
from offprompt.service import leak_guard
from offprompt.service.bound import BoundScope
from offprompt.testing.leaks import ENCODINGS, plant
from offprompt.wire.leaks import LeakIndex
from tests.service.talk import MODELS, Say, Talk, Wire, as_reply, call, flat, result, tool

REPORT = {
    "en": "The herring fleet lands at Saltby pier on Tuesday, crates twelve to forty go to Dorn, the rest is smoked.",
    "zh": "周二鲱鱼船队停靠盐港三号码头，第十二到四十箱运往多恩，其余熏制后存入北岸冷库，账目由林会计核对。",
}
KEY = "Zx9-hunter2-qwerty-77"
CODES: dict[str, Callable[[str], str]] = {
    "part": lambda text: text[5 : 5 + len(text) // 2],
    "case and spaces": lambda text: text.upper().replace("，", "，\n"),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "url": lambda text: quote(text, safe=""),
    "part, escaped": lambda text: json.dumps(json.dumps(text[5 : 5 + len(text) // 2])),
}
Open = Callable[[str], BoundScope]


@pytest.fixture
def opened() -> Iterator[Open]:
    """`opened("scrub")`: Alice's scope with that setting."""
    kept: list[Any] = []

    def new(leaks: str) -> BoundScope:
        kept.append(offprompt.open(":memory:", leaks=leaks))
        return kept[-1].scope(user="alice")

    yield new
    for memory in kept:
        memory.close()


def begin(scope: BoundScope, wire: Wire, session: str = "s1", **options: Any) -> Talk:
    """A talk that has come to a call of the application's own tool."""
    options.setdefault("policy", "off")
    one = Talk(scope.session(session, model=MODELS[wire], wire=wire, tools=[tool("get", wire)], **options), wire)
    one.turn("Go", call("get", "c1", text="x"))
    return one


def answered(one: Talk, text: str, call_id: str = "c1") -> str:
    """What is sent once the tool has said that."""
    one.messages += result(one.wire, (call_id, text))
    one.prepare()
    return one.sent


def ledger(one: Talk) -> Any:
    record = one.session.record
    assert record is not None
    assert record.pending is not None
    return record.pending


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("lang", REPORT)
def test_warn_leaves_a_part_or_another_spelling_and_names_it(opened: Open, wire: Wire, lang: str, code: str) -> None:
    scope = opened("warn")
    scope.write("report", REPORT[lang], policy="by_handle")
    one = begin(scope, wire)
    said = CODES[code](REPORT[lang])
    sent = answered(one, f"it says {said} there")
    assert said in sent
    entry = ledger(one)
    assert entry.leaked == ("report",)
    assert [warning for warning in entry.warnings if "'report'" in warning and "call 'c1'" in warning]
    assert ("slot.leak", "report", "LeakError") in [(each.op, each.name, each.outcome) for each in scope.events()]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("lang", REPORT)
def test_scrub_puts_the_handle_in_its_place_once_for_ever(opened: Open, wire: Wire, lang: str, code: str) -> None:
    scope = opened("scrub")
    scope.write("report", REPORT[lang], policy="by_handle")
    one = begin(scope, wire)
    said = CODES[code](REPORT[lang])
    sent = answered(one, f"it says {said} there")
    assert "it says" in sent
    assert "[[mem:report]]" in sent
    assert not LeakIndex({"report": REPORT[lang]}).find(sent)
    assert (ledger(one).leaked, ledger(one).scrubbed) == ((), ("report",))
    one.absorb("Fine.")
    one.messages += one.replies[-1].messages
    one.turn("And?", "Yes.")  # check_prefix: the same bytes again
    assert ledger_of(one)[-1].scrubbed == ()


def test_the_spaces_beside_a_part_stay(opened: Open, wire: Wire) -> None:
    scope = opened("scrub")
    scope.write("report", REPORT["en"], policy="by_handle")
    assert "look [[mem:report]] there" in answered(begin(scope, wire), f"look {REPORT['en'][4:60]} there")


def ledger_of(one: Talk) -> list[Any]:
    return one.session.ledger()


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("lang", REPORT)
def test_refuse_is_an_error_that_says_what_and_nothing_is_stored(
    opened: Open, wire: Wire, lang: str, code: str
) -> None:
    scope = opened("refuse")
    scope.write("report", REPORT[lang], policy="by_handle")
    scope.write("city", "Reykjavik am Meer", policy="when_asked")
    one = begin(scope, wire)
    session = one.session
    before = (session.record, session.journal(), session.ledger(), scope.events(), scope.slots.list())
    bad = [*one.messages, *result(wire, ("c1", f"it says {CODES[code](REPORT[lang])} there"))]
    with pytest.raises(LeakError) as caught:
        session.prepare([*bad, {"role": "assistant", "content": "Well."}, {"role": "user", "content": "Which city?"}])
    assert (caught.value.name, caught.value.where) == ("report", "the result of call 'c1'")
    assert caught.value.form in str(caught.value)
    assert all(word in str(caught.value) for word in ("'report'", "call 'c1'", "leaks='refuse'", "leaks='scrub'"))
    assert not LeakIndex({"report": REPORT[lang]}).find(str(caught.value))
    assert (session.record, session.journal(), session.ledger(), scope.events(), scope.slots.list()) == before
    assert "mended" in answered(one, "mended")
    assert one.absorb("Fine.").done


@pytest.mark.parametrize("leaks", ["warn", "scrub", "refuse"])
def test_secrets_and_whole_values_are_scrubbed_in_every_mode(opened: Open, wire: Wire, leaks: str) -> None:
    scope = opened(leaks)
    scope.write("api_key", KEY)
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire)
    sent = answered(one, f"{b64encode(KEY.encode()).decode()} | {KEY.upper()} | {REPORT['en']}")
    assert sent.count("[[mem:api_key]]") == 2
    assert sent.count("[[mem:report]]") == 1
    assert (ledger(one).leaked, sorted(ledger(one).scrubbed)) == ((), ["api_key", "report"])


def test_what_the_user_said_in_this_conversation_is_said(opened: Open, wire: Wire) -> None:
    scope = opened("refuse")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire)
    answered(one, "nothing")
    one.messages += one.absorb("Fine.").messages
    one.turn(f"I mean this: {REPORT['en'][:60]}", call("get", "c2", text="x"))
    said = b64encode(REPORT["en"][:60].encode()).decode()
    assert said in answered(one, f"{REPORT['en'][:60].upper()} and {said}", "c2")
    assert ledger(one).leaked == ()


def test_what_the_model_said_is_said_and_what_a_handle_stood_for_is_not(opened: Open, wire: Wire) -> None:
    scope = opened("warn")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire)
    answered(one, "nothing")
    one.messages += one.absorb(call("get", "c2", text=REPORT["en"][:50])).messages
    answered(one, f"sent: {REPORT['en'][:45]}", "c2")
    assert ledger(one).leaked == ()
    one.messages += one.absorb(call("get", "c3", text="[[mem:report]]")).messages
    answered(one, f"sent: {REPORT['en'][-45:]}", "c3")
    assert ledger(one).leaked == ("report",)


def test_what_was_shown_on_purpose_is_shown(opened: Open, wire: Wire) -> None:
    scope = opened("refuse")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = Talk(scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)]), wire)
    one.turn("Go", call("mem_read", slot="report"), call("get", "c1", text="x"))
    assert REPORT["en"][:50] in answered(one, f"found {REPORT['en'][:50]}")
    assert ledger(one).leaked == ()


def test_a_second_reading_of_the_same_file_is_no_leak_though_the_first_became_a_body(opened: Open, wire: Wire) -> None:
    scope = opened("refuse")
    one = begin(scope, wire, policy="stub_at_once")
    text = " ".join(f"line {number} of the file" for number in range(400))
    assert "[[mem:@" in answered(one, text)
    one.messages += one.absorb(call("get", "c2", text="again")).messages
    assert text[1000:1200] in answered(one, text[1000:1200], "c2")
    assert ledger(one).leaked == ()


def test_a_value_that_was_written_from_a_tools_result_is_the_tools_own(opened: Open, wire: Wire) -> None:
    scope = opened("refuse")
    one = begin(scope, wire)
    answered(one, f"the file says: {REPORT['en']}")
    one.messages += one.absorb(call("mem_write", slot="found", value=REPORT["en"])).messages
    one.go(call("get", "c2", text="again"))
    slot = scope.slots.get("found")
    assert slot is not None
    assert slot.trust == "tool"
    assert REPORT["en"][:60] in answered(one, f"part of it: {REPORT['en'][:60]}", "c2")
    two = begin(scope, wire, "s2")
    assert REPORT["en"][:60] in answered(two, f"part of it: {REPORT['en'][:60]}")


def edited(one: Talk, text: str, arguments: str = "") -> list[Any]:
    """The conversation with an assistant's message that no reply was."""
    if not arguments:
        said: dict[str, Any] = {"role": "assistant", "content": text}
        return [{"role": "user", "content": "Go"}, said, {"role": "user", "content": "Go on"}]
    sent = as_reply(Say(text, (("get", {"text": arguments}, "e1"),)), one.wire)
    if one.wire == "responses":
        said_items = sent["output"]
    elif one.wire == "anthropic":
        said_items = [{"role": "assistant", "content": sent["content"]}]
    else:
        said_items = [sent["choices"][0]["message"]]
    return [{"role": "user", "content": "Go"}, *said_items, *result(one.wire, ("e1", "ok"))]


@pytest.mark.parametrize("lang", REPORT)
@pytest.mark.parametrize("place", ["text", "arguments"])
def test_an_edited_reply_is_searched_as_a_result_is(opened: Open, wire: Wire, lang: str, place: str) -> None:
    piece = CODES["part"](REPORT[lang])

    def sent(leaks: str) -> Talk:
        scope = opened(leaks)
        scope.write("report", REPORT[lang], policy="by_handle")
        one = Talk(scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)]), wire)
        given = edited(one, f"so: {piece}") if place == "text" else edited(one, "so", f"see {piece}")
        one.prepare(given)
        return one

    warned = sent("warn")
    assert ledger(warned).leaked == ("report",)
    scrubbed = sent("scrub")
    assert piece not in json.dumps(scrubbed.requests[-1], ensure_ascii=False)
    assert "[[mem:report]]" in json.dumps(scrubbed.requests[-1], ensure_ascii=False)
    assert ledger(scrubbed).scrubbed == ("report",)
    with pytest.raises(LeakError, match="a reply that did not come back as it was"):
        sent("refuse")


def test_a_value_that_is_found_is_listed_in_each_request_that_carries_it_and_warned_of_once(
    opened: Open, wire: Wire
) -> None:
    scope = opened("warn")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire)
    answered(one, REPORT["en"][:50])
    one.messages += one.absorb("Fine.").messages
    one.turn("And?", "Yes.")
    assert [entry.leaked for entry in ledger_of(one)] == [(), ("report",), ("report",)]
    assert [bool(entry.warnings) for entry in ledger_of(one)] == [False, True, False]


def test_another_process_goes_on_with_what_was_found(opened: Open, wire: Wire) -> None:
    scope = opened("warn")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire)
    answered(one, REPORT["en"][:50])
    one.messages += one.absorb("Fine.").messages
    again = Talk(
        scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)], policy="off"), wire, one.messages
    )
    again.turn("And?", "Yes.")
    assert ledger_of(again)[-1].leaked == ("report",)


def test_values_that_change_are_looked_for_as_they_are_now(opened: Open, wire: Wire) -> None:
    scope = opened("warn")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire)
    answered(one, "nothing")
    scope.write("report", REPORT["zh"])
    one.messages += one.absorb(call("get", "c2", text="x")).messages
    answered(one, REPORT["zh"][:20], "c2")
    assert ledger(one).leaked == ("report",)
    scope.slots.erase("report")
    one.messages += one.absorb(call("get", "c3", text="x")).messages
    answered(one, REPORT["zh"][20:40], "c3")
    assert one.session.journal()[-1].leaked == ()


@pytest.mark.parametrize("leaks", ["warn", "scrub", "refuse"])
def test_a_value_in_an_answer_of_ours_is_found_in_any_spelling(
    opened: Open, wire: Wire, leaks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = opened(leaks)
    scope.write("report", REPORT["en"], policy="by_handle")
    coded = b64encode(REPORT["en"].encode()).decode()
    one = Talk(scope.session("s1", model=MODELS[wire], wire=wire), wire)
    one.messages.append({"role": "user", "content": "Go"})
    one.prepare()

    def receipt(*_: object, **__: object) -> str:
        return f"saved {coded}"

    monkeypatch.setattr("offprompt.service.memory_actions.receipt_text", receipt)
    reply = one.absorb(call("mem_write", slot="pet", value="a cat named Minka"))
    monkeypatch.undo()
    messages = [*one.messages, *reply.messages]
    if leaks == "refuse":
        with pytest.raises(LeakError, match=r"'report' \(base64\) would be sent in an answer of the memory"):
            one.session.prepare(messages)
        return
    one.prepare(messages)
    assert (coded in one.sent) == (leaks == "warn")
    assert ledger(one).leaked == (("report",) if leaks == "warn" else ())
    if leaks == "scrub":
        kept = next(entry for entry in one.session.journal() if entry.kind == "answer")
        assert coded in flat(dict(kept.message)), "the original is in the journal"


@pytest.mark.parametrize("leaks", ["warn", "scrub", "refuse"])
def test_a_value_in_the_head_is_found(opened: Open, wire: Wire, leaks: str) -> None:
    scope = opened(leaks)
    scope.write("fleet", "Harbour_Master_9", policy="by_handle")
    scope.write("Harbour_Master_9", "a slot whose name is another's value, and so stands in the directory")
    one = Talk(scope.session("s1", model=MODELS[wire], wire=wire), wire)
    one.messages.append({"role": "user", "content": "Go"})
    if leaks == "refuse":
        with pytest.raises(LeakError, match=r"'fleet'.*in the head"):
            one.session.prepare(one.messages)
        assert one.session.record is None
        return
    one.prepare()
    assert ("Harbour_Master_9" in flat(one.requests[-1])) == (leaks == "warn")
    assert ledger(one).leaked == (("fleet",) if leaks == "warn" else ())
    record = one.session.record
    assert record is not None
    assert record.head is not None
    assert ("Harbour_Master_9" in record.head.before) == (leaks == "scrub"), "what stood there before is kept"


def test_our_own_fixed_words_are_no_leak(opened: Open, wire: Wire) -> None:
    scope = opened("refuse")
    scope.write("mood", "not found", policy="by_handle")
    scope.write("kind", "personal or about progress", policy="by_handle")
    one = Talk(scope.session("s1", model=MODELS[wire], wire=wire), wire)
    one.turn("Go", call("mem_read", slot="nothing"), "I have nothing.")
    assert all(entry.leaked == () for entry in ledger_of(one))


def test_a_body_that_is_read_is_shown_without_parts_of_values(opened: Open, wire: Wire) -> None:
    scope = opened("scrub")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire, policy="stub_at_once")
    sent = answered(one, " ".join(f"line {number}" for number in range(600)) + REPORT["en"][10:70])
    body = sent.partition("[[mem:@")[2].partition("]]")[0]
    reply = one.absorb(call("mem_read", slot=f"@{body}", page=100))
    pages = int("".join(char for char in reply.receipts[0].text.rpartition("has ")[2] if char.isdigit()))
    reply = one.absorb(call("mem_read", slot=f"@{body}", page=pages))
    assert "[[mem:report]]" in reply.receipts[0].shown
    assert REPORT["en"][10:70] not in reply.receipts[0].shown


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_planted_spelling_reaches_a_request(opened: Open, encoding: str, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a script, not a secret
    scope, wire = opened("scrub"), rng.choice(("openai", "anthropic"))
    values = {f"slot{number}": " ".join(rng.sample(WORDS, 40)) for number in range(6)}
    values |= {f"zh{number}": "，".join("".join(rng.choices(HAN, k=9)) for _ in range(12)) for number in range(4)}
    for name, value in values.items():
        scope.write(name, value, policy="by_handle")
    hosts = [" ".join(rng.choices(WORDS, k=30)) + rng.choice(HAN), json.dumps({"rows": rng.choices(WORDS, k=20)})]
    one = begin(scope, wire)
    index = LeakIndex(values)
    for number in range(1, 13):
        planted = plant(rng, values, hosts, encoding=encoding)
        sent = answered(one, planted.text, f"c{number}")
        assert planted.text[planted.start : planted.end] not in sent
        assert not index.find(sent), planted
        assert ledger(one).leaked == ()
        one.messages += one.absorb(call("get", f"c{number + 1}", text="x")).messages


WORDS = [
    f"{first}{last}"
    for first in ("har", "lan", "mea", "vio", "pep", "wal")
    for last in ("bour", "tern", "dow", "lin", "per", "nut", "set", "gon")
]
HAN = "春夏秋冬山水云雨风雪花鸟鱼虫琴棋书画诗酒茶米油盐酱醋柴门窗桥路船车马牛羊金银铜铁锡石木竹纸笔墨砚"


def test_a_message_is_searched_once(opened: Open, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = opened("warn")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, wire)
    answered(one, f"first {REPORT['en'][:50]}")
    one.messages += one.absorb("Fine.").messages
    searched: list[str] = []
    search = leak_guard._search  # pyright: ignore[reportPrivateUsage]

    def counted(turn: Any, text: str, **given: Any) -> Any:
        searched.append(text)
        return search(turn, text, **given)

    monkeypatch.setattr(leak_guard, "_search", counted)
    one.turn("And?", "Yes.")
    assert searched == []


def test_a_find_that_hides_another_does_not_save_it(opened: Open, wire: Wire) -> None:
    """Five plants, one within the other; once the outer ones are handles, another is found."""
    rng = random.Random(829)  # noqa: S311 - a script, not a secret
    base = " ".join(rng.sample(WORDS, 40))
    values = {f"s{number}": " ".join(rng.sample(WORDS, 30)) for number in range(4)}
    values |= {"over": f"{base[30:]} {values['s0'][:60]}", "base": base}
    values["zh"] = "，".join("".join(rng.choices(HAN, k=9)) for _ in range(10))
    values["whole"] = values["s1"][:40]
    text = " ".join(rng.choices(WORDS, k=5))
    for _ in range(rng.randint(1, 5)):
        text = plant(rng, values, [text], encoding=rng.choice(list(ENCODINGS))).text
    scope = opened("scrub")
    for name, value in values.items():
        scope.write(name, value, policy="by_handle")
    one = begin(scope, wire)
    assert not LeakIndex(values).find(answered(one, text))
    assert ledger(one).leaked == ()


@pytest.mark.parametrize("value", [REPORT["en"][:28], REPORT["zh"][:14]])
def test_a_whole_value_that_was_said_may_come_back_encoded(opened: Open, wire: Wire, value: str) -> None:
    scope = opened("refuse")
    scope.write("note", value, policy="by_handle")
    one = begin(scope, wire)
    answered(one, "nothing")
    one.messages += one.absorb("Fine.").messages
    one.turn(f"I mean: {value}", call("get", "c2", text="x"))
    coded = value.encode().hex()
    assert coded in answered(one, f"it is {coded}", "c2")


def test_what_leaked_in_an_edited_reply_is_not_said_by_it(opened: Open, wire: Wire) -> None:
    scope = opened("warn")
    scope.write("report", REPORT["en"], policy="by_handle")
    session = scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)], policy="off")
    one = Talk(session, wire)
    one.messages = edited(one, f"so: {REPORT['en'][:50]}", "x")
    one.go(call("get", "c2", text="x"))
    answered(one, REPORT["en"][:50], "c2")
    assert one.session.journal()[-1].leaked == ("report",)


def test_a_result_beside_the_users_words_says_nothing_for_the_user(opened: Open) -> None:
    scope = opened("warn")
    scope.write("report", REPORT["en"], policy="by_handle")
    one = begin(scope, "anthropic")
    [given] = result("anthropic", ("c1", REPORT["en"][:50]))
    given["content"].append({"type": "text", "text": "Here you are."})
    one.messages.append(given)
    one.prepare()
    assert ledger(one).leaked == ("report",)


@pytest.mark.parametrize("show", [(), ("city",)])
def test_a_refused_request_counts_no_use_of_what_it_would_have_shown(
    opened: Open, wire: Wire, show: tuple[str, ...]
) -> None:
    scope = opened("refuse")
    scope.write("report", REPORT["en"], policy="by_handle")
    scope.write("city", "Reykjavik am Meer", policy="when_asked")
    one = Talk(scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)]), wire)
    user, *asked, _ = edited(one, "Let me look.", "city")
    user["content"] = "Which city is mine?"
    before = scope.events()
    with pytest.raises(LeakError):
        one.session.prepare([user, *asked, *result(wire, ("e1", REPORT["en"][:50]))], show=show)
    assert (one.session.record, scope.events()) == (None, before)
    one.messages = [user, *asked, *result(wire, ("e1", "mended"))]
    one.prepare(show=show)
    assert "Reykjavik am Meer" in one.sent
    assert ("slot.read", "city") in [(event.op, event.name) for event in scope.events()[len(before) :]]
