# SPDX-License-Identifier: Apache-2.0
"""tools/devcluster on its own cluster: what Slurm can do there."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Cluster, devcluster
from waiting import wait_until

HELLO = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d sum %d\n", rank, sum);
  MPI_Finalize();
  return 0;
}
"""

SPANK = r"""
#include <slurm/spank.h>
SPANK_PLUGIN(devcluster_test, 1)
int slurm_spank_task_init(spank_t sp, int ac, char **av) {
  (void)ac;
  return spank_setenv(sp, "SPANK_WAS_HERE", av[0], 1);
}
"""


@pytest.fixture
def shared(cluster: Cluster, tmp_path: Path) -> Path:
    """A folder that jobs of every user can read."""
    folder = cluster.dir / "tmp" / "shared"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    return folder


def compile_c(text: str, output: Path, *argv: str) -> None:
    source = output.with_suffix(".c")
    source.write_text(text)
    subprocess.run([*argv, "-o", str(output), str(source)], check=True)


def test_a_step_runs_on_all_nodes(cluster: Cluster) -> None:
    done = cluster.run("srun -N8 -n8 printenv SLURMD_NODENAME")
    assert sorted(done.stdout.split()) == cluster.nodes


def test_gpus_are_allocated(cluster: Cluster) -> None:
    done = cluster.run("srun -N2 --gres=gpu:2 printenv CUDA_VISIBLE_DEVICES")
    assert done.stdout.split() == ["0,1", "0,1"]
    job = cluster.sbatch("sleep 60", "--gres=gpu:3")
    cluster.wait(job, "RUNNING")
    assert "GRES=gpu:3(IDX:0-2)" in cluster.run(f"scontrol show job -d {job}").stdout
    cluster.run(f"scancel {job}")


def test_sacct_knows_a_finished_job(cluster: Cluster) -> None:
    job = cluster.sbatch("exit 3", "--gres=gpu:1", "--comment=a word")
    assert cluster.wait(job) == "FAILED"
    ask = f"sacct -X -n -P -j {job} -o State,ExitCode,Comment,AllocTRES"
    line = wait_until("sacct has the end", lambda: _ended(cluster.run(ask).stdout))
    state, code, comment, tres = line.strip().split("|")
    assert (state, code, comment) == ("FAILED", "3:0", "a word")
    assert "gres/gpu=1" in tres


def _ended(line: str) -> str:
    return "" if line.startswith(("RUNNING", "PENDING", "COMPLETING")) else line


def test_main_preempts_low(cluster: Cluster) -> None:
    low = cluster.sbatch("sleep 600", "-plow", "-N8", "--exclusive")
    cluster.wait(low, "RUNNING")
    high = cluster.sbatch("sleep 600", "-N8", "--exclusive")
    cluster.wait(high, "RUNNING")
    assert cluster.wait(low, "PENDING") == "PENDING"
    assert " Restarts=1 " in cluster.run(f"scontrol -o show job {low}").stdout
    cluster.run(f"scancel {high} {low}")


def test_ordinary_users_submit_jobs(cluster: Cluster) -> None:
    assert cluster.run("srun -n2 id -un", user="nobody").stdout.split() == ["nobody"] * 2
    job = cluster.sbatch("id -un; srun -n2 id -un", "-N2", user="games")
    assert cluster.wait(job) == "COMPLETED"
    assert cluster.output(job).split() == ["games"] * 3
    done = cluster.run(f"sacct -X -n -P -j {job} -o User,Account", user="games")
    assert done.stdout.strip() == "games|research"


@pytest.mark.parametrize(
    ("compiler", "plugin", "user"),
    [
        ("mpicc.openmpi", "pmix", "games"),
        ("mpicc.openmpi", "pmix", None),
        ("mpicc.mpich", "pmi2", "games"),
    ],
)
def test_mpi(cluster: Cluster, shared: Path, compiler: str, plugin: str, user: str | None) -> None:
    compile_c(HELLO, shared / "hello", compiler)
    done = cluster.run(["srun", "-N4", "-n4", f"--mpi={plugin}", f"{shared}/hello"], user)
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} sum 6" for rank in range(4)]


def test_plugstack_is_read_at_each_launch(cluster: Cluster, shared: Path) -> None:
    compile_c(SPANK, shared / "spank.so", "gcc", "-shared", "-fPIC")
    ask = "srun printenv SPANK_WAS_HERE"
    assert cluster.run(ask, check=False).stdout == ""
    drop = cluster.plugstack_dir / "test.conf"
    try:
        for word in ("once", "again"):
            drop.write_text(f"optional {shared}/spank.so {word}\n")
            assert cluster.run(ask).stdout == f"{word}\n"
            assert cluster.run(ask, user="games").stdout == f"{word}\n"
    finally:
        drop.unlink()
    assert cluster.run(ask, check=False).stdout == ""


def test_up_again_changes_nothing(cluster: Cluster) -> None:
    before = cluster.status()
    done = devcluster("up", "--dir", str(cluster.dir))
    assert "already up" in done.stdout
    assert cluster.status() == before
    done = devcluster("up", "--dir", str(cluster.dir), "--nodes", "3", check=False)
    assert done.returncode == 1 and "--nodes" in done.stderr
    assert cluster.status() == before


def test_status(cluster: Cluster) -> None:
    status = cluster.status()
    assert status["state"] == "up"
    assert len(set(status["ports"].values())) == 10
    assert all(daemon["alive"] for daemon in status["daemons"].values())
    done = devcluster("status", "--dir", str(cluster.dir))
    assert "n008" in done.stdout
    done = devcluster("status", "--dir", "/tmp/vd-none", check=False)
    assert done.returncode == 1


def test_run_gives_back_the_exit_code(cluster: Cluster) -> None:
    folder = str(cluster.dir)
    done = devcluster(
        "run", "--dir", folder, "--", "sh", "-c", "echo $SLURM_CONF; exit 7", check=False
    )
    assert done.returncode == 7
    assert done.stdout.strip() == cluster.env["SLURM_CONF"]
    assert devcluster("run", "--dir", folder, "--", "srun", "true").returncode == 0
    assert devcluster("run", "--dir", folder, "--", "no-such", check=False).returncode == 127


def test_slurmctld_crashes_and_comes_again(cluster: Cluster) -> None:
    job = cluster.sbatch("sleep 600")
    cluster.wait(job, "RUNNING")
    # slurmctld writes its state a few seconds late: a crash before that loses the job.
    started, saved = time.time(), cluster.dir / "state" / "job_state"
    wait_until("the state is saved", lambda: saved.stat().st_mtime > started)
    cluster.kill("slurmctld")
    assert cluster.status()["state"] == "degraded"
    assert devcluster("status", "--dir", str(cluster.dir), check=False).returncode == 1
    cluster.start("slurmctld")
    assert cluster.status()["state"] == "up"
    cluster.wait(job, "RUNNING")
    cluster.run(f"scancel {job}")


def test_a_node_fails_and_comes_again(cluster: Cluster) -> None:
    job = cluster.sbatch("sleep 600", "-wn008")
    cluster.wait(job, "RUNNING")
    find = ["pgrep", "-f", f"/spool/n008/job0*{job}/slurm_script"]
    assert wait_until("the script runs", lambda: cluster.run(find, check=False).stdout)
    cluster.kill("n008", jobs=True)
    assert not cluster.run(find, check=False).stdout
    ask = "sinfo -h -N -n n008 -p main -o %T"
    wait_until("the node is down", lambda: cluster.run(ask).stdout.startswith("down"), 60)
    assert cluster.wait(job, ("PENDING", "NODE_FAIL")) == "PENDING", "it is requeued"
    cluster.start("n008")
    wait_until("the node is back", lambda: cluster.run(ask).stdout.strip() in ("idle", "mixed"))
    cluster.run(f"scancel {job}")
