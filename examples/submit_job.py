"""Submits a job to a cluster and follows it to its end, in plain Python: `pip install nats-py`.

    osiris up
    OSIRIS_TOKEN_FILE=... python3 examples/submit_job.py [JOB.json]     # `osiris up` names the file

Requests and events are JSON: docs/wire.md has them.
"""

import asyncio
import json
import os
import sys
import uuid

import nats
from nats.errors import TimeoutError

SERVER = os.environ.get("OSIRIS_NATS", "nats://127.0.0.1:4222")
JOBS = "osiris.c1.jobs"  # osiris.c1.jobs.<tenant> where the cluster has tenants

EXAMPLE = {
    "name": "from-python",
    "model": {
        "kind": "dlrm",
        "dense": 4,
        "tables": [{"name": name, "rows": 1000, "dim": 8} for name in ("user", "item")],
        "bottom": [16, 8],
        "top": [32, 1],
    },
    "data": {"kind": "synthetic", "samples": 20000, "dense": 4, "batchSize": 128},
    "evaluation": {"fraction": 0.1},
    "checkpoint": {"directory": "checkpoints/from-python"},
}


def token():
    if "OSIRIS_TOKEN_FILE" not in os.environ:
        return os.environ.get("OSIRIS_TOKEN")
    with open(os.environ["OSIRIS_TOKEN_FILE"]) as file:
        return file.read().strip()


async def ask(client, verb, body):
    """One request to the job service, and its answer."""
    reply = await client.request(f"{JOBS}.{verb}", json.dumps(body).encode(), timeout=5)
    answer = json.loads(reply.data)
    if "error" in answer and "status" not in answer:
        raise RuntimeError("{code}: {message}".format(**answer["error"]))
    return answer


async def follow(client, run, subject):
    """The events of a run, in order: what was missed is asked for. Numbers that the answer
    leaves out are nobody's (run.renumbered), or kept no more."""
    subscription = await client.subscribe(subject)
    seen = 0
    while True:
        for event in (await ask(client, "events", {"run": run, "since": seen}))["events"]:
            seen = event["seq"] + 1
            yield event
        while True:
            try:
                event = json.loads((await subscription.next_msg(timeout=1)).data)
            except TimeoutError:
                break
            if event["seq"] > seen:
                break  # One before it was lost.
            if event["seq"] == seen:
                seen += 1
                yield event


async def main():
    job = EXAMPLE
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as file:
            job = json.load(file)
    client = await nats.connect(SERVER, token=token())
    # With a key, a repeated submission after a lost answer does not start a second run.
    submitted = await ask(client, "submit", {"job": job, "key": uuid.uuid4().hex})
    print("submitted", submitted["run"])
    async for event in follow(client, submitted["run"], submitted["events"]):
        print(json.dumps(event))
        if event["type"] in ("run.finished", "run.failed"):
            break
    await client.close()
    return 0 if event["type"] == "run.finished" else 1


sys.exit(asyncio.run(main()))
