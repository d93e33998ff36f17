#!/bin/sh
# Submits a job to a cluster and follows it to its end, with only the `nats` command line.
#
#   osiris up
#   NATS_URL=nats://127.0.0.1:4222 NATS_USER=$(cat TOKEN_FILE) sh examples/submit-job.sh JOB.json
#
# `osiris up` prints the path of the token file. The `nats` client takes a user without a password
# as a token, and reads both variables from the environment, so that the list of processes does not
# show them. In a cluster with tenants, the subjects are osiris.c1.jobs.<tenant>.<method>.
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

# Events are numbered: each request returns those after the last one seen. (To subscribe instead of
# polling: nats sub "osiris.c1.runs.$run.events" --raw)
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
