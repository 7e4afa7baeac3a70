# SPDX-License-Identifier: Apache-2.0
"""Who this process is, from the environment that its launcher set, or from torch.distributed once
it is initialised."""

from __future__ import annotations

import os
import sys
from typing import Mapping, Optional, Tuple

from ._ring import Identity

# (rank, local rank, world size) in the order in which they are believed. Slurm's own come last: one
# Slurm task that spawns eight ranks (torchrun) is the common case.
_SOURCES = (
    ("VETTA_RANK", "VETTA_LOCAL_RANK", "VETTA_WORLD_SIZE"),
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("PMIX_RANK", "PMIX_LOCAL_RANK", "PMIX_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),
)


def _integer(environment: Mapping[str, str], name: str) -> Optional[int]:
    try:
        value = int(environment[name])
    except (KeyError, ValueError):
        return None
    return value if -(2**31) <= value < 2**31 else None


def _from_torch() -> Optional[Tuple[int, int]]:
    """Rank and world size as an initialised torch.distributed says them; never imports it."""
    module = sys.modules.get("torch.distributed")
    try:
        if module is not None and module.is_available() and module.is_initialized():
            return int(module.get_rank()), int(module.get_world_size())
    except Exception:
        pass
    return None


def ranks(environment: Mapping[str, str]) -> Tuple[int, int, int]:
    """(rank, local rank, world size). A process that nobody gave a rank is rank 0 of 1."""
    for names in _SOURCES:
        rank = _integer(environment, names[0])
        if rank is None:
            continue
        local_rank, world_size = _integer(environment, names[1]), _integer(environment, names[2])
        if names[0] != "VETTA_RANK":
            told = _from_torch()
            if told is not None and told != (rank, world_size):
                # torch.multiprocessing.spawn inside one task: the environment names the task, torch
                # the rank.
                return told[0], -1 if told[0] != rank or local_rank is None else local_rank, told[1]
        return (
            rank,
            -1 if local_rank is None else local_rank,
            -1 if world_size is None else world_size,
        )
    told = _from_torch()
    return (told[0], -1, told[1]) if told is not None else (0, 0, 1)


def identity(environment: Optional[Mapping[str, str]] = None) -> Identity:
    env = os.environ if environment is None else environment
    rank, local_rank, world_size = ranks(env)
    job = env.get("SLURM_JOB_ID", "")
    step = env.get("SLURM_STEP_ID") or env.get("SLURM_STEPID") or ("batch" if job else "")
    task = _integer(env, "SLURM_PROCID")
    return Identity(
        pid=os.getpid(),
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        elastic_restart=_integer(env, "TORCHELASTIC_RESTART_COUNT") or 0,
        slurm_restart=_integer(env, "SLURM_RESTART_COUNT") or 0,
        job=job[:15],
        step=step[:15],
        task=-1 if task is None else task,
    )
