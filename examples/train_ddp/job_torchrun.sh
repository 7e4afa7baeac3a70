#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=train_torchrun
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --output=train_torchrun-%j.out
# Distributed training, one Slurm task a node, which starts two ranks by torchrun:
#   sbatch job_torchrun.sh --steps 100
# LAUNCH="vetta probe exec --" in front of torchrun marks the steps without a change to train.py:
#   LAUNCH="vetta probe exec --" sbatch job_torchrun.sh --marks none --ddp
set -eu
script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\([^ ]*\).*/\1/p')
export here=${TRAIN_DDP:-$(dirname "$script")}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export MASTER_ADDR MASTER_PORT PYTHON=${PYTHON:-/usr/bin/python3} LAUNCH=${LAUNCH:-}
case $MASTER_ADDR in 127.*) export GLOO_SOCKET_IFNAME=lo ;; esac # several nodes on one machine
# 9:3 redirects what local rank 9 prints, which is nobody: PyTorch 1.13 on Python 3.11 cannot
# read its own default, 0.
# shellcheck disable=SC2016 # expanded in each task
exec srun --kill-on-bad-exit=1 bash -c 'exec $LAUNCH "$PYTHON" \
    -m torch.distributed.run --redirects=9:3 --tee=9:3 \
    --nnodes="$SLURM_NNODES" --node_rank="$SLURM_NODEID" --nproc_per_node=2 \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$here/train.py" "$@"' torchrun "$@"
