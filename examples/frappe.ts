// Frappe: predicts which app a person uses in which context, on the published split. Trains a DLRM,
// or another architecture, with early stopping on the validation AUC, and tests the saved model of
// the best cut.
//
//   node dist/examples/frappe.js [--data ../shared/data/frappe] [--model dlrm] [--seeds 5]
//     [--first 1] [--devices 2] [--order split] [--json]
//
// docs/models.md shows its output. The data may be used for research only and are not part of this
// project; their caches are removed at the end.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { adam, Cluster, csv, type DataOptions, type JobOptions } from "../index.ts";
import { columns, settingOf } from "./frappe-models.ts";

const trainingSamples = 202_027;

/** The outcome of one seed. */
interface Outcome {
  readonly seed: number;
  readonly validAuc: number;
  readonly validLogLoss: number;
  readonly testAuc: number;
  readonly testLogLoss: number;
  /** Epochs until the best cut, and all trained epochs. */
  readonly bestEpoch: number;
  readonly epochs: number;
  readonly seconds: number;
  /** Digest of the model of the best cut. */
  readonly digest: string;
  readonly arithmetic: string;
}

/** The figures of a printed row, with their column titles and widths. */
const figures = [
  ["validAuc", "valid AUC", 9],
  ["validLogLoss", "log loss", 8],
  ["testAuc", "test AUC", 8],
  ["testLogLoss", "log loss", 8],
] as const;

const { values: flags } = parseArgs({
  options: {
    data: { type: "string", default: "../shared/data/frappe" },
    seeds: { type: "string", default: "5" },
    first: { type: "string", default: "1" },
    epochs: { type: "string", default: "40" },
    devices: { type: "string", default: "2" },
    model: { type: "string", default: "dlrm" },
    order: { type: "string" },
    json: { type: "boolean", default: false },
  },
});

const setting = settingOf(flags.model);

if (existsSync(fileOf("train"))) {
  await trainAll();
} else {
  console.error(`There are no Frappe files in ${flags.data}; name their directory with --data`);
  process.exitCode = 2;
}

async function trainAll(): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "osiris-frappe-"));
  try {
    await using cluster = await Cluster.start({ devices: Number(flags.devices) });
    if (cluster.notice !== undefined) console.log(cluster.notice);
    const names = figures.map(([, name, width]) => name.padStart(width)).join("  ");
    console.log(`seed  ${names}  best epoch  epochs  seconds  digest`);
    const outcomes: Outcome[] = [];
    for (let i = 0; i < Number(flags.seeds); i++) {
      const seed = Number(flags.first) + i;
      const outcome = await train(cluster, seed, home);
      outcomes.push(outcome);
      console.log(rowOf(outcome));
    }
    tellMean(outcomes);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function jobOf(seed: number, home: string): JobOptions {
  const { decay } = setting;
  const rule = adam({ learningRate: 1e-3, ...(decay !== undefined && { ema: { decay } }) });
  return {
    name: `frappe-${seed}`,
    model: setting.model,
    data: { ...dataOf("train", home), epochs: Number(flags.epochs), ...orderOf(flags.order) },
    optimizer: { dense: rule, sparse: rule },
    evaluation: {
      data: dataOf("valid", home),
      ...setting.evaluation,
    },
    checkpoint: { directory: join(home, `seed-${seed}`), everySteps: 100_000 },
    seed,
  };
}

/** `--order split` trains in the split order, which is that of data larger than memory. */
function orderOf(order: string | undefined): Pick<DataOptions, "order"> {
  return order === undefined ? {} : { order: order as "global" | "split" };
}

function dataOf(part: "train" | "valid" | "test", home: string) {
  return csv(fileOf(part), {
    label: "label",
    categorical: columns.map(({ name, offset }) => ({ column: name, ids: "integer", offset })),
    batchSize: setting.batchSize,
    cache: join(home, "cache"),
  });
}

function fileOf(part: string): string {
  return join(flags.data, `${part}.csv.gz`);
}

async function train(cluster: Cluster, seed: number, home: string): Promise<Outcome> {
  const startMs = performance.now();
  const run = await cluster.submit(jobOf(seed, home));
  const { step, history, digest, auc, logLoss } = await run.result();
  await using model = await run.model();
  const test = await model.evaluate(dataOf("test", home));
  const stepsPerEpoch = Math.ceil(trainingSamples / setting.batchSize);
  return {
    seed,
    validAuc: auc ?? Number.NaN,
    validLogLoss: logLoss ?? Number.NaN,
    testAuc: test.auc,
    testLogLoss: test.logLoss,
    bestEpoch: step / stepsPerEpoch,
    epochs: (history.at(-1)?.step ?? 0) / stepsPerEpoch,
    seconds: (performance.now() - startMs) / 1000,
    digest,
    arithmetic: model.arithmetic,
  };
}

function rowOf(outcome: Outcome): string {
  const { seed, bestEpoch, epochs, seconds, digest } = outcome;
  return [
    String(seed).padStart(4),
    ...figures.map(([key, , width]) => outcome[key].toFixed(4).padStart(width)),
    String(bestEpoch).padStart(10),
    String(epochs).padStart(6),
    seconds.toFixed(1).padStart(7),
    digest,
  ].join("  ");
}

/** Prints the mean over the seeds, ± the standard deviation of one seed. */
function tellMean(outcomes: readonly Outcome[]): void {
  const count = outcomes.length;
  const cells = figures.map(([key, name]) => {
    const values = outcomes.map((outcome) => outcome[key]);
    const mean = values.reduce((sum, value) => sum + value, 0) / count;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const deviation = Math.sqrt(squares / Math.max(1, count - 1));
    return `${name} ${mean.toFixed(4)} ± ${deviation.toFixed(4)}`;
  });
  const arithmetics = [...new Set(outcomes.map(({ arithmetic }) => arithmetic))];
  console.log(`mean of ${count} (${arithmetics.join(", ")}): ${cells.join(", ")}`);
  if (flags.json) console.log(JSON.stringify({ example: "frappe", outcomes }));
}
