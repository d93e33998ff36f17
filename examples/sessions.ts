// YooChoose: predicts the item that a visitor of a shop views next from the items viewed before in
// the session. A Deep Interest Network, whose attention pools the session for each candidate item,
// against the same model with mean pooling, seed by seed.
//
//   node dist/examples/sessions.js [--data ../shared/data/session] [--model din|bst] [--seed 1]
//     [--against mean] [--seeds 5] [--first 1] [--epochs 20] [--devices 2]
//
// With --seed, trains one seed of --model only. A sample is an item and the session before it: the
// item that came next (label 1), or one drawn from the clicks of the training part (label 0).
// Training, validation and test follow each other in time. docs/models.md shows its output. The
// data may not be used commercially and are not part of this project; files made from them are
// removed at the end.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import { adam, Cluster, csv, type JobOptions } from "../index.ts";

const { values: flags } = parseArgs({
  options: {
    data: { type: "string", default: "../shared/data/session" },
    model: { type: "string", default: "din" },
    against: { type: "string", default: "mean" },
    seed: { type: "string" },
    seeds: { type: "string", default: "5" },
    first: { type: "string", default: "1" },
    epochs: { type: "string", default: "20" },
    devices: { type: "string", default: "2" },
  },
});

/** Negative items per positive item. */
const negatives = 2;
/** Most clicks of a session that the model sees, the newest. */
const sessionMax = 10;
/** The last day of the training file is the validation part. */
const validationSeconds = 86_400;

/** A click: the row of its item in the table, and its time in seconds. */
interface Click {
  readonly item: number;
  readonly time: number;
}

interface Outcome {
  readonly validAuc: number;
  readonly testAuc: number;
  readonly testLogLoss: number;
  readonly epoch: number;
  readonly seconds: number;
  readonly digest: string;
}

const parts = ["train", "valid", "test"] as const;

if (existsSync(fileOf("train"))) {
  await compare();
} else {
  console.error(`There are no YooChoose files in ${flags.data}; name their directory with --data`);
  process.exitCode = 2;
}

async function compare(): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "osiris-sessions-"));
  try {
    const rows = writeSamples(home);
    await using cluster = await Cluster.start({ devices: Number(flags.devices) });
    if (cluster.notice !== undefined) console.log(cluster.notice);
    console.log("model  seed  valid AUC  test AUC  log loss  best epoch  seconds  digest");
    const isOne = flags.seed !== undefined;
    const models = isOne ? [flags.model] : [flags.model, flags.against];
    const found: Outcome[][] = [];
    for (let i = 0; i < (isOne ? 1 : Number(flags.seeds)); i++) {
      const seed = Number(flags.seed ?? flags.first) + i;
      const outcomes: Outcome[] = [];
      for (const model of models) {
        const outcome = await train(cluster, { model, seed, home, rows });
        outcomes.push(outcome);
        console.log(rowOf(seed, model, outcome));
      }
      found.push(outcomes);
    }
    if (!isOne) tellDifference(models, found);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/** Writes the samples of each part. Returns the number of items. */
function writeSamples(home: string): number {
  const rowOfItem = new Map<string, number>();
  const sessions = sessionsIn("train", rowOfItem);
  const end = Math.max(...sessions.map((clicks) => clicks.at(-1)?.time ?? 0));
  const isLate = (clicks: readonly Click[]) => (clicks[0]?.time ?? 0) > end - validationSeconds;
  const training = sessions.filter((clicks) => !isLate(clicks));
  const seen = training.flatMap((clicks) => clicks.map(({ item }) => item));
  const sessionsOf = {
    train: training,
    valid: sessions.filter(isLate),
    test: sessionsIn("test", rowOfItem),
  };
  for (const [at, part] of parts.entries()) {
    const below = drawer(at + 1);
    const lines = sessionsOf[part].flatMap((clicks) => samplesOf(clicks, seen, below));
    writeFileSync(join(home, `${part}.csv`), `label,item,seen\n${lines.join("\n")}\n`);
  }
  return rowOfItem.size;
}

/** The sessions of a file, each with its clicks in order of time. */
function sessionsIn(name: "train" | "test", rowOfItem: Map<string, number>): Click[][] {
  const sessions = new Map<string, Click[]>();
  const [, ...lines] = gunzipSync(readFileSync(fileOf(name)))
    .toString()
    .trimEnd()
    .split("\n");
  for (const line of lines) {
    const [session = "", id = "", time] = line.split("\t");
    const item = rowOfItem.get(id) ?? rowOfItem.size;
    rowOfItem.set(id, item);
    const clicks = sessions.get(session) ?? [];
    clicks.push({ item, time: Number(time) });
    sessions.set(session, clicks);
  }
  return [...sessions.values()].map((clicks) => clicks.sort((a, b) => a.time - b.time));
}

/**
 * Lines of samples of one session: each click but the first, with negatives drawn in proportion to
 * their number of clicks.
 */
function samplesOf(
  clicks: readonly Click[],
  clicked: readonly number[],
  below: (limit: number) => number,
): string[] {
  return clicks.slice(1).flatMap(({ item }, before) => {
    const seen = clicks.slice(0, before + 1).map((click) => click.item);
    const history = seen.slice(-sessionMax).join(" ");
    const drawn = Array.from({ length: negatives }, () => {
      for (;;) {
        const other = clicked[below(clicked.length)] ?? item;
        if (other !== item) return `0,${other},${history}`;
      }
    });
    return [`1,${item},${history}`, ...drawn];
  });
}

/** A seeded generator of integers below a limit (xorshift32). */
function drawer(seed: number): (limit: number) => number {
  let state = Math.imul(seed, 0x9e37_79b1) | 1;
  return (limit) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}

/** The model of a name. Hyper-parameters were chosen by validation AUC alone. */
function modelOf(name: string, rows: number): JobOptions["model"] {
  const own = {
    kind: "din",
    tables: [{ name: "item", rows, dim: 16, initScale: 0.05 }],
    top: [64, 32, 1],
    dropout: 0.2,
  } as const;
  const unpooled = { pooling: "none", maxLength: sessionMax, kept: "last" } as const;
  const history = { column: "seen", table: "item" };
  switch (name) {
    case "din":
      return {
        ...own,
        features: [{ column: "item" }, { ...history, ...unpooled }],
        attention: [{ target: "item", sequence: "seen", hidden: [32, 16], softmax: true }],
      };
    case "bst":
      return {
        ...own,
        kind: "bst",
        features: [{ column: "item" }, { ...history, ...unpooled }],
        transformers: [{ target: "item", sequence: "seen", hidden: 32, pooling: "mean" }],
      };
    case "mean":
      return {
        ...own,
        features: [{ column: "item" }, { ...history, pooling: "mean" }],
        attention: [],
      };
    default:
      throw new Error(`Expected --model din, bst or mean, got ${name}`);
  }
}

async function train(
  cluster: Cluster,
  { model, seed, home, rows }: { model: string; seed: number; home: string; rows: number },
): Promise<Outcome> {
  const startMs = performance.now();
  const dataOf = (part: (typeof parts)[number]) =>
    csv(join(home, `${part}.csv`), {
      label: "label",
      categorical: [
        { column: "item", ids: "integer" },
        { column: "seen", ids: "integer", separator: " " },
      ],
      batchSize: 512,
      cache: join(home, "cache"),
    });
  const job: JobOptions = {
    name: `sessions-${model}-${seed}`,
    model: modelOf(model, rows),
    data: { ...dataOf("train"), epochs: Number(flags.epochs) },
    optimizer: { dense: adam({ learningRate: 1e-3 }), sparse: adam({ learningRate: 1e-3 }) },
    evaluation: { data: dataOf("valid"), earlyStopping: { metric: "auc", patience: 2 } },
    checkpoint: { directory: join(home, `${model}-${seed}`), everySteps: 100_000 },
    seed,
  };
  const run = await cluster.submit(job);
  const { auc, step, history, digest } = await run.result();
  await using trained = await run.model();
  const test = await trained.evaluate(dataOf("test"));
  return {
    validAuc: auc ?? Number.NaN,
    testAuc: test.auc,
    testLogLoss: test.logLoss,
    epoch: 1 + history.findIndex((point) => point.step === step),
    seconds: (performance.now() - startMs) / 1000,
    digest,
  };
}

function rowOf(seed: number, model: string, outcome: Outcome): string {
  const { validAuc, testAuc, testLogLoss, epoch, seconds, digest } = outcome;
  return [
    model.padStart(5),
    String(seed).padStart(4),
    validAuc.toFixed(4).padStart(9),
    testAuc.toFixed(4).padStart(8),
    testLogLoss.toFixed(4).padStart(8),
    String(epoch).padStart(10),
    seconds.toFixed(1).padStart(7),
    digest,
  ].join("  ");
}

/** Prints the test AUC of both models over the seeds, and their paired difference. */
function tellDifference(models: readonly string[], found: readonly Outcome[][]): void {
  const aucs = models.map((_, at) => found.map((outcomes) => outcomes[at]?.testAuc ?? Number.NaN));
  for (const [at, model] of models.entries()) console.log(`${model}: test AUC ${spread(aucs[at])}`);
  const [own = [], other = []] = aucs;
  const differences = own.map((auc, seed) => auc - (other[seed] ?? Number.NaN));
  console.log(`${models.join(" - ")}, paired: ${spread(differences)}`);
}

/** Mean ± standard deviation of one value. */
function spread(values: readonly number[] = []): string {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return `${mean.toFixed(4)} ± ${Math.sqrt(squares / Math.max(1, values.length - 1)).toFixed(4)}`;
}

function fileOf(name: "train" | "test"): string {
  return join(flags.data, `yoochoose100k_${name}.tsv.gz`);
}
