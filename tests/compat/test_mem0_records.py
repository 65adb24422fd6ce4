"""Memories in mem0's words: what theirs does unsafely, and ours does not, in English and Chinese."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.compat.mem0.asked import Add, Change, Feedback, Listing, OneChange, OneId, Search, asked
from offprompt.compat.mem0.entities import Entities
from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.records import MAX_FOLLOWED, Records
from offprompt.errors import ConflictError, ForbiddenError, NotFoundError, ScopeError, UsageError
from offprompt.records import Identity
from offprompt.rest.serving import MAX_TARGET_BYTES
from offprompt.service.offprompt import Offprompt
from offprompt.service.peers import with_marks
from offprompt.testing.clock import MovedClock

DAY_S = 86_400.0


def added(records: Records, text: str, **given: Any) -> str:
    """Store one text as it is; its id."""
    done = records.add(asked({"messages": text, "infer": False, **given}, Add)[0])
    return str(done["results"][0]["id"])


def found(records: Records, query: str, filters: dict[str, Any], **given: Any) -> list[str]:
    answer = records.search(asked({"query": query, "filters": filters, **given}, Search)[0])
    return [one["memory"] for one in answer["results"]]


def listed(records: Records, filters: dict[str, Any], **given: Any) -> list[str]:
    return [one["memory"] for one in records.listed(Listing(filters=filters, **given))["results"]]


@pytest.mark.parametrize(
    ("said", "fact", "question"),
    [
        ("I am allergic to nuts. I live in Porto.", "Porto", "where does she live?"),
        ("我住在上海，喜欢喝茶。", "上海", "他住在哪里？"),
    ],
)
def test_what_is_said_is_a_memory_and_what_rules_read_in_it_too(
    records: Records, said: str, fact: str, question: str
) -> None:
    done = records.add(Add(messages=[{"role": "user", "content": said}], user_id="小明"))
    assert done["status"] == "SUCCEEDED"
    assert next(one["memory"] for one in done["results"]) == said
    assert len(done["results"]) > 1
    assert fact in found(records, question, {"user_id": "小明"})[0]


def test_without_infer_only_what_was_said_is_stored(records: Records) -> None:
    added(records, "I live in Porto.", user_id="alice")
    assert listed(records, {"user_id": "alice"}) == ["I live in Porto."]


def test_an_add_is_answered_with_an_event_that_can_be_followed(records: Records, asking: Callable[..., Reach]) -> None:
    done = records.add(Add(messages="I play the cello", user_id="alice", infer=False))
    event = records.event(done["event_id"])
    assert event is not None
    assert (event["event_type"], event["status"]) == ("ADD", "SUCCEEDED")
    assert event["results"][0]["data"] == {"memory": "I play the cello"}
    assert records.event(done["event_id"][:-2] + "xx") is None
    assert Records(asking(app="other")).event(done["event_id"]) is None
    assert (event["memories"], len(event["results"])) == (1, 1)
    gone = records.delete_all({"user_id": "alice"})["event_id"]
    for one in (done["event_id"], gone):
        assert Records(asking("read")).event(one) is not None
        assert Records(asking("read", users=("bob",))).event(one) is None
        assert Records(asking("read", agents=("bot",))).event(one) is None


def test_an_event_of_many_memories_stands_in_an_address(records: Records) -> None:
    lines = [{"role": "user", "content": f"第 {at} 行"} for at in range(MAX_FOLLOWED + 50)]
    done = records.add(Add(messages=lines, user_id="alice", infer=False))
    assert len(f"/v1/event/{done['event_id']}/") < MAX_TARGET_BYTES
    event = records.event(done["event_id"])
    assert event is not None
    assert (event["memories"], len(event["results"])) == (len(lines), MAX_FOLLOWED)
    assert [one["id"] for one in event["results"]] == [one["id"] for one in done["results"]][:MAX_FOLLOWED]


def test_ids_of_an_add_may_stand_beside_the_filters_or_in_them(records: Records) -> None:
    filters = {"AND": [{"user_id": "alice"}, {"run_id": "r1"}]}
    records.add(Add(messages="tea", infer=False, filters=filters))
    assert listed(records, {"run_id": "r1", "user_id": "alice"}) == ["tea"]
    with pytest.raises(UsageError, match="say it once"):
        records.add(Add(messages="tea", user_id="bob", filters={"user_id": "alice"}))
    with pytest.raises(UsageError, match="more than one place"):
        records.add(Add(messages="tea", filters={"user_id": {"in": ["a", "b"]}}))


def test_nothing_is_stored_for_nobody(records: Records) -> None:
    for ids in ({}, {"app_id": "shop"}):
        with pytest.raises(ScopeError, match="user_id"):
            records.add(asked({"messages": "tea", **ids}, Add)[0])


def test_app_id_is_an_attribute_and_no_tenant(records: Records) -> None:
    added(records, "likes green tea", user_id="alice", app_id="shop")
    added(records, "likes black tea", user_id="alice", app_id="forum")
    added(records, "likes white tea", user_id="bob", app_id="shop")
    assert listed(records, {"user_id": "alice", "app_id": "shop"}) == ["likes green tea"]
    assert listed(records, {"app_id": "shop"}) == ["likes green tea", "likes white tea"]
    assert len(found(records, "tea", {"user_id": "alice"})) == 2
    shown = records.listed(Listing(filters={"app_id": "forum"}))["results"][0]
    assert (shown["app_id"], shown["metadata"]) == ("forum", {})


def test_a_star_finds_and_deletes_what_is_called_a_star(records: Records) -> None:
    added(records, "alice's", user_id="alice")
    added(records, "小明的", user_id="小明")
    assert listed(records, {"user_id": "*"}) == []
    assert found(records, "alice's 小明的", {"user_id": "*"}) == []
    assert records.delete_all({"user_id": "*"})["deleted"] == 0
    assert Entities(records.reach).delete("user", "*")["deleted"]["memories"] == 0
    assert len(listed(records, {"user_id": {"in": ["alice", "小明"]}})) == 2


def test_several_branches_are_searched_each_in_its_own_ids(records: Records) -> None:
    added(records, "alice plays the cello", user_id="alice")
    added(records, "bob plays the cello", user_id="bob", run_id="r1")
    added(records, "carol plays the cello", user_id="carol")
    filters = {"OR": [{"user_id": "alice"}, {"run_id": "r1"}]}
    assert sorted(found(records, "who plays the cello", filters)) == ["alice plays the cello", "bob plays the cello"]


def test_what_lies_in_two_branches_is_found_once(records: Records) -> None:
    added(records, "the cello is in the hall", user_id="alice", agent_id="bot")
    added(records, "大提琴在大厅", user_id="alice")
    filters = {"OR": [{"user_id": "alice"}, {"user_id": "alice", "agent_id": "bot"}]}
    hits = found(records, "where is the cello? 大提琴在哪里？", filters)
    assert sorted(hits) == ["the cello is in the hall", "大提琴在大厅"]


@pytest.mark.parametrize(
    ("text", "question"), [("the invoice number is ZX-4471", "ZX-4471"), ("发票号码是甲乙丙丁", "甲乙丙丁")]
)
def test_what_only_its_words_find_is_found_at_their_default_threshold(
    records: Records, text: str, question: str
) -> None:
    added(records, text, user_id="alice")
    for at in range(30):
        added(records, f"note {at} about the garden and its roses", user_id="alice")
    assert found(records, question, {"user_id": "alice"}, threshold=0.1, top_k=1) == [text]


@pytest.mark.parametrize(
    ("text", "question"), [("the invoice number is ZX-4471", "ZX-4471"), ("发票号码是甲乙丙丁", "甲乙丙丁")]
)
def test_a_hit_that_no_meaning_found_is_kept_at_their_default_threshold(text: str, question: str) -> None:
    with offprompt.open(":memory:", embedder="none", recall_floor=0.99) as memory:
        records = Records(Reach(memory, Identity()))
        for one in (text, "roses in the garden", "花园里的玫瑰"):
            added(records, one, user_id="alice")
        hits = records.search(Search(query=question, filters={"user_id": "alice"}, threshold=0.1))["results"]
    assert [(one["memory"], one["score_breakdown"]["semantic"]) for one in hits] == [(text, 0.0)]


def test_no_hit_has_a_score_below_the_threshold(records: Records) -> None:
    for text in ("I play the cello", "the cello is in the hall", "rain is expected"):
        added(records, text, user_id="alice")
    for threshold in (0.0, 0.2, 0.5, 1.0):
        answer = records.search(Search(query="who plays the cello", filters={"user_id": "alice"}, threshold=threshold))
        assert all(threshold <= one["score"] <= 1 for one in answer["results"])


def test_expired_rows_crowd_out_nothing(records: Records, clock: MovedClock) -> None:
    for at in range(20):
        added(records, f"tea offer {at}", user_id="alice", expiration_date="2026-05-29")
    added(records, "tea is her drink", user_id="alice")
    added(records, "她爱喝茶", user_id="alice")
    clock.move(3 * DAY_S)
    assert found(records, "tea 茶", {"user_id": "alice"}, top_k=2) == ["tea is her drink", "她爱喝茶"]
    assert listed(records, {"user_id": "alice"}) == ["tea is her drink", "她爱喝茶"]
    assert len(listed(records, {"user_id": "alice"}, show_expired=True)) == 22
    assert "tea offer 3" in found(records, "tea offer 3", {"user_id": "alice"}, show_expired=True)


def test_a_memory_is_found_through_its_last_day(records: Records, clock: MovedClock) -> None:
    name = added(records, "the sale", user_id="alice", expiration_date="2026-05-29")
    assert records.get(name)["expiration_date"] == "2026-05-29"
    clock.move(DAY_S)
    assert listed(records, {"user_id": "alice"}) == ["the sale"]
    clock.move(4 * 3600)
    assert listed(records, {"user_id": "alice"}) == []


def test_history_is_in_order_and_says_what_was_and_what_is(records: Records, clock: MovedClock) -> None:
    name = added(records, "喜欢喝茶", user_id="小明")
    for text in ("喜欢喝咖啡", "likes cocoa"):
        clock.move(1)
        records.update(name, Change(text=text))
    told = records.history(name)
    assert [one["event"] for one in told] == ["ADD", "UPDATE", "UPDATE"]
    assert [one["old_memory"] for one in told] == [None, "喜欢喝茶", "喜欢喝咖啡"]
    assert [one["new_memory"] for one in told] == ["喜欢喝茶", "喜欢喝咖啡", "likes cocoa"]
    assert [one["updated_at"] for one in told] == sorted(one["updated_at"] for one in told)
    clock.move(1)
    records.delete(name)
    last = records.history(name)[-1]
    assert (last["event"], last["is_deleted"], last["new_memory"]) == ("DELETE", True, None)
    assert all("茶" not in str(one) for one in records.history(name))


def test_deletes_say_how_many(records: Records) -> None:
    records.add(Add(messages="I live in Porto. I like tea.", user_id="alice"))
    added(records, "喜欢喝茶", user_id="alice", run_id="r1")
    assert records.delete_all({"user_id": "alice", "run_id": "r1"})["deleted"] == 1
    done = records.delete_all({"user_id": "alice"})
    assert done["deleted"] == 3
    event = records.event(done["event_id"])
    assert event is not None
    assert (event["event_type"], event["deleted"]) == ("DELETE", 3)
    assert records.delete_all({"user_id": "alice"})["deleted"] == 0


@pytest.mark.parametrize("filters", [{}, {"topic": "tea"}, {"OR": [{"user_id": "alice"}, {"topic": "tea"}]}], ids=str)
def test_delete_all_without_an_id_deletes_nothing(records: Records, filters: dict[str, Any]) -> None:
    added(records, "tea", user_id="alice", metadata={"topic": "tea"})
    with pytest.raises(UsageError):
        records.delete_all(filters)
    assert listed(records, {"user_id": "alice"}) == ["tea"]


def test_a_memory_goes_with_the_older_ones_that_it_superseded(records: Records, clock: MovedClock) -> None:
    ids: list[str] = []
    for place in ("Porto", "Lisbon", "Faro"):
        done = records.add(Add(messages=f"I live in {place}.", user_id="alice"))
        ids.append(next(one["id"] for one in done["results"] if "lives in" in one["memory"]))
        clock.move(60)
    answer = records.delete(ids[-1], linked=True)
    assert answer["cascade_count"] == 2
    for name in ids:
        with pytest.raises(NotFoundError):
            records.get(name)


def test_only_an_admin_wipes(records: Records, asking: Callable[..., Reach]) -> None:
    added(records, "tea", user_id="alice")
    for roles in (("read",), ("read", "write")):
        for kind in ("user", "agent", "app", "run"):
            with pytest.raises(ForbiddenError, match="admin"):
                Entities(asking(*roles)).delete(kind, "alice")
    assert Entities(asking("admin")).delete("user", "alice")["deleted"]["memories"] == 1


def test_what_all_may_read_is_an_admin_s_to_delete(asking: Callable[..., Reach], memory: Offprompt) -> None:
    memory.scope(shared=True).remember("closed on 春节", metadata=with_marks({}, {"app_id": "shop"}), derive="none")
    writer = Records(asking("read", "write"))
    assert listed(writer, {"app_id": "shop"}) == ["closed on 春节"]
    name = writer.listed(Listing(filters={"app_id": "shop"}))["results"][0]["id"]
    for call in (
        lambda: writer.delete_all({"app_id": "shop"}),
        lambda: writer.delete(name),
        lambda: writer.update(name, Change(text="x")),
        lambda: writer.batch_delete([OneId(memory_id=name)]),
    ):
        with pytest.raises(ForbiddenError):
            call()
    assert listed(writer, {"app_id": "shop"}) == ["closed on 春节"]
    assert Records(asking("admin")).delete_all({"app_id": "shop"})["deleted"] == 1


def test_who_only_reads_changes_nothing(records: Records, asking: Callable[..., Reach]) -> None:
    name = added(records, "tea", user_id="alice")
    reader = Records(asking("read"))
    for call in (
        lambda: reader.add(Add(messages="x", user_id="alice")),
        lambda: reader.update(name, Change(text="x")),
        lambda: reader.delete(name),
        lambda: reader.delete_all({"user_id": "alice"}),
        lambda: reader.feedback(Feedback(memory_id=name, feedback="POSITIVE")),
        lambda: reader.batch_delete([OneId(memory_id=name)]),
    ):
        with pytest.raises(ForbiddenError):
            call()
    assert reader.get(name)["memory"] == "tea"


def calls_by_id(records: Records) -> list[Callable[[str], object]]:
    """All that is asked of one memory by its id."""
    return [
        records.get,
        records.delete,
        records.history,
        lambda name: records.update(name, Change(text="x")),
        lambda name: records.feedback(Feedback(memory_id=name)),
        lambda name: records.batch_delete([OneId(memory_id=name)]),
        lambda name: records.batch_update([OneChange(memory_id=name, text="x")]),
    ]


def test_another_users_memory_is_as_if_it_had_never_been(records: Records, asking: Callable[..., Reach]) -> None:
    name = added(records, "secret tea", user_id="alice")
    gone = "m_" + "0" * 26
    for reach in (asking("admin", users=("bob",)), asking("admin", app="other"), asking("admin", agents=("x",))):
        for call in calls_by_id(Records(reach)):
            told: list[str] = []
            for one in (name, gone):
                with pytest.raises(NotFoundError) as missing:
                    call(one)
                told.append(str(missing.value).replace(one, "ID"))
            assert told[0] == told[1]
    assert records.get(name)["memory"] == "secret tea"


def test_a_key_of_one_user_reaches_that_user_only(records: Records, asking: Callable[..., Reach]) -> None:
    added(records, "alice's tea", user_id="alice", agent_id="bot", run_id="r1", app_id="shop")
    added(records, "bob's tea", user_id="bob", agent_id="bot", run_id="r1", app_id="shop")
    bob = Records(asking("read", "write", users=("bob",)))
    for ids in ({"agent_id": "bot"}, {"run_id": "r1"}, {"app_id": "shop"}, {"user_id": "bob"}):
        assert listed(bob, ids) == ["bob's tea"]
        assert found(bob, "tea", ids) == ["bob's tea"]
    with pytest.raises(ForbiddenError):
        listed(bob, {"OR": [{"user_id": "bob"}, {"user_id": "alice"}]})
    with pytest.raises(ForbiddenError):
        bob.add(Add(messages="x", user_id="alice"))
    names = [(one["type"], one["name"], one["total_memories"]) for one in Entities(bob.reach).listed()["results"]]
    assert names == [("user", "bob", 1), ("agent", "bot", 1), ("app", "shop", 1), ("run", "r1", 1)]
    assert bob.delete_all({"agent_id": "bot"})["deleted"] == 1
    assert listed(records, {"agent_id": "bot"}) == ["alice's tea"]


def test_a_key_of_no_users_reaches_nobody(records: Records, asking: Callable[..., Reach]) -> None:
    name = added(records, "tea", user_id="alice", run_id="r1")
    nobody = Records(asking("admin", users=()))
    assert listed(nobody, {"run_id": "r1"}) == []
    with pytest.raises(NotFoundError):
        nobody.get(name)


def test_a_joined_users_old_id_stands_for_the_new_one(records: Records, memory: Offprompt) -> None:
    added(records, "tea", user_id="al")
    memory.alias("al", "alice")
    assert listed(records, {"user_id": "al"}) == listed(records, {"user_id": "alice"}) == ["tea"]


def test_what_is_immutable_stays(records: Records) -> None:
    name = added(records, "born in 1990", user_id="alice", immutable=True)
    for call in (
        lambda: records.update(name, Change(text="x")),
        lambda: records.batch_update([OneChange(memory_id=name, text="x")]),
    ):
        with pytest.raises(ConflictError, match="immutable"):
            call()
    assert records.get(name)["immutable"] is True
    assert records.delete(name)["deleted"] == 1


def test_an_update_sets_members_and_takes_expiry_away(records: Records, clock: MovedClock) -> None:
    name = added(records, "tea", user_id="alice", metadata={"a": 1, "b": 2}, expiration_date="2026-06-01", app_id="x")
    shown = records.update(name, Change(text="茶", metadata={"b": None, "c": 3}, timestamp=1_700_000_000))
    assert (shown["memory"], shown["metadata"], shown["app_id"]) == ("茶", {"a": 1, "c": 3}, "x")
    assert shown["created_at"].startswith("2023-11-14")
    assert shown["expiration_date"] == "2026-06-01"
    assert records.update(name, Change(expiration_date=None))["expiration_date"] is None
    clock.move(30 * DAY_S)
    assert found(records, "茶", {"user_id": "alice"}) == ["茶"]
    with pytest.raises(UsageError, match="nothing is to be changed"):
        records.update(name, Change())
    with pytest.raises(UsageError, match=r"metadata\.mem0"):
        records.update(name, Change(metadata={"mem0": {}}))


def test_a_batch_is_done_if_all_of_it_is_there(records: Records) -> None:
    one, two = (added(records, text, user_id="alice") for text in ("tea", "茶"))
    with pytest.raises(NotFoundError):
        records.batch_update([OneChange(memory_id=one, text="x"), OneChange(memory_id="m_none", text="y")])
    with pytest.raises(NotFoundError):
        records.batch_delete([OneId(memory_id=one), OneId(memory_id="m_none")])
    assert listed(records, {"user_id": "alice"}) == ["tea", "茶"]
    assert records.batch_update([OneChange(memory_id=one, text="mate"), OneChange(memory_id=two, text="可可")])
    assert listed(records, {"user_id": "alice"}) == ["mate", "可可"]
    assert records.batch_delete([OneId(memory_id=one), OneId(memory_id=two)])["deleted"] == 2
    with pytest.raises(UsageError, match="1 to 1000"):
        records.batch_delete([])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"text": " "}, "give some words"),
        ({"text": "茶" * 20_001}, "20,001 characters"),
        ({}, "nothing is to be changed"),
        ({"timestamp": "昨天"}, "timestamp='昨天'"),
        ({"expiration_date": "soon"}, "YYYY-MM-DD"),
        ({"metadata": {"mem0": 1}}, "metadata.mem0"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_batch_of_which_one_does_not_fit_changes_none(records: Records, wrong: dict[str, Any], said: str) -> None:
    one, two = (added(records, text, user_id="alice") for text in ("tea", "茶"))
    with pytest.raises(UsageError) as refused:
        records.batch_update([OneChange(memory_id=one, text="x"), OneChange(memory_id=two, **wrong)])
    assert said in str(refused.value)
    assert listed(records, {"user_id": "alice"}) == ["tea", "茶"]


def test_a_delete_of_all_takes_what_has_expired_too(records: Records, clock: MovedClock) -> None:
    for text in ("the sale", "大减价"):
        added(records, text, user_id="alice", expiration_date="2026-05-29")
    added(records, "tea", user_id="alice")
    added(records, "bob's sale", user_id="bob", expiration_date="2026-05-29")
    clock.move(3 * DAY_S)
    assert records.delete_all({"user_id": "alice"})["deleted"] == 3
    assert listed(records, {"user_id": "alice"}, show_expired=True) == []
    assert listed(records, {"user_id": "bob"}, show_expired=True) == ["bob's sale"]


@pytest.mark.parametrize("said", ["I live in Porto.", "我住在上海。"])
def test_a_delete_of_what_was_said_counts_the_facts_that_go_with_it(records: Records, said: str) -> None:
    done = records.add(Add(messages=said, user_id="alice"))["results"]
    only = {"user_id": "alice", "memory_ids": [done[0]["id"]]}
    assert records.delete_all(only)["deleted"] == len(done) == 2


@pytest.mark.parametrize("query", ["*", "？", "！？…", " * * ", "。"])
def test_a_question_without_words_finds_nothing(records: Records, query: str) -> None:
    added(records, "tea 茶 * ？", user_id="alice")
    answer = records.search(Search(query=query, filters={"user_id": "alice"}, threshold=0.0))
    assert answer == {"results": [], "warnings": ["the question has no words; get_all lists"]}


def test_an_app_id_is_an_id_as_the_others_are(records: Records) -> None:
    added(records, "cafe", user_id="alice", app_id="cafe\u0301")
    assert listed(records, {"app_id": "caf\u00e9"}) == ["cafe"]
    for wrong in ("用" * 86, "a\nb", " "):
        with pytest.raises(ScopeError, match="app id"):
            added(records, "x", user_id="alice", app_id=wrong)
        with pytest.raises(ScopeError, match="app id"):
            listed(records, {"app_id": wrong})


def test_feedback_is_kept_with_the_memory_and_goes_with_it(records: Records) -> None:
    name = added(records, "tea", user_id="alice", app_id="shop", metadata={"a": 1})
    assert records.feedback(Feedback(memory_id=name, feedback="NEGATIVE", feedback_reason="旧的"))["id"] == name
    shown = records.get(name)
    assert (shown["feedback"], shown["app_id"], shown["metadata"]) == ("NEGATIVE", "shop", {"a": 1})
    records.feedback(Feedback(memory_id=name))
    assert (records.get(name)["feedback"], records.get(name)["app_id"]) == (None, "shop")
    with pytest.raises(UsageError, match="feedback"):
        asked({"memory_id": name, "feedback": "MEH"}, Feedback)


def test_pages_hold_each_memory_once_in_order(records: Records) -> None:
    for at in range(7):
        added(records, f"note {at}", user_id="alice", metadata={"at": at})
    pages = [records.listed(Listing(filters={"user_id": "alice"}), page=page, page_size=3) for page in (1, 2, 3, 4)]
    assert [one["metadata"]["at"] for page in pages for one in page["results"]] == list(range(7))
    assert [page["count"] for page in pages] == [7] * 4
    assert [bool(page["next"]) for page in pages] == [True, True, False, False]
    assert [bool(page["previous"]) for page in pages] == [False, True, True, True]


def test_lists_are_narrowed_by_dates_words_categories_and_fields(records: Records) -> None:
    added(records, "Tea in May", user_id="alice", timestamp="2024-05-01", categories=["Drinks"])
    added(records, "tea in June", user_id="alice", timestamp="2024-06-01", categories=["食物"])
    assert listed(records, {"user_id": "alice"}, start_date="2024-05-15") == ["tea in June"]
    assert listed(records, {"user_id": "alice"}, end_date="2024-05-15") == ["Tea in May"]
    assert listed(records, {"user_id": "alice"}, categories=["DRINKS"]) == ["Tea in May"]
    assert listed(records, {"user_id": "alice"}, keywords=["june", "july"]) == ["tea in June"]
    assert found(records, "tea", {"user_id": "alice"}, categories=["食物"]) == ["tea in June"]
    answer = records.listed(Listing(filters={"user_id": "alice"}, fields=["memory"]))
    assert [set(one) for one in answer["results"]] == [{"id", "memory"}] * 2


def test_what_is_not_used_is_said(records: Records) -> None:
    given, unused = asked({"messages": "tea", "user_id": "a", "custom_categories": [{}], "output_format": "v1.1"}, Add)
    warnings = records.add(given, unused)["warnings"]
    assert [one.split(" ")[0] for one in warnings] == ["custom_categories", "output_format"]
    refused = records.add(Add(messages=[{"role": "system", "content": "be brief"}], user_id="a"))
    assert (refused["results"], len(refused["warnings"])) == ([], 1)
    reranked = records.search(Search(query="tea", filters={"user_id": "a"}, rerank=True))
    assert "[models.rerank]" in reranked["warnings"][0]


@pytest.mark.parametrize(("messages", "count"), [([], 0), ({"role": "user", "content": "茶"}, 1), ("tea", 1)], ids=str)
def test_messages_are_a_list_of_any_length_one_or_a_text(records: Records, messages: Any, count: int) -> None:
    assert len(records.add(Add(messages=messages, user_id="alice", infer=False))["results"]) == count


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert asked({"query": "x", "top_k": 3.0, "reference_date": 1e300}, Search)[0].top_k == 3
    with pytest.raises(UsageError, match="top_k"):
        asked({"query": "x", "top_k": 3.5}, Search)


@pytest.mark.parametrize("categories", [["c"] * 17, [""], ["长" * 65], "drinks"], ids=["17", "empty", "long", "text"])
def test_categories_are_sixteen_words_at_most(records: Records, categories: object) -> None:
    with pytest.raises(UsageError, match="categories"):
        added(records, "tea", user_id="alice", categories=categories)
    assert added(records, "tea", user_id="alice", categories=[f"类{at}" for at in range(16)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "query"),
        ({"query": 7}, "query"),
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "top_k": 1001}, "top_k"),
        ({"query": "x", "threshold": 1.5}, "threshold"),
        ({"query": "x", "filters": []}, "filters"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(given, Search)


def test_times_in_a_question_are_counted_from_the_reference_date(records: Records) -> None:
    added(records, "we went to the lake", user_id="alice", timestamp="2024-03-10")
    added(records, "we went to the hills", user_id="alice", timestamp="2024-06-10")
    best = found(records, "where did we go last month?", {"user_id": "alice"}, reference_date="2024-04-15")
    assert best[0] == "we went to the lake"


def test_events_name_who_asked_and_hold_no_text(records: Records, memory: Offprompt) -> None:
    name = added(records, "secret tea", user_id="alice")
    records.delete(name)
    told = memory.scope(user="alice").events(op="memory.")
    assert {one.op for one in told} >= {"memory.add", "memory.forget"}
    assert "secret" not in str(told)


@pytest.mark.parametrize("at", [-1e18, 0, 1e18])
def test_times_that_no_calendar_has_are_shown_as_its_ends(
    records: Records, asking: Callable[..., Reach], at: float
) -> None:
    name = added(records, "tea", user_id="alice", timestamp=at)
    assert records.get(name)["created_at"][:4] in ("0001", "1970", "9999")
    assert Entities(asking()).listed()["count"] == 1


@pytest.mark.parametrize("infer", [True, False])
def test_what_the_store_does_not_take_in_time_is_pending_and_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, infer: bool
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    place = tmp_path / "agent.db"
    with offprompt.open(place, write_deadline_s=0.05) as memory:
        own = Records(Reach(memory, Identity()))
        own.add(Add(messages="she likes tea", user_id="alice", infer=False))
        with closing(sqlite3.connect(place, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            done = own.add(Add(messages="我住在上海。", user_id="alice", infer=infer))
            other.execute("ROLLBACK")
        assert (done["status"], done["event_id"], done["results"][0]["id"]) == ("PENDING", None, None)
        assert done["results"][0]["memory"] == "我住在上海。"
        own.add(Add(messages="she likes cocoa", user_id="alice", infer=False))
        assert "我住在上海。" in listed(own, {"user_id": "alice"})
