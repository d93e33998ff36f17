// The data rules of docs/data.md in a run: some data are refused before training, some cause a
// warning, and the model predicts with the rules of its training.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { JobOptions, RunResult } from "../../../../index.ts";
import { predictFile } from "../../../../packages/serve/predict/predict-file.ts";
import type { CsvOptions } from "../../../../src/data/options.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory, writeText } from "../../../data/data-files.ts";
import { startTrained } from "../../../helpers/devices/trained.ts";
import { someOrAll } from "../../../helpers/thinned.ts";
import { onCluster, prepared, trained } from "./place.ts";

const header = "y,price,user";
/** Line `i` of the data: eight users, some prices missing, a third of the labels positive. */
const lineOf = (i: number) =>
  `${i % 3 === 0 ? 1 : 0},${i % 5 === 0 ? "" : (i * 7) % 11},${(i * 5) % 8}`;
const lines = Array.from({ length: 300 }, (_, i) => lineOf(i));

type Data = Partial<Omit<CsvOptions, "kind" | "paths">>;

/** A job on the lines `own`, and a function that writes further files. */
function startJob(t: ExecutionContext, own: readonly string[] = lines, data: Data = {}) {
  const home = startDirectory(t);
  const fileOf = (name: string, rows: readonly string[]) =>
    writeText(home, { name, text: `${[header, ...rows].join("\n")}\n` });
  const directory = join(home, "checkpoints");
  const job = {
    model: {
      kind: "dlrm",
      tables: [{ name: "user", rows: 9, dim: 16, ids: "reject" as "reject" | "clamp" | "hash" }],
      bottom: [16, 16],
      top: [4, 1],
    },
    data: {
      kind: "csv",
      paths: [fileOf("train.csv", own)],
      label: "y",
      dense: ["price"],
      categorical: [{ column: "user", ids: "integer" }],
      batchSize: 50,
      cache: join(home, "cache"),
      ...data,
    },
    checkpoint: { directory },
  } satisfies JobOptions;
  return { home, fileOf, directory, job };
}

const codesOf = ({ warnings }: Pick<RunResult, "warnings">) => warnings.map(({ code }) => code);

onCluster.test(
  "with `missing: mean`, evaluations and predictions use the training data's mean",
  async (t, place) => {
    const { home, fileOf, directory, job } = startJob(t, lines, { missing: "mean" });
    const held = fileOf("held.csv", ["1,100,3", "0,,4", "1,,5", "0,50,1"]);
    const evaluation = { data: { paths: [held] } };
    const result = await trained(place, { ...job, evaluation });
    await using model = await loadModel(directory);
    const prices = lines.map((line) => line.split(",")[1] ?? "").filter((price) => price !== "");
    const mean = prices.reduce((sum, price) => sum + Number(price), 0) / prices.length;
    t.deepEqual(model.means, { 0: mean });
    const { auc, logLoss } = await model.evaluate();
    t.like(result, { auc, logLoss });
    const [missing, given, zero, far] = await model.predict([
      { price: null, user: 4 },
      { price: mean, user: 4 },
      { price: 0, user: 4 },
      { price: 75, user: 4 }, // The mean of the evaluation data.
    ]);
    t.is(missing, given);
    t.is(new Set([missing, zero, far]).size, 3);
    const out = join(home, "scored.csv");
    await predictFile(model, held, out);
    const scored = readFileSync(out, "utf8").split("\n")[2];
    t.is(Number(scored?.split(",").at(-1)), Number((missing ?? 0).toPrecision(9)));
    const saved = join(home, "saved");
    await model.save(saved);
    await using again = await loadModel(saved);
    t.deepEqual(again.means, model.means);
  },
);

onCluster.test(
  "`missing: indicator` adds a dense feature to the model, for records, too",
  async (t, place) => {
    const { job, directory } = startJob(t, lines, { missing: "indicator" });
    await trained(place, job);
    await using model = await loadModel(directory);
    t.is(model.job.model.dense, 2);
    const [missing, zero] = await model.predict([
      { price: null, user: 4 },
      { price: 0, user: 4 },
    ]);
    t.not(missing, zero);
  },
);

test("too many bad lines, or labels of one class only, fail a run before it trains", async (t) => {
  const refused = async (own: readonly string[], data: Data = {}) => {
    const { job } = startJob(t, own, data);
    return await t.throwsAsync(prepared(job));
  };
  const ones = lines.map((line) => line.replace(/^./, (label) => (label === "0" ? "2" : "1")));
  const rejected = await refused(ones);
  t.is((rejected as { code?: string }).code, "DATA_REJECTED");
  t.regex(
    rejected?.message ?? "",
    /got 200 of 300, 66\.7 %: 200 × expected the label to be 0 or 1/,
  );
  const one = await refused(ones, { rejectedMax: 1 });
  t.is((one as { code?: string }).code, "INPUT_UNUSABLE");
  t.regex(
    one?.message ?? "",
    /^Expected labels of both classes, and all 100 good lines of .*train\.csv have the label 1; .*line 3: `2`/,
  );
  const named = await refused(lines, { positive: "yes" });
  t.regex(named?.message ?? "", /all 300 good lines of .* have the label 0 \(positive: "yes"\)/);
  const { job } = startJob(t, ones, { positive: 2 });
  t.is((await prepared(job)).contents.training.samples, 300, "both classes: 2, and others");
});

test("evaluation data of one class cause a warning, and early stopping on AUC is refused", async (t) => {
  const { fileOf, job } = startJob(t);
  const data = { paths: [fileOf("held.csv", ["0,1,1", "0,2,2"])] };
  const result = await prepared({ ...job, evaluation: { data } });
  t.deepEqual(codesOf(result), ["EVALUATION_OF_ONE_CLASS"]);
  const earlyStopping = { metric: "auc" as const, patience: 2 };
  const stopping = { ...job, evaluation: { data, earlyStopping } };
  const error = await t.throwsAsync(prepared(stopping));
  t.regex(
    error?.message ?? "",
    /of one class have, got auc: all 2 lines of .*held\.csv.* label 0;/,
  );
});

test("a feature that alone predicts the label causes a warning", async (t) => {
  const leaking = lines.map((line, i) => line.replace(/,.*,/, i % 3 === 0 ? ",7," : ",3,"));
  const { job } = startJob(t, leaking);
  const { warnings } = await prepared(job);
  t.like(warnings, { length: 1, 0: { code: "FEATURE_PREDICTS_LABEL" } });
  t.regex(warnings[0]?.message ?? "", /`price` .*: at most 3 where the label is 0, at least 7/);
});

onCluster.test(
  "a table's `clamp` and `hash` apply to CSV columns, and repaired ids are counted",
  async (t, place) => {
    const far = lines.map((line, i) => (i < 30 ? line.replace(/\d+$/, String(100 + i)) : line));
    for (const ids of someOrAll<"clamp" | "hash">(
      "ids out of range",
      ["clamp"],
      ["clamp", "hash"],
    )) {
      const { job, directory } = startJob(t, far);
      const tables = job.model.tables.map((table) => ({ ...table, ids }));
      const result = await trained(place, { ...job, model: { ...job.model, tables } });
      t.deepEqual(result.repairedIds, [{ table: "user", ids: 30 }]);
      await using model = await loadModel(directory);
      const [beyond, last] = await model.predict([
        { price: 1, user: 1_000_000_000_000 },
        { price: 1, user: 8 },
      ]);
      if (ids === "clamp") t.is(beyond, last);
      else t.true(beyond !== undefined && beyond > 0 && beyond < 1);
    }
  },
);

test("a record with an unknown key is refused if it may be a misspelt column", async (t) => {
  const { job, directory } = startJob(t);
  await (await startTrained(job)).train({ cut: 1 });
  await using model = await loadModel(directory);
  const refused = async (record: Readonly<Record<string, string | number | null>>) => {
    const error = await t.throwsAsync(model.predict([record]));
    return error?.message;
  };
  const start = "Cannot use records[0]: ";
  t.is(
    await refused({ Price: 1, user: 2 }),
    `${start}\`Price\` is no column of the job: did you mean \`price\`?`,
  );
  t.is(
    await refused({ price: 1, usr: 2 }),
    `${start}\`usr\` is no column of the job: did you mean \`user\`?`,
  );
  t.is(
    await refused({ price: 1, session: 2 }),
    `${start}\`session\` is no column of the job: the record has no \`user\`; say null for a ` +
      "missing value, or drop `session`",
  );
  t.regex((await refused({ cost: 1 })) ?? "", /expected some of the columns `price`, `user`, got/);
  const good = [{ price: 1, user: 2, session: 3, y: 1 }, { user: 2 }, { user: 2, y: 0 }];
  t.is((await model.predict(good)).length, 3);
});
