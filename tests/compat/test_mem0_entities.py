"""Who there is, profiles, and wiping, in mem0's words; exports, summaries, the project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import offprompt
from offprompt.compat.mem0.asked import Add, Export, ExportWanted, asked
from offprompt.compat.mem0.entities import Entities
from offprompt.compat.mem0.making import Making
from offprompt.compat.mem0.project import Project
from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.records import Records
from offprompt.errors import ForbiddenError, NotFoundError, UnsupportedError, UsageError
from offprompt.records import Identity
from offprompt.service.offprompt import Offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.clock import MovedClock


@pytest.fixture
def entities(asking: Callable[..., Reach]) -> Entities:
    return Entities(asking())


def add(reach: Reach, text: str, **ids: Any) -> dict[str, Any]:
    return Records(reach).add(asked({"messages": text, **ids}, Add)[0])


def test_there_is_who_was_named_in_memories_slots_and_sessions(asking: Callable[..., Reach], memory: Offprompt) -> None:
    add(asking(), "tea", user_id="小明", agent_id="bot", run_id="r1", app_id="shop", infer=False)
    add(asking(), "tea", agent_id="bot", infer=False)
    memory.scope(user="only slots").write("city", "Porto")
    add(asking(app="other"), "tea", user_id="elsewhere", infer=False)
    listed = Entities(asking()).listed()
    assert [(one["type"], one["name"], one["total_memories"]) for one in listed["results"]] == [
        ("user", "only slots", 0),
        ("user", "小明", 1),
        ("agent", "bot", 2),
        ("app", "shop", 1),
        ("run", "r1", 1),
    ]
    assert {name: listed[name] for name in listed if name.startswith("total")} == {
        "total_users": 2,
        "total_agents": 1,
        "total_apps": 1,
        "total_runs": 1,
    }
    assert [one["name"] for one in Entities(asking()).listed("app")["results"]] == ["shop"]


def test_a_deleted_user_is_gone_whole_and_others_stay(asking: Callable[..., Reach], memory: Offprompt) -> None:
    for user in ("alice", "小明"):
        add(asking(), "I live in Porto.", user_id=user)
        memory.scope(user=user).write("note", "x")
    done = Entities(asking()).delete("user", "alice")
    assert done["deleted"] == {"slots": 2, "memories": 2, "sessions": 0}
    assert [one["name"] for one in Entities(asking()).listed()["results"]] == ["小明"]
    assert memory.scope(user="小明").read("note") == "x"
    assert Entities(asking()).delete("user", "alice")["deleted"]["memories"] == 0


def test_a_deleted_run_or_app_takes_its_memories_hidden_ones_too(asking: Callable[..., Reach]) -> None:
    reach = asking()
    hidden = add(reach, "hidden", user_id="alice", run_id="r1", infer=False)["results"][0]["id"]
    add(reach, "shown", user_id="alice", run_id="r1", infer=False)
    add(reach, "of an app", user_id="alice", app_id="shop", infer=False)
    add(reach, "stays", user_id="alice", run_id="r2", infer=False)
    Records(reach).delete(hidden)
    assert Entities(reach).delete("run", "r1")["deleted"]["memories"] == 2
    with pytest.raises(NotFoundError):
        Records(reach).history(hidden)
    assert Entities(reach).delete("app", "shop")["deleted"]["memories"] == 1
    assert [one["name"] for one in Entities(reach).listed()["results"]] == ["alice", "r2"]


def test_a_deleted_run_takes_what_has_expired_and_is_not_swept(
    asking: Callable[..., Reach], memory: Offprompt, clock: MovedClock
) -> None:
    add(asking(), "expired", user_id="小明", run_id="r1", infer=False, expiration_date="2026-05-29")
    clock.move(5 * 86_400)
    Entities(asking()).delete("run", "r1")
    clock.move(-5 * 86_400)
    assert memory.scope(user="小明").memories.list().memories == ()


def test_an_entity_of_no_type_is_refused(entities: Entities) -> None:
    with pytest.raises(UsageError, match="user, agent, app, run"):
        entities.delete("team", "x")
    with pytest.raises(UsageError, match="user, agent, app, run"):
        entities.listed("users")


def test_a_profile_is_what_rules_know_of_a_user(asking: Callable[..., Reach], memory: Offprompt) -> None:
    add(asking(), "My name is Lin. I live in Porto.", user_id="lin")
    add(asking(), "我叫李明。", user_id="李明")
    memory.scope(user="lin").write("app_note", "not of the profile")
    entities = Entities(asking())
    profile = entities.profile("lin")
    assert profile["status"] == "succeeded"
    assert sorted(profile["profile"].values()) == ["Lin", "Porto"]
    assert list(entities.profile("李明")["profile"].values()) == ["李明"]
    add(asking(), "the weather was fine", user_id="quiet", infer=False)
    assert entities.profile("quiet")["status"] == "insufficient_data"
    with pytest.raises(NotFoundError):
        entities.profile("nobody")
    with pytest.raises(ForbiddenError):
        Entities(asking("admin", users=("bob",))).profile("lin")


def test_jobs_of_profiles_are_done_when_they_begin(asking: Callable[..., Reach]) -> None:
    reach = asking()
    for user in ("ann", "ben", "cid"):
        add(reach, f"My name is {user.title()}.", user_id=user)
    add(reach, "fine weather", user_id="zoe", infer=False)
    entities = Entities(reach)
    job = entities.profile_job("trigger", "ann")
    assert entities.job(job["job_id"])["job"]["succeeded"] == 1
    sample = entities.profile_job("sample", limit=10)
    assert sample["entity_ids"] == ["ann", "ben", "cid", "zoe"]
    counted = entities.job(sample["job_id"])["job"]
    assert (counted["total"], counted["succeeded"], counted["skipped"]) == (4, 3, 1)
    for wrong in ("x", sample["job_id"][:-3] + "abc", "é"):
        with pytest.raises(NotFoundError):
            entities.job(wrong)
    with pytest.raises(UsageError):
        entities.profile_job("sample", limit=11)
    with pytest.raises(UsageError):
        entities.profile_job("rebuild")
    with pytest.raises(UsageError):
        entities.profile_job("trigger")


def test_settings_of_profiles_say_what_is_so_and_change_nothing_else(entities: Entities) -> None:
    assert entities.set_profile_settings({"enabled": True}) == entities.profile_settings()
    for other in ({"enabled": False}, {"entities": {"user": {"schema": {"type": "object"}}}}):
        with pytest.raises(UnsupportedError):
            entities.set_profile_settings(other)


def test_the_project_is_the_keys_app(asking: Callable[..., Reach]) -> None:
    project = Project(asking(app="shop"))
    assert (project.ping()["org_id"], project.ping()["project_id"]) == ("offprompt", "shop")
    assert project.get(["multilingual"]) == {"id": "shop", "multilingual": True}
    assert "so already" in project.update({"multilingual": True, "project_id": "shop"})["message"]
    with pytest.raises(UnsupportedError, match="extract_instructions"):
        project.update({"custom_instructions": "only food"})
    with pytest.raises(UsageError):
        project.update({})
    with pytest.raises(NotFoundError):
        project.check("offprompt", "forum")
    with pytest.raises(UnsupportedError, match="/v1/events"):
        project.refused("webhooks")
    with pytest.raises(ForbiddenError):
        Project(asking("write")).update({"multilingual": True})


def test_an_export_is_made_of_what_is_there_when_it_is_asked_for(asking: Callable[..., Reach]) -> None:
    reach = asking()
    making = Making(reach)
    add(reach, "喜欢喝茶", user_id="alice", infer=False)
    made = making.export(Export(schema={"type": "object"}, filters={"user_id": "alice"}))
    add(reach, "likes cocoa", user_id="alice", infer=False)
    shown = making.exported(ExportWanted(memory_export_id=made["id"]))
    assert [one["memory"] for one in shown["memories"]] == ["喜欢喝茶", "likes cocoa"]
    assert "schema is not filled" in shown["warnings"][0]
    assert len(making.exported(ExportWanted(user_id="alice"))["memories"]) == 2
    Entities(reach).delete("user", "alice")
    assert making.exported(ExportWanted(memory_export_id=made["id"]))["memories"] == []
    with pytest.raises(NotFoundError):
        making.exported(ExportWanted(memory_export_id="none"))
    with pytest.raises(NotFoundError):
        Making(asking("admin", users=("bob",))).exported(ExportWanted(memory_export_id=made["id"]))
    with pytest.raises(ForbiddenError):
        Making(asking("admin", users=("bob",))).exported(ExportWanted(user_id="alice"))
    for wrong in (Export(schema="{", filters={"user_id": "a"}), Export(schema={}), Export(filters={"x": 1})):
        with pytest.raises(UsageError):
            making.export(wrong)


def test_without_a_model_a_summary_is_the_memories_and_says_so(asking: Callable[..., Reach]) -> None:
    reach = asking()
    add(reach, "first", user_id="alice", infer=False)
    add(reach, "第二", user_id="alice", infer=False)
    assert Making(reach).summary({"user_id": "alice"}) == {
        "summary": "第二\nfirst",
        "memories": 2,
        "made_by": "memories",
    }
    with pytest.raises(UsageError):
        Making(reach).summary(None)


class Says:
    """Answers with a text, and keeps what it was given."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.given: list[str] = []

    def __call__(self, **payload: Any) -> dict[str, Any]:
        self.given.append(payload["messages"][-1]["content"])
        message = {"role": "assistant", "content": self.text}
        usage = {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


def test_with_a_model_what_users_say_is_read_by_it_later_and_never_without_infer() -> None:
    says = Says("{}")
    with offprompt.open(":memory:", models={"extract": StandInModel(says)}) as memory:
        reach = Reach(memory, Identity())
        add(reach, "the heron file is on the blue shelf", user_id="alice", infer=False)
        memory.parts.memories.background.ended(memory.scope(user="alice").scope)
        memory.parts.memories.background.run_due()
        assert says.given == []
        add(reach, "苍鹭文件在蓝色的架子上", user_id="alice")
        memory.parts.memories.background.ended(memory.scope(user="alice").scope)
        memory.parts.memories.background.run_due()
    assert "苍鹭" in says.given[0]
    assert "heron" not in str(says.given)


@pytest.mark.parametrize(
    ("text", "summary"), [("likes cocoa in winter", "likes cocoa"), ("冬天喜欢喝可可", "喜欢可可")]
)
def test_with_a_model_a_summary_is_the_models_and_names_it(text: str, summary: str) -> None:
    says = Says(summary)
    with offprompt.open(":memory:", models={"summarize": StandInModel(says)}) as memory:
        reach = Reach(memory, Identity())
        memory.scope(user="alice").write("pin", "a secret of many letters", policy="never")
        add(reach, text, user_id="alice", infer=False)
        add(reach, "the pin is a secret of many letters", user_id="alice", infer=False)
        told = Making(reach).summary({"user_id": "alice"})
    assert (told["summary"], told["made_by"], told["memories"]) == (summary, "stand-in", 2)
    assert text in says.given[0]
    assert "many letters" not in says.given[0]


def test_with_a_model_an_export_has_the_shape_that_was_asked_for() -> None:
    says = Says('{"drink": "可可"}')
    with offprompt.open(":memory:", models={"extract": StandInModel(says)}) as memory:
        reach = Reach(memory, Identity())
        add(reach, "喜欢喝可可", user_id="alice", infer=False)
        schema = {
            "type": "object",
            "properties": {"drink": {"type": "string"}},
            "required": ["drink"],
            "additionalProperties": False,
        }
        made = Making(reach).export(Export(schema=schema, user_id="alice"))
        assert Making(reach).exported(ExportWanted(memory_export_id=made["id"])) == {"drink": "可可"}
