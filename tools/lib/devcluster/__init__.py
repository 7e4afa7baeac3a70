# SPDX-License-Identifier: Apache-2.0
"""A real Slurm cluster on one machine, with all its state under one folder."""
