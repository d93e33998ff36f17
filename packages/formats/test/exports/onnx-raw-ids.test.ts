// ONNX models that take the ids of the data's columns and compute the rows themselves: ONNX Runtime
// predicts the same as the model. The export reports which features take rows instead.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { CsvOptions } from "../../../../src/data/options.ts";
import { createRecordEncoder } from "../../../../src/data/records.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../../../src/job/job.ts";
import { shapesOf } from "../../../../src/model/features.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { runInputs } from "../../../../test/helpers/models/onnx.ts";
import { type InputRules, inputsByRules } from "../../../../test/helpers/models/onnx-client.ts";
import { drawInteger } from "../../../../test/helpers/models/onnx-rows.ts";
import { drawModel, drawnIds } from "../../../../test/helpers/stores/drawn-model.ts";
import { exportModel } from "../../exports/export-model.ts";
import { featureInputs } from "../../exports/onnx/raw-ids.ts";
import { importModel } from "../../imports/import-model.ts";

const wide = { idBits: 64 } as const;
const int64Min = -(2n ** 63n);

type Transforms = NonNullable<CsvOptions["transforms"]>;

const sigrid = { op: "sigridHash", input: "id", output: "made" } as const;

/** A job on columns of every kind; the data are never read. */
function jobOf(home: string): JobOptions {
  const dim = 4;
  const salted = { salt: 5, max: 60 };
  return {
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [
        { name: "city", rows: 40, dim },
        { name: "tags", rows: 30, dim, pooling: "mean", rowBlocks: 4, precision: "int8" },
        { name: "shop", rows: 20, dim, ids: "hash" },
        { name: "user", rows: 64, dim, rowBlocks: 4, pooling: "mean", ...wide, dynamic: {} },
        { name: "seen", rows: 50, dim, ...wide, ids: "hash" },
        { name: "word", rows: 60, dim },
        { name: "pair", rows: 60, dim },
      ],
      bottom: [6, dim],
      top: [6, 1],
    },
    data: {
      kind: "csv",
      paths: [join(home, "none.csv")],
      label: "clicked",
      dense: ["price"],
      transforms: [
        {
          ...{ op: "sigridHash", output: "word", ...salted },
          input: { column: "words", separator: "|", weightSeparator: ":" },
        },
        {
          ...{ op: "cartesian", output: "pair", ...salted },
          inputs: [{ column: "user", separator: "," }, "shop"],
        },
      ],
      categorical: [
        "city",
        { column: "tags", separator: "|", ids: "integer", offset: 9 },
        { column: "shop", ids: "integer", offset: 3 },
        { column: "user", ids: "integer", offset: 7, separator: "," },
        { column: "seen", ids: "integer", separator: " ", weightSeparator: ":" },
        { column: "word", ids: "integer" },
        { column: "pair", ids: "integer" },
      ],
      batchSize: 8,
    },
    checkpoint: { directory: join(home, "checkpoints") },
  };
}

/** Exports with raw ids, and checks the test vectors against the model and ONNX Runtime. */
async function exported(t: ExecutionContext, options: JobOptions) {
  const job = await drawModel(options);
  const { directory } = job.checkpoint;
  const path = `${directory}.onnx`;
  const { inputs } = await exportModel(directory, path, { ids: "raw" });
  t.is(inputs?.vectors, 8, inputs?.withoutVectors);
  const rules: InputRules = JSON.parse(readFileSync(`${path}.json`, "utf8"));
  const { records, inputs: fed, tolerance } = rules.vectors;
  t.deepEqual(inputsByRules(leftOut(rules), records), leftOut(rules).vectors.inputs);
  await using model = await loadModel(directory);
  await isAlike(t, await model.predict(records), path, fed, tolerance);
  return { job, path, rules, inputs };
}

/** The inputs that a client can make without `cartesian` transforms of its own. */
function leftOut(rules: InputRules): InputRules {
  const { features, vectors } = rules;
  const fed = Object.entries(vectors.inputs).filter(([name]) => !name.startsWith("pair."));
  return {
    ...rules,
    features: features.filter(({ feature }) => feature !== "pair"),
    vectors: { ...vectors, inputs: Object.fromEntries(fed) },
  };
}

async function isAlike(
  t: ExecutionContext,
  own: Float32Array,
  path: string,
  fed: InputRules["vectors"]["inputs"],
  tolerance: number,
) {
  const { predictions } = await runInputs(path, fed);
  t.true(Math.max(...own) - Math.min(...own) > 1e-4, `${own}`);
  t.is(predictions.length, own.length);
  for (const [i, value] of own.entries()) {
    t.true(Math.abs(value - (predictions[i] ?? Number.NaN)) <= tolerance, `${i}: ${value}`);
  }
}

test.serial("an export takes raw ids of some features, and lists the others", async (t) => {
  const { job, path, rules, inputs } = await exported(t, jobOf(startDirectory(t)));
  const names = [
    "city.rows",
    "tags.ids",
    "shop.ids",
    "user.ids",
    "seen.ids",
    "word.ids",
    "pair.rows",
  ];
  t.deepEqual(
    rules.features.map(({ input }) => input),
    names,
  );
  const why = rules.features.flatMap(({ feature, notRaw }) =>
    notRaw ? [{ feature, why: notRaw }] : [],
  );
  t.deepEqual(why, [
    { feature: "city", why: "rows are hashes of text, which ONNX has no operators for" },
    { feature: "pair", why: "`pair` is made by `cartesian`, and not of one integer each" },
  ]);
  t.deepEqual(inputs?.notRaw, why);
  t.like(rules.features[5], {
    ...{ column: "words", madeByTransform: false, separator: "|", weighted: true },
    id: { kind: "raw", computed: [{ op: "sigridHash", output: "word" }] },
  });
  t.like(rules.features[1]?.id, { least: "9", most: "38", offset: 9, beyond: "reject" });

  // Records of a client: ids of any size, lists, weights and missing values.
  const stream = new RandomStream(8, 1, 2);
  const list = (draw: () => bigint, most: number) =>
    Array.from({ length: stream.below(most + 1) }, () => String(draw()));
  const known = drawnIds(job.model, 3);
  const any = (isWide: boolean) => drawInteger(stream, isWide);
  const weighted = (id: string) => `${id}:${(1 + stream.below(8)) / 4}`;
  const records = Array.from({ length: 200 }, (_, i) => {
    return {
      city: `text ${stream.below(1000)}`,
      tags: list(() => 9n + BigInt(stream.below(30)), 4),
      shop: i % 7 === 0 ? null : String(any(false)),
      // The table's least id minus its offset does not fit in 64 bits in the data.
      user: list(() => ((known[stream.below(2 * known.length)] ?? 11n) % 2n ** 62n) + 7n, 3),
      seen: list(() => any(true), 3).map(weighted),
      words: list(() => any(true), 3).map(weighted),
      price: stream.normal(),
    };
  });
  await using model = await loadModel(job.checkpoint.directory);
  const fed = inputsByRules(leftOut(rules), records);
  const { data } = job;
  const encoder = createRecordEncoder(data, shapesOf(job.model));
  const batch = encoder.encode(records);
  const pairs = [...batch.lengths.subarray(6 * 200, 7 * 200)];
  const count = pairs.reduce((sum, length) => sum + length, 0);
  const all = { ...fed, "pair.lengths": pairs, "pair.rows": [...batch.ids.subarray(-count)] };
  await isAlike(t, await model.predict(records), path, all, 1e-6);
});

test.serial("raw ids in sequences keep their positions", async (t) => {
  const { job, path, rules } = await exported(t, {
    model: {
      kind: "din",
      tables: [{ name: "item", rows: 50, dim: 4, ...wide, ids: "hash" }],
      features: [
        { column: "seen", table: "item", pooling: "none", maxLength: 3, kept: "last" },
        { column: "item" },
      ],
      attention: [{ target: "item", sequence: "seen", hidden: [5] }],
      top: [5, 1],
    },
    data: {
      kind: "csv",
      paths: ["none.csv"],
      label: "clicked",
      dense: [],
      categorical: [
        { column: "seen", ids: "integer", separator: " " },
        { column: "item", ids: "integer" },
      ],
      batchSize: 8,
    },
    checkpoint: { directory: join(startDirectory(t), "checkpoints") },
  });
  const stream = new RandomStream(8, 1, 2);
  const records = Array.from({ length: 50 }, (_, i) => ({
    seen: Array.from({ length: i % 6 }, () => String(drawInteger(stream, true))),
    item: String(drawInteger(stream, true)),
  }));
  await using model = await loadModel(job.checkpoint.directory);
  await isAlike(
    t,
    await model.predict(records),
    path,
    inputsByRules(rules, records) as never,
    1e-6,
  );
});

test.serial(
  "raw ids of weighted lists in columnar files come before their weights in the rules",
  async (t) => {
    const { rules } = await exported(t, {
      model: { kind: "lr", tables: [{ name: "made", rows: 60, dim: 1, initScale: 0.5 }] },
      data: {
        ...{ kind: "jsonl", paths: ["none.jsonl"], label: "clicked", dense: [], batchSize: 8 },
        transforms: [{ ...sigrid, input: { column: "words", list: "weighted" }, max: 60 }],
        categorical: [{ column: "made", ids: "integer" }],
      },
      checkpoint: { directory: join(startDirectory(t), "checkpoints") },
    });
    t.like(rules.features[0], { column: "words", weighted: true, weightSeparator: ":" });
  },
);

test.serial("an id that the job refuses is refused by ONNX Runtime, too", async (t) => {
  const { path, rules } = await exported(t, jobOf(startDirectory(t)));
  const { inputs } = rules.vectors;
  for (const [input, id] of [
    ["tags.ids", "8"],
    ["tags.ids", "39"],
    ["shop.ids", String(10n ** 15n)],
    ["user.ids", String(int64Min)],
    ["seen.ids", undefined],
  ] as const) {
    const ids = [id ?? String(int64Min), ...(inputs[input]?.slice(1) ?? [])];
    const run = runInputs(path, { ...inputs, [input]: ids });
    if (id === undefined) await t.notThrowsAsync(run);
    else await t.throwsAsync(run, { message: /out of data bounds/ }, `${input} ${id}`);
  }
});

test.serial("exports with and without raw ids import to the same model", async (t) => {
  const home = startDirectory(t);
  const { job, path } = await exported(t, jobOf(home));
  const { directory } = job.checkpoint;
  const [rows, plain] = [join(home, "rows.onnx"), join(home, "plain.onnx")];
  await exportModel(directory, rows, { ids: "rows" });
  await exportModel(directory, plain);
  t.true(readFileSync(rows).equals(readFileSync(plain)));
  t.false(readFileSync(path).equals(readFileSync(plain)));
  const digests = await Promise.all(
    [path, plain].map(async (file, i) => {
      const { digest, jobFrom } = await importModel(file, { out: join(home, `imported-${i}`) });
      return { digest, jobFrom };
    }),
  );
  t.deepEqual(digests[0], digests[1]);
});

test.serial("raw ids that are impossible are refused, and nothing is written", async (t) => {
  const home = startDirectory(t);
  const options = jobOf(home);
  const { directory } = (await drawModel(options)).checkpoint;
  const refused = async (from: string, name: string, ids: "raw", message: RegExp) => {
    const file = join(home, name);
    await t.throwsAsync(exportModel(from, file, { ids }), {
      instanceOf: InvalidOptionError,
      message,
    });
    t.false(existsSync(file));
  };
  const ending =
    /^Expected a file ending in `\.onnx` with `ids: raw`, got .*m\.safetensors: others/;
  await refused(directory, "m.safetensors", "raw", ending);
  const wrong = /^Expected `ids` to be `rows` or `raw`, got `text`/;
  await refused(directory, "m.onnx", "text" as "raw", wrong);
  const texts = await drawModel({
    model: { kind: "lr", tables: [{ name: "city", rows: 40, dim: 1 }] },
    data: {
      ...{ kind: "csv", paths: ["none.csv"], label: "clicked", dense: [], categorical: ["city"] },
      batchSize: 8,
    },
    checkpoint: { directory: join(home, "texts") },
  });
  const none =
    /^Expected a feature whose raw ids ONNX can map to rows, .* of `city`, rows are hashes/;
  await refused(texts.checkpoint.directory, "texts.onnx", "raw", none);
});

test("an export gives the reason for each feature that does not accept raw ids", (t) => {
  const why = (transforms: Transforms, column: object) => {
    const { data, model } = resolveJob({
      model: {
        kind: "lr",
        tables: [
          { name: "own", rows: 9, dim: 1 },
          { name: "other", rows: 9, dim: 1 },
        ],
      },
      data: {
        ...{ kind: "csv", paths: ["none.csv"], label: "label", dense: [], batchSize: 8 },
        transforms,
        categorical: [
          { column: "made", table: "own", ids: "integer", ...column },
          { column: "other", ids: "integer" },
        ],
      },
      checkpoint: { directory: "none" },
    });
    return featureInputs({ data, model }, "raw")[0]?.notRaw;
  };
  const hash = { ...sigrid, max: 9 };
  t.is(why([hash], {}), undefined);
  const ofText = { op: "hashText", input: "text", output: "id" } as const;
  t.regex(
    why([ofText, hash], {}) ?? "",
    /^`id` is made by `hashText`, and not of one integer each/,
  );
  t.regex(why([hash], { ids: "hash" }) ?? "", /^rows are hashes of text/);
});
