# SPDX-License-Identifier: Apache-2.0
"""HTTP against a vettad on a fake Slurm: one for a file of tests."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib")]

from toy_vettad import fresh, vettad  # noqa: E402, F401
