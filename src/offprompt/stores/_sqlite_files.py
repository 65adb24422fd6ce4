"""The SQLite store's files on disk: made private, known by their first bytes, refused on network drives."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Final

from offprompt.errors import BackendError
from offprompt.stores._sqlite_schema import APPLICATION_ID

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
MOUNTS: Final = Path("/proc/mounts")
NETWORK_DRIVES: Final = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "beegfs", "davfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs", "fuse.ceph"}
)
_MAGIC: Final = b"SQLite format 3\x00"


def prepare_file(path: Path) -> None:
    """Make the file (0600) and its missing folders (0700), or see that it is ours.

    Raises   BackendError if it is a folder, no SQLite file, another program's, on a network drive, or if the system
             refuses; then nothing was changed.
    """
    if kind := network_drive(path):
        raise BackendError(
            f"the store {path} lies on a network drive ({kind}), where locks cannot be trusted and files break; "
            "give a path on a local disk, or use one server that all share"
        )
    try:
        if not path.exists():
            make_folders(path.parent)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
        if not stat.S_ISREG(path.stat().st_mode):
            raise BackendError(f"the store {path} is not a plain file; give the path of a file")
        check_ours(path)
    except OSError as exc:
        raise BackendError(f"the store {path} cannot be opened: {exc.strerror}; check the path and its rights") from exc


def make_folders(folder: Path) -> None:
    """Make the missing folders of a path, each 0700; those that are there keep their rights."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=FOLDER_MODE, exist_ok=True)


def check_ours(path: Path) -> None:
    """See by its first bytes that the file is ours, or empty. SQLite is not asked: it would touch the file.

    Raises   BackendError if it is not; OSError if it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        return
    if not head.startswith(_MAGIC) or len(head) < 100:
        raise BackendError(f"the file {path} is not an Offprompt store (no SQLite file); give another path")
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise BackendError(
            f"the file {path} is the SQLite file of another program (application_id "
            f"{int.from_bytes(head[68:72], 'big'):#x}); it was left as it is: give another path"
        )


def network_drive(path: Path, mounts: str | None = None) -> str:
    """The kind of network drive that a path lies on, or ''.

    mounts   text of /proc/mounts; None: this system's, and '' where there is none.
    """
    if mounts is None:
        try:
            mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    place, best, kind = path.resolve(), -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1]))
        # A later mount over the same point hides the earlier one.
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind if kind in NETWORK_DRIVES else ""


def loose_files(path: Path) -> list[tuple[Path, int, int]]:
    """The store's files and folder that others than the owner can enter: path, mode, the mode it should have."""
    loose: list[tuple[Path, int, int]] = []
    for place in (path, Path(f"{path}-wal"), Path(f"{path}-shm"), path.parent):
        with contextlib.suppress(FileNotFoundError):
            mode = stat.S_IMODE(place.stat().st_mode)
            wanted = mode & 0o700
            if mode != wanted:
                loose.append((place, mode, wanted))
    return loose
