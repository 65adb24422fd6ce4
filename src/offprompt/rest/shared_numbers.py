"""Where the numbers of several workers are added up; prometheus_client is not to be imported before it is said."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable in which the library looks as it is imported."""


@contextmanager
def shared_numbers() -> Generator[None]:
    """For the time of a server with several workers, around their start: a folder in which their numbers are added up.

    It is this user's own, in the machine's folder for temporary files, and is removed in the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="offprompt-metrics-"))
    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = str(folder)
    try:
        yield
    finally:
        del os.environ[FOLDER]
        if before is not None:
            os.environ[FOLDER] = before
        shutil.rmtree(folder, ignore_errors=True)
