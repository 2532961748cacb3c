"""What users see of the package, recorded: ``python -m tests.recorded [--write] [PART ...]``.

Only exported names and the command line are used, so that a record stays valid however the package
is built inside. Every call runs in an empty folder, in this process, with one worker and without a
time limit. Long outputs are kept as digests, short ones as they are.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.recorded.calls import CALLS, record

RECORD = Path(__file__).parent / "behaviour"


def main() -> int:
    """Compare today's behaviour with the record, or write the record; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(CALLS)}")
    parser.add_argument("--write", action="store_true", help="keep what is found as the record")
    arguments = parser.parse_args()
    changed = []
    for part in arguments.parts or CALLS:
        found = record(part)
        path = RECORD / f"{part}.json"
        if arguments.write:
            RECORD.mkdir(exist_ok=True)
            path.write_text(_text(found), encoding="utf-8")
            print(f"{part}: {len(found)} recorded")
            continue
        known = json.loads(path.read_text(encoding="utf-8"))
        differing = [name for name in {**known, **found} if known.get(name) != found.get(name)]
        print(f"{part}: {len(found)} compared, {len(differing)} differ")
        for name in differing:
            before, after = (_text(side.get(name)).splitlines() for side in (known, found))
            print(*difflib.unified_diff(before, after, name, name, lineterm=""), sep="\n")
        changed += differing
    return 1 if changed else 0


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    root = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            status = main()
        finally:
            os.chdir(root)
    sys.exit(status)
