"""Small disks that fill up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOM = 64 * 1024


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Generator[Path]:
    """A folder with a file system of its own in memory; tests that may not mount one are left out."""
    owner = (folder if folder.exists() else folder.parent).stat()
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,uid={owner.st_uid},mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, left: int = ROOM) -> Path:
    """A file that leaves so many bytes of its disk free."""
    filler = folder / "filler"
    state = os.statvfs(folder)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, state.f_bavail * state.f_frsize - left))
    return filler
