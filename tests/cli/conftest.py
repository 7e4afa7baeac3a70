# SPDX-License-Identifier: Apache-2.0
"""The command line against a vettad on a fake Slurm."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib")]

from toy_vettad import fresh, vettad  # noqa: E402, F401
