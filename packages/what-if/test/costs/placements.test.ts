// The costs of each placement of a job, on kinds of machines of the Zion paper.

import test from "ava";
import { type JobOptions, planJob, resolveJob } from "../../../../internal.ts";
import { costsOfCluster } from "../../costs/costs-of-cluster.ts";
import { constantsOf } from "../../hardware/constants-of.ts";
import { readHardware } from "../../hardware/read-hardware.ts";

function jobOf(placement: NonNullable<JobOptions["placement"]>) {
  const tables = Array.from({ length: 12 }, (_, i) => {
    return { name: `T${i}`, rows: i === 0 ? 10_000 : 4_000_000, dim: 64, rowBlocks: 8 };
  });
  return resolveJob({
    model: { kind: "dlrm", dense: 800, tables, bottom: [512, 64], top: [512, 1] },
    data: { kind: "synthetic", samples: 1e6, dense: 800, batchSize: 1600, idsPerBag: 20 },
    tiers: { hbmBytes: 2 ** 28 },
    ...{ placement, slices: 16 },
  });
}

test("each placement is costed on each kind of machine; servers run no samples", (t) => {
  for (const [name, devices] of [
    ["zion", { hosts: 2, perHost: 8 }],
    ["big-basin", { hosts: 2, perHost: 8 }],
    ["cpu-ps", { hosts: 16, perHost: 1 }],
  ] as const) {
    const hardware = readHardware(name);
    const constants = constantsOf(hardware, devices);
    for (const placement of [
      { kind: "auto" },
      { kind: "host" },
      { kind: "servers", servers: 8 },
      { kind: "hybrid", servers: 8 },
    ] as const) {
      const job = jobOf(placement);
      const what = `${name}, ${placement.kind}`;
      const found = planJob(job, { devices, constants });
      if (!found.isFeasible) return t.fail(what);
      const { classes } = costsOfCluster(job, found.plan, hardware, devices);
      const rows = classes.filter(({ tasks }) => (tasks.lookup?.seconds ?? 0) > 0);
      const dense = classes.filter(({ tasks }) => (tasks.forwardEarly?.seconds ?? 0) > 0);
      const ranksOf = (own: typeof classes) => new Set(own.flatMap(({ ranks }) => ranks));
      const isBeside = "servers" in placement;
      const trainers = isBeside ? 8 : 16;
      t.deepEqual(
        [...ranksOf(dense)].every((rank) => rank < trainers),
        true,
        what,
      );
      t.is(ranksOf(dense).size, trainers, what);
      const isOnServers = rows.length > 0 && [...ranksOf(rows)].every((rank) => rank >= 8);
      t.is(isOnServers, placement.kind === "servers", what);
      // Only the placement `host` has rows in host memory.
      const host = classes.reduce((sum, { memory }) => sum + memory.host, 0);
      t.is(host > 0, placement.kind === "host", what);
      if (isBeside)
        t.true(
          dense.every(({ received }) => (received.pooled?.across ?? 0) > 0),
          what,
        );
    }
  }
});
