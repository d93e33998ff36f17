// The top-k all-reduce in whole steps: no number of devices and no placement changes a bit, and the
// residuals move with a checkpoint.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { CheckpointCorruptError } from "../../../src/errors/errors.ts";
import { exchangeOptions } from "../../../src/exchange/options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { createPartTally, residualsOfPart } from "../../../src/training/checkpoint/part-names.ts";
import { partsNeeded, restorePart } from "../../../src/training/checkpoint/parts.ts";
import { createSoloDevice } from "../../../src/training/loop/inference-device.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { bytesOfParts } from "../../helpers/devices/parts.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const batchSize = 21; // Slices of two and three samples; unequal shares on three devices.
const slices = 8;
const steps = 4;
const idsMax = [3, 1, 4];
const rows = [30, 12, 7];
const dense = 3;

interface Choice {
  readonly devices: number;
  readonly groups?: 2 | 4;
  readonly table?: Partial<TableOptions>;
}

function inputOf({ groups, table }: Omit<Choice, "devices">) {
  const tables = rows.map((count, i) => ({ name: `T${i}`, rows: count, dim: 5, ...table }));
  const layers = { bottom: [6, 5], top: [7, 1] };
  const model = modelOptions.parse({ kind: "dlrm", dense, tables, ...layers });
  const exchange = exchangeOptions.parse({ topk: { share: 0.05, groups } });
  return { model, batchSize, slices, idsMax, exchange };
}

const recipe = {
  optimizer: optimizerOf(
    { kind: "adam", learningRate: 0.01 },
    { kind: "rowWiseAdagrad", learningRate: 0.1 },
  ),
  seed: 7,
};

function start({ devices, ...choice }: Choice) {
  const input = inputOf(choice);
  const kernels = () => openKernels("auto");
  return startLocalDevices({ input, recipe, devices, kernels, seed: devices });
}

const batchOf = (step: number) => randomBatch({ rows, idsMin: 0, idsMax, dense }, step, batchSize);

/** The residuals of all slices, in their order. */
const residualsOf = ({ states }: ReturnType<typeof start>) =>
  states.flatMap(({ kernels, exchange }) =>
    exchange.gradients.residuals.map(({ slice, values }) => ({
      slice,
      values: kernels.read(values),
    })),
  );

async function train(choice: Choice) {
  const local = start(choice);
  for (let step = 0; step < steps; step++) await local.train(batchOf(step), step);
  return { digest: await local.digest(), residuals: residualsOf(local) };
}

const tables: readonly Partial<TableOptions>[] = [
  {},
  { sharding: "data-parallel" },
  { dedup: true, sharding: "row-wise", rowBlocks: 4 },
];

for (const table of tables) {
  test(`top-k has one device's bits and residuals on any: ${JSON.stringify(table)}`, async (t) => {
    const one = await train({ devices: 1, table });
    t.is(one.residuals.length, slices);
    t.true(one.residuals.every(({ values }) => values.some((value) => value !== 0)));
    for (const devices of someOrAll("devices of top-k", [2, 3], [2, 3, 5, 8])) {
      t.deepEqual(await train({ devices, table }), one, `${devices} devices`);
    }
  });
}

test("the number of top-k groups changes the bits of a model", async (t) => {
  const [two, four] = [await train({ devices: 3, groups: 2 }), await train({ devices: 3 })];
  t.not(two.digest, four.digest);
  t.is((await train({ devices: 2, groups: 2 })).digest, two.digest);
  t.is((await train({ devices: 1, groups: 4 })).digest, four.digest);
});

test("parts written by 2 devices restore on 3 with their residuals, bit for bit", async (t) => {
  const expected = await train({ devices: 1 });
  const first = start({ devices: 2 });
  for (let step = 0; step < 2; step++) await first.train(batchOf(step), step);
  const parts = await bytesOfParts(first.states);
  const tally = createPartTally(first.topology.input.model.tables, slices);
  for (const name of parts.keys()) {
    t.false(tally.isWhole, "a cut without the residuals of a device is no checkpoint");
    tally.add(name);
  }
  t.true(tally.isWhole);
  const second = start({ devices: 3 });
  for (const state of second.states) {
    const needed = partsNeeded(state, [...parts.keys()]);
    const own = needed.filter((name) => residualsOfPart(name) !== undefined);
    t.is(own.length, state.rank === 1 ? 2 : 1, `device ${state.rank} reads ${own}`);
    for (const name of needed) {
      await restorePart(state, name, [[parts.get(name) ?? new Uint8Array()]]);
    }
  }
  t.deepEqual(residualsOf(second), residualsOf(first));
  for (let step = 2; step < steps; step++) await second.train(batchOf(step), step);
  t.deepEqual({ digest: await second.digest(), residuals: residualsOf(second) }, expected);
});

test("a model that is loaded to predict reads no residuals", async (t) => {
  const trained = start({ devices: 2 });
  await trained.train(batchOf(0), 0);
  const names = [...(await bytesOfParts(trained.states)).keys()];
  const solo = createSoloDevice({ input: inputOf({}), recipe, kernels: openKernels("auto") });
  t.true(names.some((name) => residualsOfPart(name) !== undefined));
  t.false(partsNeeded(solo, names).some((name) => residualsOfPart(name) !== undefined));
});

test("residuals that are damaged, or of another model, are refused", async (t) => {
  const local = start({ devices: 1 });
  const [state] = local.states;
  const name = `residuals-0.${slices}`;
  const bytes = (await bytesOfParts(local.states)).get(name) ?? Buffer.alloc(0);
  const restore = async (given: Uint8Array, as = name) => {
    if (state !== undefined) await restorePart(state, as, [[given]]);
  };
  await t.notThrowsAsync(restore(bytes));
  const longer = start({ devices: 1, groups: 2 });
  const other = (await bytesOfParts(longer.states)).get(name) ?? Buffer.alloc(0);
  for (const [given, as, reason] of [
    [bytes.subarray(0, 20), name, /no header/],
    [bytes.subarray(0, -4), name, /bytes, expected/],
    [Buffer.concat([Buffer.from("OSRD"), bytes.subarray(4)]), name, /bytes, expected/],
    [bytes, `residuals-0.${slices / 2}`, /with 4 residuals/],
    [other, name, /another model/],
  ] as const) {
    const error = await t.throwsAsync(restore(given, as), { instanceOf: CheckpointCorruptError });
    t.regex(error.message, reason);
  }
});
