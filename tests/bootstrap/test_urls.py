"""One URL for all, or one for each role: what fits is taken apart, what does not is said with the way out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import offprompt
from offprompt.bootstrap.urls import Urls, engine_of, parse_urls
from offprompt.errors import UnsupportedError, UsageError
from offprompt.records.places import masked

PG, REDIS = "postgresql://me:secret@db/one", "redis://:secret@cache:6379/0"


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("agent.db", Urls("agent.db")),
        (":memory:", Urls(":memory:")),
        ("a=b.db", Urls("a=b.db")),
        ("my notes=1.db", Urls("my notes=1.db")),
        ("./slots=x.db", Urls("./slots=x.db")),
        (PG, Urls(PG)),
        ("memories=agent.db", Urls("memories=agent.db".partition("=")[2])),
        (f"memories={PG} slots={REDIS}", Urls(PG, REDIS)),
        (f"  slots={REDIS}\n memories=/我的 文件夹/a.db ", Urls("/我的 文件夹/a.db", REDIS)),
        (f"memories={PG} slots={PG} vectors=pgvector", Urls(PG, None, "pgvector")),
        (f"vectors=qdrant://q:6333 memories={PG}", Urls(PG, None, "qdrant://q:6333")),
        (f"memories={PG}?a=b&slots=2 slots={REDIS}", Urls(f"{PG}?a=b&slots=2", REDIS)),
    ],
)
def test_a_text_names_the_engine_of_each_role(text: str, urls: Urls) -> None:
    assert parse_urls(text) == urls


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (REDIS, UsageError, r"'redis://:\*\*\*@cache:6379/0' can keep slots only.*'memories=agent.db slots=redis://"),
        ("qdrant://q", UsageError, "can keep vectors only.*'memories=agent.db vectors=qdrant://q'"),
        ("pgvector", UsageError, "can keep vectors only"),
        (f"slots={REDIS}", UsageError, r"does not say where memories.*add .*'memories=agent.db slots=redis://:\*"),
        (f"memories={PG} cache={REDIS}", UsageError, "no role 'cache'; the roles are memories, slots, vectors"),
        (f"slots={REDIS} slots={REDIS} memories=a", UsageError, "role 'slots' is given twice"),
        (f"memories={PG} slots=", UsageError, "role 'slots' has no URL; write slots=URL"),
        (f"memories={REDIS}", UnsupportedError, "redis cannot keep memories; give one of in-process, sqlite, postgres"),
        (f"memories=a.db vectors={REDIS}", UnsupportedError, "leave vectors out.* one of pgvector, qdrant, chroma"),
        ("memories=a.db vectors=b.db", UnsupportedError, "sqlite cannot keep vectors; leave vectors out"),
        ("memories=a.db vectors=pgvector", UsageError, "they are in 'a.db'; write memories=postgresql://"),
        ("mysql://x/y", UnsupportedError, "the engine 'mysql' is not known; .*postgresql://"),
        ("https://x/y", UnsupportedError, "the engine 'https' is a server's, which keeps all roles and is given alone"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_way_out(text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as raised:
        parse_urls(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (PG, "postgresql://me:***@db/one"),
        (REDIS, "redis://:***@cache:6379/0"),
        ("qdrant://token@q", "qdrant://***@q"),
        ("qdrant://q?api_key=abc&x=1", "qdrant://q?api_key=***&x=1"),
        (f"memories={PG} slots={REDIS}", "memories=postgresql://me:***@db/one slots=redis://:***@cache:6379/0"),
        ("me@home.db", "me@home.db"),
    ],
)
def test_passwords_are_never_shown(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text", ["127.0.0.1:7333", "localhost:7333", "[::1]:7333", "memory.example.com:7333", "localhost:7333/v1"]
)
def test_an_address_without_its_scheme_is_no_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"write http://{re.escape(text)}, or \./"):
        offprompt.open(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["./localhost:7333", "a:1", "记忆:1", "agent.db"])
def test_a_file_may_have_a_colon_in_its_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    offprompt.open(name).close()
    assert (tmp_path / name).is_file()


def test_urls_are_shown_as_typed() -> None:
    for text in ("agent.db", "memories=a.db slots=redis://cache", "memories=a.db vectors=qdrant://q"):
        assert str(parse_urls(text)) == text


def test_every_scheme_has_an_engine() -> None:
    assert [engine_of(f"{scheme}://x") for scheme in ("sqlite", "postgres", "rediss", "valkey", "chroma")] == [
        "sqlite",
        "postgresql",
        "redis",
        "redis",
        "chroma",
    ]


def test_a_path_is_never_taken_for_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    offprompt.open(Path("slots=x.db")).close()
    assert (tmp_path / "slots=x.db").is_file()


def test_the_config_file_names_one_url_or_one_for_each_role(tmp_path: Path) -> None:
    one, table = tmp_path / "one.toml", tmp_path / "table.toml"
    one.write_text(f'url = "{tmp_path}/a.db"', encoding="utf-8")
    table.write_text(f'[url]\nmemories = "{tmp_path}/b.db"', encoding="utf-8")
    for file, name in ((one, "a.db"), (table, "b.db")):
        with offprompt.open(config=file) as memory:
            memory.scope(user="u").write("city", "杭州")
            assert memory.parts.url == str(tmp_path / name)
    table.write_text(f'[url]\nmemories = "{tmp_path}/b.db"\nstuff = "redis://x"', encoding="utf-8")
    with pytest.raises(UsageError, match="there is no role 'stuff'"):
        offprompt.open(config=table)
