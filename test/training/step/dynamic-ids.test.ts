// Training with dynamic ids: it gives the bits of a job whose ids are mapped to rows by hand, on
// any devices and tiers and at any depth; and rows are reinitialised once their ids are evicted.

import test from "ava";
import { type DynamicSpec, dynamicOptions } from "../../../src/embedding/tables/dynamic-options.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { keyOf, purposes } from "../../../src/ports/random.ts";
import { partsNeeded, restorePart } from "../../../src/training/checkpoint/parts.ts";
import type { TopologyInput } from "../../../src/training/topology/topology.ts";
import {
  bagsOf,
  batches,
  batchOf,
  heldOut,
  inputOf,
  recipe,
  samples,
  seed,
  steps,
  tables,
} from "../../helpers/batches/dynamic-scene.ts";
import { PlainIds } from "../../helpers/batches/plain-ids.ts";
import { withRepeatedLists } from "../../helpers/batches/repeated-lists.ts";
import { startLocalDevices, type WholeBatch } from "../../helpers/devices/local-devices.ts";
import { bytesOfParts } from "../../helpers/devices/parts.ts";
import { trainPiped } from "../../helpers/devices/piped-training.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const usual = () => openKernels("auto");

/** The result of a run in memory on one device. */
const expected = (async () => {
  const local = start(inputOf(tables), 1);
  const losses: number[] = [];
  for (const [step, batch] of batches.entries()) losses.push(await local.train(batch, step));
  const { logits } = await local.evaluate(heldOut);
  return { local, losses, scores: [...logits], digest: await local.digest() };
})();

function start(input: TopologyInput, devices: number, kernels: () => Kernels = usual) {
  return startLocalDevices({ input, recipe, devices, kernels });
}

const plainOf = (table: Partial<TableOptions>, at: number, dynamic: DynamicSpec) =>
  new PlainIds({ rows: 24, rowBlocks: Number(table.rowBlocks ?? 1) }, dynamic, {
    key: keyOf(seed),
    purpose: purposes.admission + at,
  });

for (const kernels of ["reference", "native"] as const) {
  test(`ids with rows assigned on the way train like rows assigned by hand: ${kernels}`, async (t) => {
    // Without eviction: when mapped by hand, a row reassigned to a second id would be another row.
    const never = tables.map((table) => ({
      ...table,
      dynamic: { ...table.dynamic, everySteps: 99 },
    }));
    const byHand = tables.map(({ dynamic: _, ...table }) => table);
    const plain = never.map((table, i) => plainOf(table, i, dynamicOptions.parse(table.dynamic)));
    const input = inputOf(never);
    const ids = start(input, 3, () => openKernels(kernels));
    const rows = start(inputOf(byHand), 1, () => openKernels(kernels));
    for (let step = 0; step < steps; step++) {
      const bags = bagsOf[step] ?? [];
      const asRows = bags.map((feature, i) => {
        const found = plain[i]?.look(step, feature.flat()) ?? [];
        let next = 0;
        return feature.map((bag) => bag.flatMap(() => BigInt(found[next++] ?? -1)));
      });
      const left = asRows.map((feature) => feature.map((bag) => bag.filter((row) => row >= 0n)));
      t.is(await ids.train(batchOf(step, bags), step), await rows.train(batchOf(step, left), step));
    }
    const counts = input.model.tables.map((_, table) => {
      const own = ids.states.flatMap((state) =>
        state.ids.filter((one) => one?.shard.table === table),
      );
      return own.map((one) => one?.counts ?? { admitted: 0, evicted: 0, dropped: 0 });
    });
    for (const [i, own] of counts.entries()) {
      const sum = (name: "admitted" | "dropped") => own.reduce((all, one) => all + one[name], 0);
      t.like(plain[i]?.counts, { admitted: sum("admitted"), dropped: sum("dropped"), evicted: 0 });
      t.true(sum("dropped") > 0, "some ids have no row");
    }
  });
}

test("eviction steps have the same result on any devices and sharding", async (t) => {
  const { local, digest, losses } = await expected;
  for (const [i, own] of (local.states[0]?.ids ?? []).entries()) {
    t.true((own?.counts.evicted ?? 0) > 0, `table ${i}`);
    t.true((own?.counts.dropped ?? 0) > 0, `table ${i}`);
  }
  for (const devices of [1, 2, 3]) {
    for (const sharding of ["table-wise", "row-wise"] as const) {
      const cut = start(inputOf(tables.map((table) => ({ ...table, sharding }))), devices);
      for (const [step, batch] of batches.entries())
        t.is(await cut.train(batch, step), losses[step] ?? Number.NaN);
      t.is(await cut.digest(), digest, `${devices} devices, ${sharding}`);
    }
  }
});

test("the reference kernels train the same bits on any devices and tiers", async (t) => {
  const digests = new Set<string>();
  for (const tier of ["memory", "cached"] as const) {
    for (const devices of [1, 2]) {
      const tiers = tiersOptions.parse({ hbmBytes: 1 });
      const own = tables.map((table) => ({ ...table, tier, sharding: "row-wise" as const }));
      const local = start(inputOf(own, { tiers }), devices, () => openKernels("reference"));
      for (const [step, batch] of batches.entries()) await local.train(batch, step);
      digests.add(await local.digest());
    }
  }
  t.is(digests.size, 1);
});

test("any depth, tier and prefetch, and a pause, give the same table", async (t) => {
  const { losses, scores, digest } = await expected;
  const run = { recipe, batches, heldOut, window: 7, kernels: usual };
  const all = [1, 2, 3];
  const depths = [1, 2, 3] as const;
  for (const depth of depths) {
    for (const devices of someOrAll("devices of a depth", [1 + (depth % 3)], all)) {
      const input = inputOf(tables.map((table) => ({ ...table, sharding: "row-wise" as const })));
      const piped = await trainPiped({ ...run, input, devices, depth, seed: depth });
      t.like(piped, { losses, scores, digest, error: undefined }, `${devices}, depth ${depth}`);
    }
  }
  for (const prefetch of [0, 1, 4]) {
    const tiers = tiersOptions.parse({ hbmBytes: 1, prefetch, policy: "lfu" });
    const cached = tables.map((table) => ({ ...table, tier: "cached" as const }));
    for (const [at, pauseAt] of [undefined, 3, 4].entries()) {
      const some = [1 + ((prefetch + at) % 3)];
      for (const devices of someOrAll("devices of a pause", some, all)) {
        const more = pauseAt === undefined ? {} : { pauseAt };
        const input = inputOf(cached, { tiers });
        const piped = await trainPiped({
          ...run,
          ...more,
          input,
          devices,
          depth: 3,
          seed: prefetch,
        });
        t.like(
          piped,
          { losses, scores, digest, error: undefined },
          `${devices}, ${prefetch} ahead`,
        );
      }
    }
  }
});

for (const cut of [4, 6, 9, 10]) {
  test(`a run resumes from a cut at step ${cut}, on other devices and tiers`, async (t) => {
    const { digest } = await expected;
    const before = start(inputOf(tables.map((table) => ({ ...table, sharding: "row-wise" }))), 3);
    for (let step = 0; step < cut; step++) await before.train(batches[step] as WholeBatch, step);
    const parts = await bytesOfParts(before.states);
    const cached = tables.map((table) => ({ ...table, tier: "cached" as const }));
    const tiers = tiersOptions.parse({ hbmBytes: 1 });
    const after = start(inputOf(cached, { tiers }), 2);
    for (const state of after.states) {
      for (const name of partsNeeded(state, [...parts.keys()])) {
        await restorePart(state, name, [[parts.get(name) ?? Buffer.alloc(0)]]);
      }
    }
    t.is(await after.digest(), await before.digest());
    for (let step = cut; step < steps; step++) await after.train(batches[step] as WholeBatch, step);
    t.is(await after.digest(), digest);
  });
}

for (const tier of ["memory", "cached"] as const) {
  test(`a row whose id was evicted starts as if never used: ${tier}`, async (t) => {
    const dynamic = { eviction: { kind: "age" as const, steps: 1 }, everySteps: 2 };
    const table = { rows: 4, dynamic, idBits: 64 as const, tier, precision: "bfloat16" as const };
    const tiers = tiersOptions.parse({ hbmBytes: 1 });
    const input = { ...inputOf([table, table], { tiers }), idsMax: [1, 1] };
    const batchWith = (id: bigint) => {
      return batchOf(
        0,
        [0, 1].map(() => Array.from({ length: samples }, () => [id])),
      );
    };
    const used = start(input, 1);
    await used.train(batchWith(5n), 0);
    await used.train(batchWith(0n), 1);
    const dense = (await bytesOfParts(used.states)).get("dense") ?? Buffer.alloc(0);
    await used.train(batchWith(6n), 2);
    // A fresh device with the same dense weights, and no row or id from before.
    const fresh = start(input, 1);
    for (const state of fresh.states) await restorePart(state, "dense", [[dense]]);
    await fresh.train(batchWith(6n), 2);
    t.deepEqual(used.states[0]?.ids[0]?.counts, { admitted: 3, evicted: 1, dropped: 0 });
    t.not(await used.digest(), await fresh.digest(), "id 0 keeps its row");
    const [own, other] = [await rowsOf(used), await rowsOf(fresh)];
    t.deepEqual(own.get(0), other.get(0));
    t.is(own.size, 2);
  });
}

/** The initialised rows of the first table, with their state. */
async function rowsOf({ states }: ReturnType<typeof start>) {
  const rows = new Map<number, readonly number[]>();
  for await (const chunk of states[0]?.slab.records(0) ?? []) {
    for (const [i, row] of chunk.rows.entries()) {
      rows.set(row, [
        ...chunk.weights.subarray(6 * i, 6 * i + 6),
        ...chunk.state.subarray(12 * i, 12 * i + 12),
      ]);
    }
  }
  return rows;
}

test("dynamic ids of deduplicated lists train the same bits on any devices, through tiers", async (t) => {
  const ikjt = [[0], [1, 2]];
  const repeated = batches.map((batch, step) => withRepeatedLists(batch, ikjt, step));
  const train = async (input: TopologyInput, devices: number, kernels?: () => Kernels) => {
    const local = start({ ...input, ikjt }, devices, kernels);
    const losses: number[] = [];
    for (const [step, batch] of repeated.entries()) losses.push(await local.train(batch, step));
    return { losses, digest: await local.digest() };
  };
  const wanted = await train(inputOf(tables), 1);
  const rowWise = tables.map((table) => ({ ...table, sharding: "row-wise" }) as const);
  const cached = rowWise.map((table) => ({ ...table, tier: "cached" }) as const);
  const tiers = tiersOptions.parse({ hbmBytes: 1, ddrBytes: 1 });
  for (const devices of [2, 3]) {
    t.deepEqual(await train(inputOf(rowWise), devices), wanted);
    t.deepEqual(await train(inputOf(cached, { tiers }), devices), wanted);
  }
});
