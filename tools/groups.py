"""The requirements of dependency groups of pyproject.toml, one a line, for a pip that does not know `--group`."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Print the requirements of the groups named on the command line."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    for group in sys.argv[1:]:
        sys.stdout.write("\n".join(project["dependency-groups"][group]) + "\n")


if __name__ == "__main__":
    main()
