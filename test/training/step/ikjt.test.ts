// Training on deduplicated lists (IKJT) against training on the plain lists: the same model, except
// for the order in which the gradients of equal lists are added.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { IkjtGroups } from "../../../src/data/sessions/ikjt.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { type ModelOptions, modelOptions } from "../../../src/model/options.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import { withRepeatedLists } from "../../helpers/batches/repeated-lists.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";

const [samples, slices, steps] = [48, 4, 6];
const ids = [300, 300, 300];
const idsMax = [5, 3, 2];
const tables = ["a", "b", "c"].map((name) => ({ name, rows: 300, dim: 8 }));
const top = [8, 1];

const models: Readonly<Record<string, ModelOptions>> = {
  "a DLRM": { kind: "dlrm", dense: 4, tables, bottom: [8, 8], top },
  "a DLRM whose rows are projected": {
    kind: "dlrm",
    dense: 4,
    tables,
    bottom: [6, 8],
    top,
    groups: [{ name: "both", features: ["b", "c"] }],
  },
  "a DLRM over encoded sequences": {
    kind: "dlrm",
    dense: 4,
    tables,
    features: [
      {
        ...{ column: "a", pooling: "none", maxLength: 4, kept: "last" },
        encoder: { kind: "attention", heads: 2 },
      },
      {
        ...{ column: "b", pooling: "none", maxLength: 3 },
        encoder: { kind: "transformer", hidden: 6 },
      },
      { column: "c" },
    ],
    bottom: [8, 8],
    top,
  },
  "a DLRM over rows of sequences, one of them projected": {
    kind: "dlrm",
    dense: 4,
    tables: tables.map((table, i) => (i === 1 ? { ...table, dim: 6 } : table)),
    features: [
      { column: "a", pooling: "none", maxLength: 4, kept: "last" },
      { column: "b", pooling: "none", maxLength: 3 },
      { column: "c" },
    ],
    bottom: [8, 8],
    top,
  },
  "a DIN over a deduplicated sequence": {
    kind: "din",
    dense: 4,
    tables,
    features: [
      { column: "a", pooling: "none", maxLength: 4, kept: "last" },
      { column: "b" },
      { column: "c" },
    ],
    attention: [{ target: "c", sequence: "a", hidden: [6] }],
    top,
    dropout: 0.1,
  },
};

function start(
  model: ModelOptions,
  ikjt: IkjtGroups | undefined,
  { bags = idsMax, devices = 2, kernels = createReference as () => Kernels } = {},
) {
  return startLocalDevices({
    input: { model: modelOptions.parse(model), batchSize: samples, slices, idsMax: bags, ikjt },
    recipe: {
      optimizer: optimizerOf(
        { kind: "adagrad", learningRate: 0.02 },
        { kind: "rowWiseAdagrad", learningRate: 0.05 },
      ),
      seed: 3,
    },
    devices,
    kernels,
  });
}

const groups = [[0, 1]];
const batchOf = (step: number, repeating?: { repeated: number; returning: number }) => {
  const plain = randomBatch({ rows: ids, idsMax, dense: 4 }, step, samples);
  return withRepeatedLists(plain, groups, step, repeating);
};

for (const [title, model] of Object.entries(models)) {
  test(`losses and scores of deduplicated lists agree to 1e-6 with plain ones: ${title}`, async (t) => {
    const [plain, own] = [start(model, undefined), start(model, groups)];
    for (let step = 0; step < steps; step++) {
      const [expected, loss] = [
        await plain.train(batchOf(step), step),
        await own.train(batchOf(step), step),
      ];
      if (step === 0) t.is(loss, expected, "the forward pass has the same bits");
      t.true(Math.abs(loss - expected) <= 1e-6 * Math.abs(expected), `${loss}, not ${expected}`);
    }
    const [expected, scores] = [await plain.score(batchOf(99)), await own.score(batchOf(99))];
    const off = Math.max(...scores.map((score, i) => Math.abs(score - (expected[i] ?? 0))));
    t.true(off <= 1e-6 * Math.max(...expected.map(Math.abs)), `scores are off by ${off}`);
    t.not(await own.digest(), await plain.digest(), "their sums differ in the last bits");
  });
}

test("only positions of a sequence that have ids are expanded, and the rest is zero", async (t) => {
  const model = models["a DLRM over rows of sequences, one of them projected"];
  if (model === undefined) return t.fail();
  const expanded: Array<{ columns: number; used: number[]; rest: boolean }> = [];
  const own = start(model, groups, {
    devices: 1,
    kernels: () => {
      const kernels = createReference();
      return {
        ...kernels,
        expandColumns(out, outFirst, from, fromFirst, columns, inverse, used) {
          kernels.expandColumns(out, outFirst, from, fromFirst, columns, inverse, used);
          const all = kernels.read(out);
          const width = out.shape[1] ?? 0;
          const rest = Array.from(inverse, (u, b) => {
            const end = outFirst + columns;
            return all.subarray(b * width + outFirst + (used?.[u] ?? 0), b * width + end);
          });
          const areZeros = rest.every((values) => values.every((value) => value === 0));
          expanded.push({ columns, used: Array.from(used ?? []), rest: areZeros });
        },
      };
    },
  });
  const batch = batchOf(1);
  await own.train(batch, 1);
  const lists = (feature: number) => {
    const lengths = batch.lengths.subarray(feature * samples, (feature + 1) * samples);
    return Math.max(...lengths);
  };
  t.deepEqual(
    expanded.map(({ columns, used, rest }) => [columns, Math.max(...used), rest]).sort(),
    [
      [24, 8 * Math.min(3, lists(1)), true],
      [32, 8 * Math.min(4, lists(0)), true],
    ],
  );
  for (const { used } of expanded) t.true(new Set(used).size > 2, "lists differ in length");
});

/** Batches in which no row is in two lists of a table, and equal lists are adjacent. */
function disjointBatch(step: number) {
  const plain = batchOf(step, { repeated: 0, returning: 0 });
  const lengths = plain.lengths.map(() => 1);
  const all = Int32Array.from({ length: 3 * samples }, (_, i) => (i + 7 * step) % 300);
  return withRepeatedLists({ ...plain, lengths, ids: all }, groups, step, {
    repeated: 0.7,
    returning: 0,
  });
}

test("deduplicated lists give the same bits where equal lists are adjacent and share no row", async (t) => {
  const model = models["a DLRM"];
  if (model === undefined) return t.fail();
  const [plain, own] = [start(model, undefined), start(model, groups)];
  for (let step = 0; step < steps; step++) {
    t.is(await own.train(disjointBatch(step), step), await plain.train(disjointBatch(step), step));
  }
  t.is(await own.digest(), await plain.digest());
});

test("for sessions of four, only a quarter of ids, vectors and gradients is sent", async (t) => {
  const model = models["a DLRM"];
  if (model === undefined) return t.fail();
  const each = 4; // Samples that share their lists: three such sessions make a slice.
  const batch = randomBatch({ rows: ids, idsMin: 3, idsMax: [3, 3, 3], dense: 4 }, 1, samples);
  const first = (i: number) => i - (i % each);
  const shared = batch.ids.map((_, at) => {
    const [bag, place] = [Math.floor(at / 3), at % 3];
    return batch.ids[3 * (bag - (bag % samples) + first(bag % samples)) + place] ?? 0;
  });
  const sent: Record<string, number>[] = [];
  for (const ikjt of [undefined, [[0, 1, 2]]]) {
    const local = start(model, ikjt, { bags: [3, 3, 3] });
    await local.train({ ...batch, ids: shared }, 0);
    const bytes = (name: "ids" | "pooled" | "dPooled") =>
      local.states.reduce((sum, { exchange }) => sum + exchange.sent[name].shared, 0);
    sent.push({ ids: bytes("ids"), pooled: bytes("pooled"), dPooled: bytes("dPooled") });
  }
  const [plain, own] = sent;
  t.is(own?.pooled, (plain?.pooled ?? 0) / each);
  t.is(own?.dPooled, (plain?.dPooled ?? 0) / each);
  // The head of a frame has two words; this frame also holds the counts of distinct lists of two
  // slices.
  const heads = 2 * 4 * 2;
  t.is((own?.ids ?? 0) - heads - 2 * 4 * 2, ((plain?.ids ?? 0) - heads) / each);
});

test("the dropout of a distinct list depends on its position, on any devices", async (t) => {
  const model: ModelOptions = {
    kind: "dlrm",
    dense: 4,
    tables,
    features: [
      {
        ...{ column: "a", pooling: "none", maxLength: 4 },
        encoder: { kind: "transformer", dropout: 0.4 },
      },
      { column: "b" },
      { column: "c" },
    ],
    bottom: [8, 8],
    top,
  };
  const digests: string[] = [];
  for (const devices of [1, 2, 4]) {
    const local = start(model, groups, { devices });
    for (let step = 0; step < 3; step++) await local.train(batchOf(step), step);
    digests.push(await local.digest());
  }
  t.is(new Set(digests).size, 1);
});
