// The bytes of each channel, against the parts of all-to-alls that the topology of a run has.

import test from "ava";
import { type ChannelName, type JobOptions, type Plan, resolveJob } from "../../../../internal.ts";
import { assessPlan } from "../../../../src/planner/assess.ts";
import { place } from "../../../../src/planner/placement.ts";
import { schemeOf } from "../../../../src/planner/shards.ts";
import { exchangeShapeOf } from "../../../../src/training/topology/exchange-shape.ts";
import { topologyOf } from "../../../../src/training/topology/topology.ts";
import { near } from "../../../../test/helpers/stores/plans.ts";
import { costedCluster } from "../../costs/costed-job.ts";
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

const rowWise = { sharding: "row-wise", rowBlocks: 8 };

const cases: readonly [title: string, table: object, options?: Partial<JobOptions>][] = [
  ["whole tables", {}],
  ["tables cut by rows", rowWise],
  ["tables cut by rows on one host each", { sharding: "table-row-wise", rowBlocks: 2 }],
  ["tables cut by columns", { sharding: "column-wise" }],
  ["fewer bits", rowWise, { exchange: { forward: "int8", backward: "bfloat16" } }],
  ["stale tables", { ...rowWise, staleness: 1 }, { mode: "bounded" }],
  ["tables that are read ahead", {}, { pipeline: { ahead: 1 } }],
  ["distinct rows", { dedup: true }],
];

/** Eight slices and row blocks divide unequally among the devices of the first and last cluster. */
const clusters = [
  { hosts: 1, perHost: 3 },
  { hosts: 2, perHost: 2 },
  { hosts: 2, perHost: 3 },
];

const vectorChannels = [
  ...(["pooled", "partials", "stalePooled", "stalePartials"] as const),
  ...(["dPooled", "dPartials"] as const),
];

const none = { inside: 0, across: 0 };

for (const [title, table, options] of cases) {
  test(`${title}: each device sends and receives the bytes of a run`, (t) => {
    for (const devices of clusters) {
      const { hosts, perHost } = devices;
      const W = hosts * perHost;
      const job = jobOf(table, options);
      const spec = job.model.tables.map((own) => ({ ...own, scheme: schemeOf(own), cost: 1 }));
      const plan: Plan = place(spec, devices);
      const zionex = readHardware("zionex");
      const { classes } = costsOfCluster(job, plan, zionex, devices);
      const ranks = classes.flatMap((one) => one.ranks);
      t.deepEqual(
        ranks.sort((a, b) => a - b),
        [...Array(W).keys()],
      );
      const hostOf = Array.from({ length: W }, (_, rank) => Math.floor(rank / perHost));
      const idsMax = new Array<number>(tables).fill(bag);
      const { bytesMax } = exchangeShapeOf(
        topologyOf(
          {
            ...{ model: job.model, batchSize: 88, slices: 8, plan, exchange: job.exchange, idsMax },
            ahead: job.pipeline.ahead,
          },
          W,
          hostOf,
        ),
      );
      /** The sum of `part` over the other devices of the host, and over devices of other hosts. */
      const bytesOf = (rank: number, part: (other: number) => number) => {
        const sum = { ...none };
        for (const [other, host] of hostOf.entries()) {
          if (other !== rank) sum[host === hostOf[rank] ? "inside" : "across"] += part(other);
        }
        return sum;
      };
      // Room for ids is not exact for shards of some rows, nor for distinct rows.
      const isWhole = plan.shards.every(({ scheme }) => !scheme.includes("row"));
      const exact: readonly ChannelName[] =
        isWhole && title !== "distinct rows" ? ["ids", ...vectorChannels] : vectorChannels;
      const all = new Map<string, number>();
      for (const { ranks: own, sent, received } of classes) {
        for (const [channel, { inside, across }] of Object.entries(sent)) {
          all.set(channel, (all.get(channel) ?? 0) + own.length * (inside + across));
        }
        for (const [channel, { inside, across }] of Object.entries(received)) {
          if (channel === "losses") continue; // Sent once to each other host.
          all.set(channel, (all.get(channel) ?? 0) - own.length * (inside + across));
        }
        for (const rank of own) {
          for (const channel of exact) {
            const part = bytesMax[channel];
            const at = `${channel} of ${rank} of ${hosts} x ${perHost}`;
            t.deepEqual(
              sent[channel] ?? none,
              bytesOf(rank, (to) => part(rank, to)),
              at,
            );
            t.deepEqual(
              received[channel] ?? none,
              bytesOf(rank, (from) => part(from, rank)),
              at,
            );
          }
          const toOne = bytesMax.losses(rank, 0);
          t.is(sent.losses?.inside, (perHost - 1) * toOne);
          t.is(sent.losses?.across, (hosts - 1) * toOne);
        }
      }
      all.delete("losses");
      for (const [channel, lost] of all) t.true(Math.abs(lost) < 1e-6, `${channel}: ${lost}`);
      const isSent = (channel: ChannelName) => bytesMax[channel](0, 1) > 0;
      for (const channel of ["rows", "dRows", "deferred"] as const) {
        t.is(
          classes.some(({ sent }) => sent[channel] !== undefined),
          isSent(channel),
          channel,
        );
      }
    }
  });
}

test("ids and dense gradients are those of the planner's traffic", (t) => {
  const devices = { hosts: 2, perHost: 2 };
  const zionex = readHardware("zionex");
  for (const [, table, options] of cases.slice(0, 4)) {
    const job = jobOf(table, options);
    const spec = job.model.tables.map((own) => ({ ...own, scheme: schemeOf(own), cost: 1 }));
    const plan = place(spec, devices);
    const { setting } = costedCluster(job, plan, { hardware: zionex, devices });
    const { traffic } = assessPlan(setting, plan);
    const { classes } = costsOfCluster(job, plan, zionex, devices);
    const sumOf = (channel: "ids" | "gradients") =>
      classes.reduce((sum, { ranks, sent }) => {
        const { inside, across } = sent[channel] ?? none;
        return sum + ranks.length * (inside + across);
      }, 0);
    const headers = 8 * 4 * 3; // One frame from each device to each other.
    near(t, sumOf("ids") - headers, traffic.input);
    near(t, sumOf("gradients"), traffic.dense);
  }
});
