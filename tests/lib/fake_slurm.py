# SPDX-License-Identifier: Apache-2.0
"""squeue, scontrol, sacct and sdiag of a Slurm that is a folder of texts, for tests and benches.

`install(folder)` writes the four programs (in shell: fast), `write(path, cluster)` the texts
that they print, in the form of Slurm 22.05; FAKE_SLURM names `path`. Only the questions that Vetta
asks are answered. Jobs are dicts of squeue's field names; what a job does not say has a plausible
default. A path that is not there is a controller that does not answer.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

SEPARATOR = "@SEPARATOR@"
PROGRAM = r"""#!/bin/sh
# made by tests/lib/fake_slurm.py
case "$*" in *--version*) echo "slurm-wlm 22.05.8"; exit 0;; esac
cd "$FAKE_SLURM" 2>/dev/null || {
  echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2
  exit 1
}
fill() { sed "s/@SEPARATOR@/$1/g" "$2"; }
case "PROGRAM $*" in
  squeue*)
    for word; do last=$word; case "$word" in JobID:*) wanted=$word;; esac; done
    wanted=${wanted#JobID:}
    fill "${wanted%%,*}" squeue;;
  "scontrol show config") cat config;;
  scontrol*partition*) cat partitions;;
  scontrol*node*) cat nodes;;
  scontrol*job*) cat allocations;;
  "sacct -e") cat sacct_fields;;
  sacct*)
    test -e sacct || { echo "sacct: error: slurmdbd is not configured" >&2; exit 1; }
    for word; do case "$word" in --delimiter=*) separator=${word#--delimiter=};; esac; done
    fill "$separator" sacct;;
  sdiag*) cat sdiag;;
  *) echo "PROGRAM: the fake does not know $*" >&2; exit 1;;
esac
"""
# What reader.cc asks of squeue and of sacct, in its order.
SQUEUE = (
    "JobID JobArrayID ArrayJobID ArrayTaskID HetJobID HetJobOffset State Reason UserName UserID "
    "Account Partition QOS SubmitTime EligibleTime StartTime EndTime TimeLimit RestartCnt "
    "PriorityLong NodeList NumNodes NumCPUs NumTasks tres-alloc tres-per-job tres-per-node "
    "tres-per-task exit_code DerivedEC Dependency STDOUT STDERR WorkDir Command Comment Name"
).split()
DEFAULTS: dict[str, str] = {
    "ArrayTaskID": "N/A",
    "HetJobID": "N/A",
    "HetJobOffset": "N/A",
    "State": "RUNNING",
    "Reason": "None",
    "UserName": "ada",
    "UserID": "1000",
    "Account": "ml",
    "Partition": "main",
    "QOS": "normal",
    "TimeLimit": "10:00",
    "RestartCnt": "0",
    "PriorityLong": "1",
    "NodeList": "",
    "NumNodes": "1",
    "NumCPUs": "2",
    "NumTasks": "2",
    "tres-alloc": "cpu=2,mem=500M,node=1,billing=2",
    "tres-per-job": "N/A",
    "tres-per-node": "N/A",
    "tres-per-task": "N/A",
    "exit_code": "0",
    "DerivedEC": "0",
    "Dependency": "(null)",
    "STDOUT": "/dev/null",
    "STDERR": "/dev/null",
    "WorkDir": "/home/ada",
    "Command": "/home/ada/train.sh",
    "Comment": "(null)",
    "Name": "train",
}
NAMES = ("squeue", "scontrol", "sacct", "sdiag")


def install(folder: Path) -> Path:
    """The folder for --slurm-bin-dir."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        path = folder / name
        path.write_text(PROGRAM.replace("PROGRAM", name))
        path.chmod(0o755)
    return folder


def write(path: Path, cluster: dict[str, Any]) -> None:
    """Replaces the cluster: {"name", "nodes": [...], "jobs": [...], "accounting": [...]}."""
    folder = path.with_name(f"{path.name}.{time.monotonic_ns()}")
    folder.mkdir(mode=0o755)
    texts = {
        "squeue": squeue(cluster),
        "config": f"Configuration data as of now\nClusterName             = {cluster['name']}\n",
        "partitions": partition_text(cluster),
        "nodes": "".join(node_text(node) for node in cluster["nodes"]),
        "allocations": "".join(allocation_text(job) for job in cluster["jobs"])
        or "No jobs in the system\n",
        "sacct_fields": " ".join(SACCT) + "\n",
        "sdiag": sdiag(),
    }
    if "accounting" in cluster:
        texts["sacct"] = sacct(cluster)
    for name, text in texts.items():
        (folder / name).write_text(text)
    before = path.resolve() if path.is_symlink() else None
    link = path.with_name(f"{path.name}.new")
    link.symlink_to(folder)
    os.replace(link, path)
    if before:
        shutil.rmtree(before, ignore_errors=True)


def job_field(job: dict[str, Any], name: str) -> str:
    if name in job:
        return str(job[name])
    if name in ("JobArrayID", "ArrayJobID"):
        return str(job["JobID"])
    if name in ("SubmitTime", "EligibleTime"):
        return str(job.get("SubmitTime", 1_700_000_000))
    if name in ("StartTime", "EndTime"):
        return "NONE"
    return DEFAULTS[name]


def squeue(cluster: dict[str, Any]) -> str:
    return "".join(
        "".join(job_field(job, name) + SEPARATOR for name in SQUEUE) + "\n"
        for job in cluster["jobs"]
    )


def node_text(node: dict[str, Any]) -> str:
    return (
        f"NodeName={node['name']} Arch=x86_64 CoresPerSocket=32  CPUAlloc={node.get('alloc', 0)} "
        f"CPUEfctv=64 CPUTot=64 CPULoad=0.50 AvailableFeatures=(null) ActiveFeatures=(null) "
        f"Gres=gpu:4 GresDrain=N/A GresUsed=gpu:{node.get('gpus', 0)} NodeAddr=127.0.0.1 "
        f"NodeHostName=login1 Port=21966 Version=22.05.8 OS=Linux 6.1.0-13-amd64  "
        f"RealMemory=16000 AllocMem=0 FreeMem=12000 Sockets=2 Boards=1 "
        f"State={node.get('state', 'IDLE')} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
        f"MCS_label=N/A Partitions=main  BootTime=1700000000 SlurmdStartTime=1700000100 "
        f"LastBusyTime=1700000200 CfgTRES=cpu=64,mem=16000M,billing=64,gres/gpu=4 AllocTRES= "
        f"CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 "
        f"ExtSensorsTemp=n/s"
        + (f" Reason={node['reason']} [root@1700000300]" if "reason" in node else "")
        + "\n"
    )


def allocation_text(job: dict[str, Any]) -> str:
    nodes = job.get("NodeList", "")
    if not nodes or job_field(job, "State") != "RUNNING":
        return ""
    return (
        f"JobId={job['JobID']} JobName={job_field(job, 'Name')} UserId=ada(1000) GroupId=ada(1000) "
        f"MCS_label=N/A Priority=1 Nice=0 Account=ml QOS=normal JobState=RUNNING Reason=None "
        f"Dependency=(null) Requeue=1 Restarts={job_field(job, 'RestartCnt')} BatchFlag=1 Reboot=0 "
        f"ExitCode=0:0 DerivedExitCode=0:0 RunTime=00:01:00 TimeLimit=00:10:00 TimeMin=N/A "
        f"SubmitTime={job_field(job, 'SubmitTime')} EligibleTime={job_field(job, 'SubmitTime')} "
        f"StartTime={job_field(job, 'StartTime')} EndTime=Unknown Deadline=N/A SuspendTime=None "
        f"SecsPreSuspend=0 Partition=main AllocNode:Sid=localhost:1 ReqNodeList=(null) "
        f"ExcNodeList=(null) NodeList={nodes} BatchHost={nodes.split(',')[0]} NumNodes=1 NumCPUs=2 "
        f"NumTasks=2 CPUs/Task=1 TRES=cpu=2,mem=500M,node=1,billing=2 "
        + "".join(
            f"Nodes={name} CPU_IDs=0-1 Mem=250 GRES=gpu:1(IDX:0) " for name in nodes.split(",")
        )
        + "Command=/home/ada/train.sh WorkDir=/home/ada StdErr=/dev/null StdIn=/dev/null "
        "StdOut=/dev/null Power= \n"
    )


def partition_text(cluster: dict[str, Any]) -> str:
    nodes = ",".join(node["name"] for node in cluster["nodes"])
    count = len(cluster["nodes"])
    return (
        f"PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL "
        f"Default=YES QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 "
        f"Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO "
        f"MaxCPUsPerNode=UNLIMITED Nodes={nodes} PriorityJobFactor=1 PriorityTier=10 RootOnly=NO "
        f"ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP "
        f"TotalCPUs={64 * count} TotalNodes={count} SelectTypeParameters=NONE JobDefaults=(null) "
        f"DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
        f"TRES=cpu={64 * count},mem=16000M,node={count},billing={64 * count},gres/gpu={4 * count}\n"
    )


SACCT = (
    "JobIDRaw JobID DBIndex State Submit Eligible Start End Suspended ExitCode DerivedExitCode "
    "User UID Account Partition QOS NodeList NNodes AllocCPUS NTasks AllocTRES ReqTRES Reason "
    "TimelimitRaw MaxRSS TotalCPU Priority WorkDir Comment JobName"
).split()


def sacct(cluster: dict[str, Any]) -> str:
    return "".join(
        "".join(str(row.get(name, "")) + SEPARATOR for name in SACCT) + "\n"
        for row in cluster["accounting"]
    )


def sdiag() -> str:
    at = int(time.time())
    return (
        f"sdiag output at x ({at})\nData since      x ({at - 600})\nServer thread count:  1\n"
        "Agent queue size:     0\nAgent count:          0\nDBD Agent queue size: 0\n\n"
        "Remote Procedure Call statistics by message type\n"
        "\tREQUEST_JOB_INFO                        ( 2003) count:7      ave_time:1179   "
        "total_time:8258\n\nRemote Procedure Call statistics by user\n"
        "\troot            (       0) count:7      ave_time:1179   total_time:8258\n"
    )
