#!/bin/sh
# Submits a job to a cluster and follows it to its end, with the `nats` command line alone.
#
#   osiris up
#   NATS_URL=nats://127.0.0.1:4222 NATS_USER=$(cat TOKEN_FILE) sh examples/submit-job.sh JOB.json
#
# `osiris up` names the file. The client takes a lone user for a token, and both from the environment,
# where the list of processes does not show them. Where the cluster has tenants, the subjects are
# osiris.c1.jobs.<tenant>.<method>.
set -eu

job=$(cat "$1")
key="$(hostname)-$$-$(date +%s)"

submitted=$(nats request osiris.c1.jobs.submit "{\"job\": $job, \"key\": \"$key\"}" --raw)
run=$(printf '%s' "$submitted" | sed -n 's/.*"run":"\([^"]*\)".*/\1/p')
if [ -z "$run" ]; then
  printf '%s\n' "$submitted" >&2
  exit 1
fi
echo "submitted $run"

# Events are numbered: those since the last one that was seen are asked for. (Who would rather be told
# than ask: nats sub "osiris.c1.runs.$run.events" --raw)
since=0
while :; do
  page=$(nats request osiris.c1.jobs.events "{\"run\": \"$run\", \"since\": $since}" --raw)
  last=$(printf '%s' "$page" | grep -o '"seq":[0-9]*' | tail -n 1 | cut -d : -f 2 || true)
  if [ -n "$last" ]; then
    printf '%s\n' "$page"
    since=$((last + 1))
  fi
  case $page in
    *'"type":"run.finished"'*) exit 0 ;;
    *'"type":"run.failed"'*) exit 1 ;;
  esac
  sleep 1
done
