// The bytes of each channel, against the parts of all-to-alls that the topology of a run has.

import test from "ava";
import { type ChannelName, type JobOptions, type Plan, resolveJob } from "../../../../internal.ts";
import { place } from "../../../../src/planner/placement.ts";
import { schemeOf } from "../../../../src/planner/shards.ts";
import { exchangeShapeOf } from "../../../../src/training/topology/exchange-shape.ts";
import { topologyOf } from "../../../../src/training/topology/topology.ts";
import { costsOfCluster } from "../../costs/costs-of-cluster.ts";
import { readHardware } from "../../hardware/read-hardware.ts";

const tables = 8;
const bag = 4;

/** A job whose bags all have the same length, so that the room for ids is their number. */
function jobOf(table: object, options: Partial<JobOptions> = {}) {
  const all = Array.from({ length: tables }, (_, i) => ({
    name: `T${i}`,
    rows: 4000,
    dim: 64,
    ...table,
  }));
  return resolveJob({
    model: { kind: "dlrm", dense: 5, tables: all, bottom: [16, 64], top: [16, 1] },
    data: { kind: "synthetic", samples: 1000, dense: 5, batchSize: 88, idsPerBag: bag },
    slices: 8,
    ...options,
  });
}

const cases: readonly [title: string, table: object, options: Partial<JobOptions>][] = [
  ["table-wise", {}, {}],
  ["row-wise", { sharding: "row-wise", rowBlocks: 8 }, {}],
  ["table-row-wise", { sharding: "table-row-wise", rowBlocks: 2 }, {}],
  ["column-wise", { sharding: "column-wise" }, {}],
  [
    "row-wise in fewer bits",
    { sharding: "row-wise", rowBlocks: 8 },
    { exchange: { forward: "int8", backward: "bfloat16" } },
  ],
  ["stale row-wise", { sharding: "row-wise", rowBlocks: 8, staleness: 1 }, { mode: "bounded" }],
];

for (const [title, table, options] of cases) {
  for (const [hosts, perHost] of [
    [1, 4],
    [2, 2],
    [2, 3], // Of eight slices, two devices have two.
  ] as const) {
    test(`${title} on ${hosts} hosts of ${perHost}: vectors and losses of each device as in a run`, (t) => {
      const job = jobOf(table, options);
      const W = hosts * perHost;
      const devices = { hosts, perHost };
      const spec = job.model.tables.map((own) => ({ ...own, scheme: schemeOf(own), cost: 1 }));
      const plan: Plan = place(spec, devices);
      const { classes } = costsOfCluster(job, plan, readHardware("zionex"), devices);
      t.deepEqual(
        classes.flatMap(({ ranks }) => ranks).sort((a, b) => a - b),
        [...Array(W).keys()],
      );
      const input = {
        ...{ model: job.model, batchSize: 88, slices: 8, plan, exchange: job.exchange },
        idsMax: new Array<number>(tables).fill(bag),
      };
      const hostOf = Array.from({ length: W }, (_, rank) => Math.floor(rank / perHost));
      const { bytesMax } = exchangeShapeOf(topologyOf(input, W, hostOf));
      const exact: readonly ChannelName[] = [
        ...(["pooled", "partials", "stalePooled", "stalePartials"] as const),
        ...(["dPooled", "dPartials"] as const),
        // Shards of some rows have room for all ids.
        ...(title === "table-wise" || title === "column-wise" ? (["ids"] as const) : []),
      ];
      for (const { ranks, sent, received } of classes) {
        for (const rank of ranks) {
          for (const channel of exact) {
            const sum = (isIn: boolean, bytes: (other: number) => number) =>
              hostOf.reduce((all, host, other) => {
                const counts = other !== rank && (host === hostOf[rank]) === isIn;
                return counts ? all + bytes(other) : all;
              }, 0);
            const bytesOf = (bytes: (other: number) => number) => {
              return { inside: sum(true, bytes), across: sum(false, bytes) };
            };
            const none = { inside: 0, across: 0 };
            const part = bytesMax[channel];
            t.deepEqual(
              sent[channel] ?? none,
              bytesOf((to) => part(rank, to)),
              `${channel} of ${rank}`,
            );
            t.deepEqual(
              received[channel] ?? none,
              bytesOf((from) => part(from, rank)),
              `${channel} to ${rank}`,
            );
          }
          const { losses } = bytesMax;
          t.is(sent.losses?.inside, (perHost - 1) * losses(rank, 0));
          t.is(sent.losses?.across ?? 0, (hosts - 1) * losses(rank, 0));
        }
      }
    });
  }
}
