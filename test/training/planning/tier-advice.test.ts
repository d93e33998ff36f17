// A run's advice on its caches, against the hit rates of the caches: with their current memory, and
// with more.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { Zipf } from "../../../src/data/synthetic/zipf.ts";
import { curveWords } from "../../../src/embedding/rows/miss-curve.ts";
import { type TiersSpec, tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { cacheWays } from "../../../src/kernels/contract/row-cache.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { missRatioAt } from "../../../src/planner/cost/miss-curve.ts";
import type { PlacedShard } from "../../../src/planner/shards.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { addCurves, adviseTiers, writeCurves } from "../../../src/training/planning/tier-advice.ts";
import { topologyOf } from "../../../src/training/topology/topology.ts";
import { startLocalDevices, type WholeBatch } from "../../helpers/devices/local-devices.ts";

const batchSize = 800;
const rows = 6000;
const zipfs = [0.4, 0.6, 0.8];
const optimizer = optimizerOf({ kind: "sgd" }, { kind: "rowWiseAdagrad" });
/** Bytes of a row of 4 columns with its state, and of its slot. */
const placeBytes = 10 + 16 + 4;

function inputOf(tiers: TiersSpec) {
  const tables = zipfs.map((_, i) => {
    // The last table is cut by rows: the counts of its shards are reported for the table.
    const rowBlocks = i === 2 ? 2 : 1;
    return { name: `T${i}`, rows, dim: 4, tier: "cached", rowBlocks, sharding: "row-wise" };
  });
  const model = modelOptions.parse({ kind: "dlrm", dense: 1, tables, bottom: [4], top: [1] });
  return { model, batchSize, slices: 8, idsMax: zipfs.map(() => 1), tiers };
}

const samplers = zipfs.map((zipf) => new Zipf(rows, zipf));

/** Batches whose popular rows are scattered, so that they do not lie in one block. */
const batches = Array.from({ length: 40 }, (_, step): WholeBatch => {
  const stream = new RandomStream(3, 4, step);
  const ids = samplers.flatMap((sampler) =>
    Array.from({ length: batchSize }, () => {
      return (sampler.draw(() => stream.uniform()) * 2477) % rows;
    }),
  );
  return {
    samples: batchSize,
    dense: new Float32Array(batchSize),
    labels: new Float32Array(batchSize),
    lengths: new Int32Array(zipfs.length * batchSize).fill(1),
    ids: Int32Array.from(ids),
  };
});

/** Trains with this much memory; returns the hit ratio of each table, and the counts. */
async function train(hbmBytes: number) {
  const tiers = tiersOptions.parse({ hbmBytes, prefetch: 0 });
  const recipe = { optimizer, seed: 3 };
  const kernels = createReference;
  const local = startLocalDevices({ input: inputOf(tiers), recipe, devices: 2, kernels });
  for (const [step, batch] of batches.entries()) await local.train(batch, step);
  const sums = zipfs.map(() => ({ distinct: 0, missed: 0 }));
  for (const { shard, counts } of local.states.flatMap(({ slab }) => slab.cached)) {
    const sum = sums[shard.table];
    if (sum === undefined) throw new RangeError(`No table ${shard.table}`);
    sum.distinct += counts.distinct;
    sum.missed += counts.missed;
  }
  const words = local.states.map((state) => {
    const own = new Float64Array(zipfs.length * curveWords);
    writeCurves(state, own);
    return own;
  });
  return {
    hits: sums.map(({ distinct, missed }) => 1 - missed / distinct),
    curves: addCurves(words, zipfs.length),
    topology: local.topology,
  };
}

const trained = train(2 * 2000 * placeBytes);

test("hit rates equal the curves' predictions, with the present memory and with more", async (t) => {
  const much = 2 * 2700 * placeBytes;
  const [now, later] = [await trained, await train(much)];
  t.deepEqual(now.curves, later.curves); // Counts do not depend on the caches.
  const advised = adviseTiers(now.topology, optimizer.sparse, [now.curves]);
  t.deepEqual(
    advised.map(({ table }) => table),
    ["T0", "T1", "T2"],
  );
  const input = inputOf(tiersOptions.parse({ hbmBytes: much, prefetch: 0 }));
  const foretold = adviseTiers(topologyOf(input, 2), optimizer.sparse, [now.curves]);
  for (const i of zipfs.keys()) {
    const [expected = 0, expectedLater = 0] = [advised[i]?.now.hbm, foretold[i]?.now.hbm];
    t.true(Math.abs(expected - (now.hits[i] ?? 0)) < 0.03, `T${i}: ${expected}, ${now.hits[i]}`);
    const off = Math.abs(expectedLater - (later.hits[i] ?? 0));
    t.true(off < 0.03, `T${i} with more: ${expectedLater}, ${later.hits[i]}`);
    t.true(expectedLater > expected + 0.02, `T${i}: ${expected} to ${expectedLater}`);
  }
});

test("a run divides its caches as its plan says, and trains the same bits", async (t) => {
  const tiers = tiersOptions.parse({ hbmBytes: 4000 * placeBytes, prefetch: 0 });
  const train = async (sizes?: readonly number[]) => {
    const shards = zipfs.map((_, i): PlacedShard => {
      const tile = { firstBlock: 0, blocks: i === 2 ? 2 : 1, firstQuantum: 0, quanta: 1 };
      const cache = sizes && { hbmBytes: (sizes[i] ?? 0) * placeBytes, ddrBytes: 1 };
      return { ...tile, table: `T${i}`, scheme: "table-wise", tier: "cached", device: 0, cache };
    });
    const plan = { devices: { hosts: 1, perHost: 1 }, shards };
    const input = { ...inputOf(tiers), plan };
    const recipe = { optimizer, seed: 3 };
    const local = startLocalDevices({ input, recipe, devices: 1, kernels: createReference });
    for (const [step, batch] of batches.slice(0, 4).entries()) await local.train(batch, step);
    const cached = local.states.flatMap(({ slab }) => slab.cached);
    const places = cached.map(({ cache }) => cache.sets * cacheWays);
    return { places, digest: await local.digest() };
  };
  const ruled = await train();
  t.deepEqual(ruled.places, [992, 992, 992, 992]); // Each block of the last table is a shard.
  const planned = await train([320, 640, 3040]);
  t.deepEqual(planned.places, [320, 640, 1504, 1504]); // 1520 slots are 47.5 sets.
  const twice = await train([160, 320, 1520]);
  t.deepEqual(twice.places, planned.places); // Only the ratio of a plan's bytes counts.
  t.is(planned.digest, ruled.digest);
});

test("one more GiB of either tier holds all rows of small tables", async (t) => {
  const { topology, curves } = await trained;
  for (const { curve, accesses, rowBytes, now, moreHbm, moreDdr } of adviseTiers(
    topology,
    optimizer.sparse,
    [curves, curves], // The same counts from two hosts.
  )) {
    t.is(rowBytes, placeBytes);
    t.true(accesses > 2 * 30 * 400);
    const births = missRatioAt(curve, rows);
    t.is(moreHbm.hbm, 1 - births);
    t.is(moreHbm.hbmBytes, rows * placeBytes);
    for (const one of [now, moreHbm, moreDdr]) {
      t.is(one.ddrBytes, rows * placeBytes); // The default, a GiB, holds all rows.
      t.true(Math.abs(one.ssd - births) < 1e-12);
      t.true(Math.abs(one.hbm + one.ddr + one.ssd - 1) < 1e-12);
    }
  }
});
