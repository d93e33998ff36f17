// Each incident is one record, first cause first (law 7): whole clusters in virtual time.

import test from "ava";
import type { IncidentRecord } from "../../../actors/run/state/incident-record.ts";
import type { RunEvent } from "../../../actors/run/state/run-events.ts";
import { RunRecord } from "../../../actors/run/state/run-record.ts";
import type { SimulatedCluster } from "../../../chaos/simulation/cluster.ts";
import { jobs } from "../../../chaos/simulation/jobs.ts";
import { PeerLostError, recordError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { loseThread, storyOf } from "../../helpers/simulated.ts";
import { thinned } from "../../helpers/thinned.ts";

/** Runs the first job on three hosts, and injects a fault at its first checkpoint. */
async function incidentsOf(
  breakIt: (cluster: SimulatedCluster) => void,
): Promise<readonly IncidentRecord[]> {
  return (await storyOf(0, { devices: [1, 1, 1], breakIt })).result.incidents;
}

const causes: readonly {
  readonly what: string;
  readonly breakIt: (cluster: SimulatedCluster) => void;
  readonly cause: Partial<IncidentRecord>;
  readonly code: string;
}[] = [
  {
    what: "a device of another host is gone",
    breakIt: (cluster) => loseThread(cluster, "device-2"),
    cause: { offender: "device:2", supervisor: "host:2", host: 2, noticedBy: undefined },
    code: "PEER_LOST",
  },
  {
    what: "a device of another host stands still: its peers only noticed",
    breakIt: (cluster) => {
      cluster.threads.running.find(({ name }) => name.endsWith("/device-2"))?.stop();
    },
    cause: { offender: "device:2", context: "device.run to step 6" },
    code: "STEP_TIMEOUT",
  },
  {
    what: "a bridge is gone",
    breakIt: (cluster) => loseThread(cluster, "bridge-1"),
    cause: { offender: "bridge:1", supervisor: "host:1" },
    code: "PEER_LOST",
  },
  {
    what: "a whole host is gone",
    // Kills the process of device:1; each host has one device.
    breakIt: (cluster) => {
      const device = cluster.threads.running.find(({ name }) => name.endsWith("/device-1"));
      cluster.kill(Number(/^host(\d)/.exec(device?.name ?? "")?.[1]));
    },
    cause: { offender: "host:1" },
    code: "PEER_LOST",
  },
];

for (const { what, breakIt, cause, code } of thinned("causes of an incident", causes, 2)) {
  test.serial(`an incident is one record that begins with its first cause: ${what}`, async (t) => {
    const [incident, ...others] = await incidentsOf(breakIt);
    t.is(others.length, 0);
    t.like(incident, {
      incident: 1,
      generation: 1,
      step: 3,
      batch: { pass: 0, index: 3 },
      ...cause,
    });
    t.is(incident?.error.code, code);
    const did = incident?.actions.map((action) => action.did.replace(/host:\d/g, "H")) ?? [];
    t.deepEqual(did, [
      "ended generation 1 on all hosts",
      "restarts the run after 50 ms",
      "allocated the devices: 1 of H, 1 of H, 1 of H",
      "claimed generation 2, from step 3",
    ]);
    t.like(incident?.end, { how: "restored", generation: 2, step: 3 });
    t.true((incident?.end?.afterMs ?? 0) >= (incident?.actions.at(-1)?.afterMs ?? 0));
  });
}

test.serial("later failures in a generation are consequences of its first one", (t) => {
  const events: RunEvent[] = [];
  const job = resolveJob(jobs[0]);
  const keeper = { keep() {} };
  const record = new RunRecord({ run: "r1", job }, (event) => events.push(event), keeper);
  const at = (seconds: number) => new Date(1000 * seconds);
  const lost = (offender: string) => {
    const reason = recordError(new PeerLostError(offender, "it ended"));
    return { offender, supervisor: "host:0", context: "device.run", reason };
  };
  record.fail(1, { ...lost("device:1"), noticedBy: "device:0" }, at(1));
  for (const one of ["bridge:1", "bridge:1", "device:0"]) record.fail(1, lost(one), at(2));
  record.incidents.act("job:r1", "ended generation 1", at(3));
  record.fail(2, lost("device:2"), at(4)); // A second failure before the recovery from the first.
  const none = { memoryBytes: 0, storeBytes: 0, keptBytes: 0 };
  record.recovered(3, { fromStep: 10, seconds: 4, ...none }, at(5));
  t.deepEqual(
    events.map(({ type }) => type),
    ["run.incident", "run.incident", "run.recovered"],
  );
  const [first, second] = record.incidents.all();
  t.deepEqual(
    first?.followed.map(({ actor, afterMs }) => [actor, afterMs]),
    [["bridge:1", 1000]],
  );
  t.deepEqual(first?.actions, [{ by: "job:r1", did: "ended generation 1", afterMs: 2000 }]);
  t.like(first?.end, { how: "restored", generation: 3, step: 10, afterMs: 4000 });
  t.like(second, { incident: 2, offender: "device:2", end: { afterMs: 1000 } });

  const successor = new RunRecord({ run: "r1", job }, () => {}, keeper);
  for (const event of events) successor.restore({ kind: "event", run: "r1", event });
  t.deepEqual(successor.incidents.all(), record.incidents.all(), "the journal has all incidents");
});

test.serial("a reader that is replaced is an incident that ended at once", async (t) => {
  const [incident, ...others] = await incidentsOf((cluster) => loseThread(cluster, "reader-1"));
  t.is(others.length, 0);
  t.like(incident, { offender: "reader:1", host: 1, end: { how: "mended", generation: 1 } });
  t.is(incident?.actions.length, 1);
});
