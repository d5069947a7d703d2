"""The configuration of a Slurm on one machine, for releases old and new."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.e2e.processes import free_port

NODE_LOST_S: Final = 10
"""A node that is silent for so long is down. Slurm's own default is five minutes."""
KILL_WAIT_S: Final = 20
"""From SIGTERM to SIGKILL; Slurm's own default is 30."""

_TEMPLATE: Final = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={here}/munge.sock,cred_expire=5
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={here}/state/jwt_hs256.key
SlurmctldPort={port}
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool-%n
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd-%n.pid
SlurmctldLogFile={here}/log/slurmctld.log
SlurmdLogFile={here}/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=100000
KillWait={kill_wait_s}
OverTimeLimit=0
MinJobAge=300
SlurmdTimeout={node_lost_s}
SlurmctldTimeout=10
InactiveLimit=0
MailProg=/bin/true
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
{ports}
PartitionName=gpu Nodes={nodes} Default=YES MaxTime=1-00:00:00 DefaultTime=00:10:00 \
State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high Nodes={nodes} MaxTime=1:00:00 State=UP PriorityTier=10 PreemptMode=OFF
{by_release}
"""


def text(folder: Path, nodes: Sequence[str], *, is_old: bool) -> str:
    """Return slurm.conf for a Slurm in *folder*; the same wish has two spellings."""
    host = os.uname().nodename.partition(".")[0]
    ports = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()}"
        " CPUs=8 RealMemory=8000 Gres=gpu:h200:2 State=UNKNOWN"
        for node in nodes
    )
    old, new = "SlurmctldParameters=preempt_send_user_signal", "PreemptParameters=send_user_signal"
    return _TEMPLATE.format(
        here=folder,
        host=host,
        port=free_port(),
        kill_wait_s=KILL_WAIT_S,
        node_lost_s=NODE_LOST_S,
        nodes=",".join(nodes),
        ports=ports,
        by_release=old if is_old else new,
    )
