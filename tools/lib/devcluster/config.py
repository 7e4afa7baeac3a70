# SPDX-License-Identifier: Apache-2.0
"""The configuration files of Slurm, written anew at each `up`."""

import os
import shutil
import socket

from devcluster import cgroups
from devcluster.layout import DevclusterError, Layout
from devcluster.record import Record, Settings

# Short waits everywhere: a job starts when it is submitted, a dead node is seen in 15 s, a
# preempted or cancelled job that ignores SIGTERM is killed after 5 s.
SLURM_CONF = """\
# Written by tools/devcluster at each `up`: changes belong into a file for `up --conf FILE`.
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge_socket}
CredType=cred/munge
StateSaveLocation={ctld_state}
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/%n.pid
SlurmdSpoolDir={spool}/%n
TmpFS={tmp}/%n
SlurmctldDebug=info
SlurmdDebug=info
SlurmctldSyslogDebug=quiet
SlurmdSyslogDebug=quiet
PlugStackConfig={etc}/plugstack.conf
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=15
InactiveLimit=0
KillWait=5
MessageTimeout=20
UnkillableStepTimeout=30
SlurmdParameters=config_overrides
TreeWidth=128
MinJobAge=300
MaxJobCount=50000
MaxArraySize=40001
JobRequeue=1

SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,sched_min_interval=0,batch_sched_delay=0,bf_interval=2,\
bf_continue,default_queue_depth=1000
PriorityType=priority/multifactor
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU={mem_per_cpu}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE

JobAcctGatherFrequency=task=5
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={munge_socket}
AccountingStoreFlags=job_comment,job_env,job_script
{tracking}{gres}
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port={node_ports} {shape} \
RealMemory={memory}{node_gres} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
"""

WITHOUT_CGROUPS = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
"""

SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={munge_socket}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
PidFile={run}/slurmdbd.pid
DebugLevel=info
DebugLevelSyslog=quiet
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""


def _shape(cpus: int) -> str:
    """Two sockets where the CPUs can be halved, as on most real nodes."""
    sockets = 2 if cpus % 2 == 0 else 1
    return f"CPUs={cpus} Sockets={sockets} CoresPerSocket={cpus // sockets} ThreadsPerCore=1"


def _range(first: int, count: int) -> str:
    return str(first) if count == 1 else f"[{first}-{first + count - 1}]"


def slurm_conf(layout: Layout, record: Record) -> str:
    """The text of slurm.conf; the lines of --conf come last, so that they win."""
    settings, ports = record.settings, record.ports()
    gres = "GresTypes=gpu\nAccountingStorageTRES=gres/gpu\n" if settings.gpus else ""
    text = SLURM_CONF.format(
        cluster=settings.cluster,
        host=socket.gethostname().partition(".")[0],
        ctld_port=ports["slurmctld"],
        dbd_port=ports["slurmdbd"],
        munge_socket=layout.munge_socket,
        ctld_state=layout.ctld_state,
        run=layout.run,
        spool=layout.spool,
        tmp=layout.tmp,
        etc=layout.etc,
        mem_per_cpu=max(1, settings.memory // settings.cpus),
        tracking=cgroups.SLURM_CONF if settings.cgroup else WITHOUT_CGROUPS,
        gres=gres,
        nodes=settings.node_range(),
        node_ports=_range(record.first_port + 2, settings.nodes),
        shape=_shape(settings.cpus),
        memory=settings.memory,
        node_gres=f" Gres=gpu:{settings.gpus}" if settings.gpus else "",
    )
    if settings.conf:
        text += f"\n# from --conf\n{settings.conf.rstrip()}\n"
    return text


def gres_conf(settings: Settings) -> str:
    """GPUs without hardware: Slurm wants one device file each and never opens it."""
    if not settings.gpus:
        return ""
    for index in range(settings.gpus):
        if not os.path.exists(f"/dev/tty{index}"):
            raise DevclusterError(
                f"/dev/tty{index} stands for GPU {index} and is not there: ask for at most "
                f"{index} GPUs a node with --gpus"
            )
    return f"Name=gpu File=/dev/tty{_range(0, settings.gpus)}\n"


def _write(path: str, text: str, mode: int = 0o644) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)


def make_folders(layout: Layout, settings: Settings) -> None:
    """All folders; spool folders must be there before slurmd starts, and jobs write to tmp."""
    # A socket or pid file of an earlier run would make a daemon talk to, or signal, the wrong one.
    shutil.rmtree(layout.run, ignore_errors=True)
    shutil.rmtree(layout.tmp, ignore_errors=True)
    for log in layout.log.glob("*.log"):
        os.replace(log, f"{log}.old")  # what a failed start shows is this start's
    for folder in (layout.etc, layout.plugstack_dir, layout.run, layout.log, layout.ctld_state):
        folder.mkdir(mode=0o755, exist_ok=True)
        folder.chmod(0o755)
    for parent in (layout.spool, layout.tmp):
        parent.mkdir(mode=0o755, exist_ok=True)
        parent.chmod(0o755)
        for node in settings.node_names():
            (parent / node).mkdir(mode=0o755, exist_ok=True)
            (parent / node).chmod(0o1777 if parent == layout.tmp else 0o755)


def write(layout: Layout, record: Record) -> None:
    """Everything in etc/ but the munge key and what users put into plugstack.d/."""
    etc, settings, ports = layout.etc, record.settings, record.ports()
    _write(f"{etc}/gres.conf", gres_conf(settings))
    _write(f"{etc}/cgroup.conf", cgroups.CGROUP_CONF if settings.cgroup else "")
    _write(f"{etc}/slurm.conf", slurm_conf(layout, record))
    dbd = SLURMDBD_CONF.format(
        munge_socket=layout.munge_socket, run=layout.run, dbd_port=ports["slurmdbd"]
    )
    _write(f"{etc}/slurmdbd.conf", dbd, 0o600)
    _write(f"{etc}/plugstack.conf", f"include {layout.plugstack_dir}/*.conf\n")
    lines = "".join(f"{line}\n" for line in settings.plugstack)
    _write(f"{layout.plugstack_dir}/devcluster.conf", lines)
    if not layout.munge_key.exists():
        handle = os.open(layout.munge_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(1024))
