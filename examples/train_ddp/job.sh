#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=train_ddp
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --output=train_ddp-%j.out
# Distributed training, one Slurm task a rank. What follows the script's name goes to train.py:
#   sbatch job.sh --steps 100 --slow-rank 5 --slow-by loader
set -eu
script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\([^ ]*\).*/\1/p')
here=${TRAIN_DDP:-$(dirname "$script")}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}
export MASTER_ADDR MASTER_PORT
case $MASTER_ADDR in 127.*) export GLOO_SOCKET_IFNAME=lo ;; esac # several nodes on one machine
exec srun --kill-on-bad-exit=1 "${PYTHON:-/usr/bin/python3}" "$here/train.py" "$@"
