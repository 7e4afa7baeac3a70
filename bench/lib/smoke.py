# SPDX-License-Identifier: Apache-2.0
"""smoke.py NAME: runs bench NAME quickly and judges its object, not its speed.

Passes when the bench ran (exit 0 or 3) and printed the one object of the contract with every figure
measured. Whether bounds hold is not judged: quick runs are too few, and tests share the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import report  # noqa: E402

FIELDS: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "unit": str,
    "op": str,
    "bound": (int, float),
    "holds": bool,
    "runs": int,
    "note": str,
}


def complaints(result: Any) -> list[str]:
    """What is wrong with a bench's object; empty when it is as the contract says."""
    if not isinstance(result, dict):
        return ["it printed no object"]
    wrong = [
        f"it has no {key!r}"
        for key in ("bench", "machine", "commit", "load", "figures")
        if key not in result
    ]
    figures = result.get("figures")
    if not isinstance(figures, list) or not figures:
        return wrong + ["it has no figures"]
    for figure in figures:
        name = figure.get("id", "without id")
        for key, kind in FIELDS.items():
            if not isinstance(figure.get(key), kind):
                wrong.append(f"figure {name}: {key} is {figure.get(key)!r}")
        if figure.get("value") is None:
            wrong.append(f"figure {name} was not measured: {figure.get('note')}")
        elif figure.get("op") in report.OPS:
            if figure.get("holds") != report.holds(figure["value"], figure["op"], figure["bound"]):
                wrong.append(f"figure {name}: holds does not follow from value, op and bound")
    return wrong


def main() -> int:
    name = sys.argv[1]
    done = subprocess.run(
        [report.ROOT / "bench" / "run", name, "--json", "--quick"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode not in (report.EXIT_FINE, report.EXIT_FOUND):
        print(f"bench {name} exited with {done.returncode}")
        return 1
    try:
        result = json.loads(done.stdout)
    except ValueError as error:
        print(f"bench {name} printed no JSON ({error}): {done.stdout[:500]}")
        return 1
    print(json.dumps(result, indent=1))
    wrong = complaints(result)
    for complaint in wrong:
        print(f"bench {name}: {complaint}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
