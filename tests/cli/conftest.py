# SPDX-License-Identifier: Apache-2.0
"""The command line against a vettad on a fake Slurm."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "tools" / "lib")]

from toy_vettad import fresh, vettad  # noqa: E402

__all__ = ["fresh", "vettad"]
