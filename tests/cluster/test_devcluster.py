# SPDX-License-Identifier: Apache-2.0
"""tools/devcluster: a real Slurm, and nothing of it left behind."""

from conftest import Cluster


def test_a_step_runs_on_all_nodes(cluster: Cluster) -> None:
    done = cluster.run("srun -N8 -n8 printenv SLURMD_NODENAME")
    assert sorted(done.stdout.split()) == cluster.nodes


def test_gpus_are_allocated(cluster: Cluster) -> None:
    done = cluster.run("srun -N2 --gres=gpu:2 printenv CUDA_VISIBLE_DEVICES")
    assert done.stdout.split() == ["0,1", "0,1"]


def test_ordinary_users_submit_jobs(cluster: Cluster) -> None:
    job = cluster.sbatch("id -un; srun -n2 id -un", "-N2", user="games")
    assert cluster.wait(job) == "COMPLETED"
    assert cluster.output(job).split() == ["games"] * 3
