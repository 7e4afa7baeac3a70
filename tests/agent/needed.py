#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""needed.py FILE...: the node set needs nothing but libc at run time. Reads the ELF files (of any
architecture) by readelf; exit code 1 names the file and the library that is too much."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LIBC_FAMILY = re.compile(r"(libc|libm)\.so\.6|ld-linux[\w.-]*\.so\.\d+")


def needed(path: Path) -> list[str]:
    text = subprocess.run(
        ["readelf", "--dynamic", "--wide", path], check=True, capture_output=True, text=True
    ).stdout
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", text)


def main() -> int:
    faults = 0
    for path in map(Path, sys.argv[1:]):
        libraries = needed(path)
        print(f"{path.name}: {' '.join(libraries) or 'nothing'}")
        for library in libraries:
            if not LIBC_FAMILY.fullmatch(library):
                print(f"{path}: needs {library}; the node set may need libc alone", file=sys.stderr)
                faults += 1
        if not libraries:
            print(f"{path}: no dynamic section; is this the right file?", file=sys.stderr)
            faults += 1
    return 1 if faults or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
