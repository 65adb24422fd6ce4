"""What every test gets: its own home, a clean environment, and the data sets or a word about them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import servers
from tests.servers import Server, running

# The suites shipped in the package assert like tests; said here, before any test imports them.
pytest.register_assert_rewrite("offprompt.testing")

settings.register_profile("quick", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])


def data_folder() -> Path | None:
    """The folder of the data sets, or None where there is none."""
    named = os.environ.get("OFFPROMPT_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def pytest_configure(config: pytest.Config) -> None:
    # A shell's job in the background ignores interrupts, and so would each program that a test starts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("long" if "long" in str(config.option.markexpr) else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out `long` tests unless asked for, and those that need data or a server which is not here (in CI they fail
    instead)."""
    chosen: str = config.option.markexpr
    left_out = [item for item in items if item.get_closest_marker("long") and "long" not in chosen]
    if os.environ.get("CI") != "true":
        if data_folder() is None:
            without = [item for item in items if item.get_closest_marker("data") and item not in left_out]
            _say(config, without, "on real data left out: OFFPROMPT_DATA names no folder")
            left_out += without
        if shutil.which("redis-server") is None:
            without = [item for item in items if "redis_server" in _fixtures(item) and item not in left_out]
            _say(config, without, "on Redis left out: redis-server is not installed")
            left_out += without
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _say(config: pytest.Config, left_out: list[pytest.Item], why: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if left_out and reporter is not None:
        reporter.write_line(f"{len(left_out)} tests {why}")


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def _server(make: Callable[[], Server]) -> Iterator[Server]:
    with running(make()) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for all tests of the run; who kills one starts an own."""
    yield from _server(servers.postgres)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """A Redis server for all tests of the run."""
    yield from _server(servers.redis)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """A Valkey server for all tests of the run."""
    yield from _server(servers.valkey)


@pytest.fixture(scope="session")
def chroma_server() -> Iterator[Server]:
    """A Chroma server for all tests of the run."""
    yield from _server(servers.chroma)


@pytest.fixture(scope="session")
def small_model() -> Iterator[Server]:
    """A small real language model for all tests of the run, with a window of 4,096 tokens."""
    yield from _server(servers.small_model)


@pytest.fixture(scope="session")
def embeddings_server() -> Iterator[Server]:
    """A real endpoint for embeddings for all tests of the run."""
    yield from _server(servers.embeddings)


@pytest.fixture(autouse=True)
def _data_is_there(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("data") and data_folder() is None:
        pytest.fail("this test needs the data sets: set OFFPROMPT_DATA to their folder")


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests never read the user's settings, nor write to the user's data folder."""
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    for name in list(os.environ):
        if name.startswith("OFFPROMPT_") and name != "OFFPROMPT_DATA":
            patch.delenv(name)
    patch.setenv("XDG_DATA_HOME", str(home / "data"))
    patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    patch.setenv("LANG", "C.UTF-8")
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE"):
        patch.delenv(name, raising=False)
    yield
    patch.undo()


@pytest.fixture
def data() -> Path:
    """The folder of the data sets; for tests marked `data`."""
    folder = data_folder()
    assert folder is not None
    return folder
