"""How much of what may not be stored the redactor finds, and how much else it takes for it.

    python bench/redact.py

Reads the made Chinese texts in the folder that OFFPROMPT_DATA names. A find counts when kind, start and end are right.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from offprompt.privacy.redact import CheckedRedactor

KINDS = {"CN_ID": "id_number", "BANK_CARD": "bank_card"}


def main() -> None:
    folder = os.environ.get("OFFPROMPT_DATA")
    if not folder:
        raise SystemExit("bench/redact.py reads real texts: set OFFPROMPT_DATA to the folder of the data sets")
    lines = (Path(folder) / "pii-zh" / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    right, found, wanted = Counter[str](), Counter[str](), Counter[str]()
    for row in map(json.loads, lines):
        spans = {(span["start"], span["end"], KINDS[span["type"]]) for span in row["spans"] if span["type"] in KINDS}
        seen = {(span.start, span.end, span.kind) for span in CheckedRedactor().redact(row["text"]).found}
        wanted.update(kind for _, _, kind in spans)
        found.update(kind for _, _, kind in seen)
        right.update(kind for _, _, kind in spans & seen)
    print(f"{len(lines)} texts")
    for kind in KINDS.values():
        precision, recall = right[kind] / max(found[kind], 1), right[kind] / max(wanted[kind], 1)
        print(
            f"{kind:10} {wanted[kind]:4} there, {found[kind]:4} found: precision {precision:.3f}, recall {recall:.3f}"
        )


if __name__ == "__main__":
    main()
