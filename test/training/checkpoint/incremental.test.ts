// Checkpoints that hold only changed rows (Check-N-Run, Eisenman et al., NSDI 2022): under every
// policy, plan and tier they restore the model of the cut, byte for byte; and the incrementally
// updated digest equals the digest of all rows.

import test, { type ExecutionContext } from "ava";
import { randomPlan } from "../../../bench/planner/random-plan.ts";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { SparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import { type TiersSpec, tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import type { Precision } from "../../../src/kernels/contract/precision.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import {
  adam,
  modelOptions,
  partialRowWiseAdam,
  rowWiseAdagrad,
} from "../../../src/model/options.ts";
import type { PlacedShard, Plan } from "../../../src/planner/shards.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import type { CheckpointSpec } from "../../../src/training/checkpoint/checkpoint-options.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createCutter, partsNeeded, restorePart } from "../../../src/training/checkpoint/parts.ts";
import type {
  CheckpointStore,
  Manifest,
} from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { needsBaseline } from "../../../storage/checkpoints/store/full-or-incremental.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { createSaving } from "../../../storage/checkpoints/store/part-writer.ts";
import { learnableBatch } from "../../helpers/batches/learnable-batch.ts";
import { type LocalDevices, startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { startObjects, startStoreInDirectory, testJob } from "../../helpers/stores/checkpoints.ts";
import { rounds } from "../../helpers/thinned.ts";

type Differential = CheckpointSpec["differential"];

const rows = [400, 130, 64];
const blocks = [8, 4, 1] as const;
const [samples, dense, dim] = [16, 3, 72];

interface Choice {
  readonly sparse?: SparseOptimizerOptions;
  readonly precision?: Precision;
}

function start(choice: Choice, plan: Plan, tiers: TiersSpec): LocalDevices {
  const { sparse = rowWiseAdagrad({ learningRate: 0.1 }), precision = "float32" } = choice;
  const tables = rows.map((count, i) => {
    return { name: `T${i}`, rows: count, dim, rowBlocks: blocks[i], initScale: 0.1, precision };
  });
  const model = modelOptions.parse({ kind: "dlrm", dense, tables, bottom: [8, dim], top: [8, 1] });
  return startLocalDevices({
    input: { model, batchSize: samples, slices: 8, idsMax: rows.map(() => 2), plan, tiers },
    recipe: {
      optimizer: optimizerOf({ kind: "adagrad" }, sparse),
      seed: 3,
    },
    devices: plan.devices.hosts * plan.devices.perHost,
    kernels: () => openKernels("auto"),
    hasIncrements: true,
  });
}

const names = rows.map((_, i) => ({ name: `T${i}`, dim, rowBlocks: blocks[i] ?? 1 }));

/** A random plan, with some of its sharded tables below memory, in caches of one set or more. */
function placeOf(stream: RandomStream, devices: number): { plan: Plan; tiers: TiersSpec } {
  const plan = randomPlan(names, devices, stream);
  const backing = rows.map(() => stream.below(2) > 0);
  const shards = plan.shards.map((shard): PlacedShard => {
    const isBelow = shard.device !== "all" && backing[Number(shard.table.slice(1))] === true;
    return { ...shard, tier: isBelow ? "cached" : "memory" };
  });
  const hbmBytes = stream.below(2) === 0 ? 1 : 60_000;
  return { plan: { ...plan, shards }, tiers: tiersOptions.parse({ hbmBytes }) };
}

/**
 * Begins a generation: restores the devices from the newest checkpoint. Returns, among others,
 * `save`, which commits a checkpoint of all devices.
 */
async function begin(store: CheckpointStore, differential: Differential, local: LocalDevices) {
  const { generation, latest, damaged } = store.beginGeneration();
  const restored = latest?.parts ?? [];
  for (const state of local.states) {
    if (latest === undefined) break;
    const given = restored.map(({ name }) => name);
    for (const name of partsNeeded(state, given)) {
      await restorePart(state, name, store.readFiles(latest, name));
    }
  }
  const tables = local.topology.input.model.tables;
  const about = { generation, owner: "d0", differential, manifest: latest };
  const saving = createSaving({ ...about, store });
  const cutters = local.states.map((state) => createCutter(state, { differential, restored }));
  let newest = latest;
  const save = async (cut: number, isBaseline = needsBaseline(differential, newest)) => {
    for (const part of cutters.flatMap((cutter) => cutter(isBaseline))) {
      saving.begin(cut, part.name, part.isWhole);
      for await (const bytes of part.bytes()) saving.write(bytes);
      saving.end(await part.leaves());
    }
    const parts = saving.finish();
    const leaves = new Map(parts.map((part) => [part.name, part.leaves]));
    newest = store.commit({
      ...{ run: "r1", generation, cut, metrics: null, position: null, best: false },
      parts: parts.map(({ leaves: _leaves, ...part }) => part),
      modelDigest: digestOf(leaves, tables),
      arithmetic: "any",
      createdBy: "test",
    });
    await store.collect({ generation, keep: 2 });
    return newest;
  };
  return { generation, latest, damaged, save };
}

async function train(local: LocalDevices, from: number, to: number): Promise<void> {
  for (let step = from; step < to; step++) {
    await local.train(learnableBatch({ samples, dense, rows }, step), step);
  }
}

const whole = placeOf(new RandomStream(1, 2, 3), 1);

/** The number of parts that hold only changed rows. */
function restedOf(manifest: Manifest | undefined): number {
  return (manifest?.parts ?? []).filter(({ base }) => base.length > 0).length;
}

/** Digests of the reference run after each of its steps. */
function digestsOf(choice: Choice): Promise<string[]> {
  const known = digests.get(choice) ?? undisturbed(choice);
  digests.set(choice, known);
  return known;
}

const digests = new Map<Choice, Promise<string[]>>();
const [cutSteps, cuts] = [2, 8];

async function undisturbed(choice: Choice): Promise<string[]> {
  const local = start(choice, { ...whole.plan, shards: inMemory(whole.plan) }, whole.tiers);
  const digests = [await local.digest()];
  for (let step = 0; step < cutSteps * cuts; step++) {
    await train(local, step, step + 1);
    digests.push(await local.digest());
  }
  return digests;
}

function inMemory(plan: Plan): PlacedShard[] {
  return plan.shards.map((shard) => ({ ...shard, tier: "memory" }));
}

const policies: readonly Differential[] = ["none", "one-shot", "consecutive", "intermittent"];

const choices: Record<string, Choice> = {
  "row-wise Adagrad": {},
  "partial row-wise Adam in int8": {
    sparse: partialRowWiseAdam({ learningRate: 0.01 }),
    precision: "int8",
  },
  "Adam in float16": { sparse: adam({ learningRate: 0.01 }), precision: "float16" },
};

/**
 * Cases that run on every change: each policy with one optimizer, and each optimizer with one
 * policy or two.
 */
const isUsual = (title: string, policy: number) =>
  policy % Object.keys(choices).length === Object.keys(choices).indexOf(title);

for (const [title, choice] of Object.entries(choices)) {
  for (const [policy, differential] of policies.entries()) {
    testIf(...(isUsual(title, policy) ? [] : [testAll]))(
      `${differential} checkpoints restore the model of their cut, and the run resumes: ${title}`,
      async (t) => {
        const expected = await digestsOf(choice);
        let rested = 0;
        for (let seed = 0; seed < rounds("seeds of incremental checkpoints", 2, 3); seed++) {
          const stream = new RandomStream(7, 3, seed);
          const { store } = seed % 2 === 0 ? startStoreInDirectory() : startObjects();
          let place = placeOf(stream, 1 + stream.below(3));
          for (let cut = 0; cut < cuts; ) {
            // Sometimes the same plan again, which continues with increments; sometimes another
            // plan.
            if (stream.below(2) === 0) place = placeOf(stream, 1 + stream.below(3));
            const local = start(choice, place.plan, place.tiers);
            const { latest, damaged, save } = await begin(store, differential, local);
            t.deepEqual(damaged, []);
            t.is(latest?.cut ?? 0, cut * cutSteps);
            t.is(
              await local.digest(),
              expected[cut * cutSteps] ?? "",
              `seed ${seed}, restored at ${cut}`,
            );
            rested += restedOf(latest);
            for (let left = 1 + stream.below(3); left > 0 && cut < cuts; left--) {
              await train(local, cut * cutSteps, (cut + 1) * cutSteps);
              cut++;
              const manifest = await save(cut * cutSteps);
              t.is(
                manifest.modelDigest,
                expected[cut * cutSteps] ?? "",
                `seed ${seed}, cut ${cut}`,
              );
              await store.verify(manifest);
            }
          }
        }
        t.is(rested > 3, differential !== "none", `${rested} parts were restored in layers`);
      },
    );
  }
}

/** The manifests of a run without failures. */
async function writesOf(differential: Differential): Promise<Manifest[]> {
  const store = openStore({ directory: "/run", disk: new SimulatedDisk(), ...testJob });
  const local = start({}, { ...whole.plan, shards: inMemory(whole.plan) }, whole.tiers);
  const { save } = await begin(store, differential, local);
  const manifests: Manifest[] = [];
  for (let step = 0; step < 12; step++) {
    await train(local, step, step + 1);
    manifests.push(await save(step + 1));
  }
  return manifests;
}

test("a part holds only the rows that changed, and rests on the files of its policy", async (t) => {
  const layersOf = (manifests: readonly Manifest[]) =>
    manifests.map(({ parts }) => Math.max(...parts.map(({ base }) => base.length)));
  const bytesOf = (manifest: Manifest | undefined) =>
    (manifest?.parts ?? []).reduce((sum, { bytes }) => sum + bytes, 0);
  const [none, oneShot, consecutive, intermittent] = await Promise.all(policies.map(writesOf));
  t.deepEqual(layersOf(none ?? []), Array(12).fill(0));
  t.deepEqual(layersOf(oneShot ?? []), [0, ...Array(11).fill(1)]);
  t.deepEqual(
    layersOf(consecutive ?? []),
    Array.from({ length: 12 }, (_, i) => i),
  );
  t.true((layersOf(intermittent ?? []).lastIndexOf(0) ?? 0) > 0, "a later cut is a baseline");
  t.true(bytesOf(consecutive?.at(-1)) < bytesOf(oneShot?.at(-1)));
  t.true(bytesOf(oneShot?.at(-1)) < bytesOf(none?.at(-1)));
});

test("parts that did not change are not written again", async (t: ExecutionContext) => {
  const store = openStore({ directory: "/run", disk: new SimulatedDisk(), ...testJob });
  const local = start({}, whole.plan, whole.tiers);
  const { save } = await begin(store, "one-shot", local);
  await train(local, 0, 3);
  await save(3);
  const { parts } = await save(4);
  for (const { name, bytes, base } of parts) {
    if (name !== "dense") t.deepEqual([bytes, base.length], [20, 1], name);
  }
});
