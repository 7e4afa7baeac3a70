#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""squeue, scontrol, sacct and sdiag of a Slurm that is a JSON file, for tests and benches.

`install(folder)` writes the four programs; FAKE_SLURM names the file. Only the questions that Vetta
asks are answered, in the form of Slurm 22.05. Jobs are dicts of squeue's field names; what a job
does not say has a plausible default. A file that is not there is a controller that does not answer.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

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
        path.write_text(f'#!/bin/sh\nexec /usr/bin/python3 -S {__file__} {name} "$@"\n')
        path.chmod(0o755)
    return folder


def write(path: Path, cluster: dict[str, Any]) -> None:
    """Replaces the cluster: {"name", "nodes": [...], "jobs": [...], "accounting": [...]}."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(cluster))
    os.replace(temporary, path)


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


def squeue(cluster: dict[str, Any], argv: list[str]) -> str:
    wanted = argv[argv.index("-O") + 1]
    separator = wanted.split(",", 1)[0].partition(":")[2]
    names = [part.partition(":")[0] for part in wanted.split(",")]
    rows = (
        "".join(job_field(job, name) + separator for name in names) + "\n"
        for job in cluster["jobs"]
    )
    return "".join(rows)


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


def scontrol(cluster: dict[str, Any], argv: list[str]) -> str:
    if "config" in argv:
        return f"Configuration data as of now\nClusterName             = {cluster['name']}\n"
    if "partition" in argv:
        return partition_text(cluster)
    if "node" in argv:
        return "".join(node_text(node) for node in cluster["nodes"])
    return "".join(allocation_text(job) for job in cluster["jobs"]) or "No jobs in the system\n"


SACCT = (
    "JobIDRaw JobID DBIndex State Submit Eligible Start End Suspended ExitCode DerivedExitCode "
    "User UID Account Partition QOS NodeList NNodes AllocCPUS NTasks AllocTRES ReqTRES Reason "
    "TimelimitRaw MaxRSS TotalCPU Priority WorkDir Comment JobName"
).split()


def sacct(cluster: dict[str, Any], argv: list[str]) -> str:
    if "-e" in argv:
        return " ".join(SACCT) + "\n"
    if "accounting" not in cluster:
        sys.stderr.write("sacct: error: slurmdbd is not configured\n")
        sys.exit(1)
    separator = next(word for word in argv if word.startswith("--delimiter=")).partition("=")[2]
    names = next(word for word in argv if word.startswith("--format=")).partition("=")[2].split(",")
    return "".join(
        "".join(str(row.get(name, "")) + separator for name in names) + "\n"
        for row in cluster["accounting"]
    )


def sdiag(_cluster: dict[str, Any], _argv: list[str]) -> str:
    at = int(time.time())
    return (
        f"sdiag output at x ({at})\nData since      x ({at - 600})\nServer thread count:  1\n"
        "Agent queue size:     0\nAgent count:          0\nDBD Agent queue size: 0\n\n"
        "Remote Procedure Call statistics by message type\n"
        "\tREQUEST_JOB_INFO                        ( 2003) count:7      ave_time:1179   "
        "total_time:8258\n\nRemote Procedure Call statistics by user\n"
        "\troot            (       0) count:7      ave_time:1179   total_time:8258\n"
    )


def main() -> int:
    name, argv = sys.argv[1], sys.argv[2:]
    if "--version" in argv:
        print("slurm-wlm 22.05.8")
        return 0
    try:
        with open(os.environ["FAKE_SLURM"], encoding="utf-8") as file:
            cluster = json.load(file)
    except (KeyError, OSError):
        sys.stderr.write(
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
        )
        return 1
    answer = {"squeue": squeue, "scontrol": scontrol, "sacct": sacct, "sdiag": sdiag}[name]
    sys.stdout.write(answer(cluster, argv))
    return 0


if __name__ == "__main__":
    sys.exit(main())
