#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same training without Slurm: 8 ranks on this machine (RANKS=n for another number).
# Example: ./local.sh --steps 50 --slow-rank 5 --slow-by loader
here=$(dirname "$0")
export MASTER_ADDR=127.0.0.1
# 9:3 redirects what local rank 9 prints, which is nobody: PyTorch 1.13 on Python 3.11 cannot
# read its own default, 0.
exec "${PYTHON:-/usr/bin/python3}" -m torch.distributed.run --redirects=9:3 --tee=9:3 \
  --nproc_per_node="${RANKS:-8}" --master_port="${MASTER_PORT:-29500}" "$here/train.py" "$@"
