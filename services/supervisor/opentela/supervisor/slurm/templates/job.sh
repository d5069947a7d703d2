#!/bin/bash
# The service @NAME@ of opentela, as `otela submit` wrote it.
# Each replica is a step of its own, so that the end of one ends no other.
set -u
otela=(@OTELA@)
service=@FOLDER@
here=$service/job-$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}
mkdir -p "$here"
# Slurm warns the steps; an old slurmrestd warns this script, too, which need not care.
trap : USR1 USR2 HUP
@PROLOGUE@

# What each task of a replica runs; the first one is watched and offered, others are its workers.
task=$(cat <<'TASK'
@TASK@
TASK
)

replicas=()
for ((replica = 0; replica < @REPLICAS@; replica++)); do
  OTELA_READY=$here/ready-$replica OTELA_REPLICA=$replica \
    srun @SRUN@ bash -c "$task" &
  replicas+=($!)
done
@KEEPER@
status=0
for replica in "${replicas[@]}"; do
  code=0
  # A signal interrupts `wait`; only the end of the step ends it.
  while kill -0 "$replica" 2>/dev/null; do
    wait "$replica"
    code=$?
  done
  if ((code)); then status=$code; fi
done
# Replicas that leave because the nodes are taken back leave a job that is to start again: it does
# if Slurm ends it, and does not if it ends by itself. To wait for the end of the grace helps nobody.
if [[ $(scontrol show job "$SLURM_JOB_ID" 2>/dev/null) == *PreemptTime=[0-9]* ]] &&
  scontrol requeue "$SLURM_JOB_ID"; then
  sleep infinity &
  wait $!
fi
echo "$status" >"$here/status"
if [[ -n ${keeper:-} ]]; then
  kill -TERM "$keeper" 2>/dev/null
  wait "$keeper"
fi
exit "$status"
