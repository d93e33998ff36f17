// The jobs of simulations: small enough for a thousand runs in minutes, each with different
// features of the trainer.

import type { JobOptions } from "../../src/job/job.ts";

const tables = ["a", "b", "c"].map((name) => ({ name, rows: 40, dim: 4 }));

/** Checkpoint directory on the simulated disk. */
export const directory = "/run";

/** Address of the checkpoints of a scenario that has them in the bucket. */
export const storedDirectory = "s3://bucket/run";

const plain = {
  sharding: "as-written",
  model: { kind: "dlrm", dense: 2, tables, bottom: [4, 4], top: [4, 1] },
  data: { kind: "synthetic", samples: 360, dense: 2, batchSize: 16, cache: "/cache" },
  evaluation: { everySteps: 7 },
  slices: 4,
  arithmetic: "reference",
  checkpoint: { everySteps: 3, directory },
  stepDeadlineMs: 2000,
  restarts: { restartsMax: 1000, windowMs: 1 }, // Restart limits are not tested.
} satisfies JobOptions;

/** Tables are read ahead, where possible. */
const ahead: Partial<JobOptions> = { pipeline: { ahead: 1 } };

/** The shortest job: four steps. */
const short: JobOptions = {
  ...plain,
  data: { ...plain.data, samples: 60 } as JobOptions["data"],
  evaluation: { everySteps: 0 },
  checkpoint: { everySteps: 2, directory, keep: 1 },
};

/**
 * Two tables are cached, with rows on disk. One of them is durable: the next generation takes its
 * rows from the disk.
 */
const below: Partial<JobOptions> = {
  model: {
    ...plain.model,
    tables: [
      { name: "a", rows: 40, dim: 4, tier: "cached" },
      { name: "b", rows: 200, dim: 4, tier: "cached", keep: "durable" },
      { name: "c", rows: 40, dim: 4 },
    ],
  },
  tiers: { hbmBytes: 1, ddrBytes: 1, ssd: "file" },
};

/** Tables of three widths, shared by features; a sequence that is not pooled; one cached table. */
const shared: Partial<JobOptions> = {
  model: {
    ...plain.model,
    tables: [
      { name: "a", rows: 40, dim: 4, rowBlocks: 2, sharding: "row-wise" },
      { name: "b", rows: 200, dim: 40, tier: "cached", sharding: "column-wise" },
      { name: "c", rows: 40, dim: 2 },
    ],
    features: [
      { column: "a" },
      { column: "a2", table: "a", pooling: "none", maxLength: 2 },
      { column: "b", pooling: "mean" },
      { column: "b2", table: "b", pooling: "none", maxLength: 2 },
      { column: "c" },
    ],
    groups: [{ name: "g", features: ["b", "c"] }],
  },
  tiers: { hbmBytes: 1, ddrBytes: 1, ssd: "file" },
};

/**
 * Learning rates that depend on the step, on evaluations and on gradient clipping; evaluations use
 * averaged weights.
 */
const changing: Partial<JobOptions> = {
  optimizer: {
    dense: {
      kind: "adam",
      schedule: { kind: "cosine", warmUpSteps: 4, steps: 30 },
      clip: { norm: 0.1 },
      ema: { decay: 0.8 },
    },
    sparse: {
      kind: "rowWiseAdagrad",
      schedule: { kind: "step", everySteps: 10, factor: 0.5 },
      clip: { value: 0.01 },
    },
  },
  evaluation: { everySteps: 7, reduceOnPlateau: { metric: "logLoss", factor: 0.5, minDelta: 0.1 } },
};

/** Two tasks, a classification and a regression; early stopping watches the regression. */
const tasked: Partial<JobOptions> = {
  model: {
    kind: "sharedBottom",
    dense: 2,
    tables,
    shared: [6],
    tasks: [
      { name: "label", tower: [4] },
      { name: "label2", weight: 0.5, loss: { kind: "mse" } },
    ],
  },
  data: { ...plain.data, samples: 120, labels: 2 } as JobOptions["data"],
  evaluation: { everySteps: 3, earlyStopping: { metric: "mae", task: "label2", patience: 2 } },
  sharding: "auto",
};

/** Features with a sequence, and the data of its ids. */
const withSequence = [
  { column: "a" },
  { column: "seen", table: "a", pooling: "none", maxLength: 3, kept: "last" },
  { column: "b" },
  { column: "c" },
] as const;
const sequences = {
  ...plain.data,
  samples: 60,
  perFeature: { seen: { idsPerBag: { min: 0, max: 5 } } },
} as JobOptions["data"];

/** Samples without a cache, made by preprocessing workers: six splits of 64 samples. */
const served: Partial<JobOptions> = {
  data: { ...plain.data, streamed: true, splitSamples: 64 } as JobOptions["data"],
  // Limits on failing splits are not tested.
  preprocessing: { workersMin: 1, workersMax: 2, splitDeadlineMs: 500, attemptsMax: 100 },
};

/**
 * Sessions with repeating lists: a bag, and a sequence that is encoded once for all its samples.
 */
const repeating: Partial<JobOptions> = {
  model: {
    kind: "dlrm",
    dense: 2,
    tables,
    features: [
      { column: "a" },
      {
        ...{ column: "seen", table: "a", pooling: "none", maxLength: 3 },
        encoder: { kind: "attention" },
      },
      { column: "b" },
      { column: "c" },
    ],
    bottom: [4, 4],
    top: [4, 1],
  },
  data: {
    ...plain.data,
    samples: 90,
    order: "sessions",
    sessions: { samples: 5, features: { b: { d: 0.9, l: 2 }, seen: { d: 0.9, l: 3 } } },
    ikjt: "auto",
  } as JobOptions["data"],
};

const known: JobOptions[] = [
  plain,
  {
    ...plain,
    sharding: "auto",
    pipeline: { depth: 1 },
    optimizer: { dense: { kind: "adam" }, sparse: { kind: "adam" } },
    checkpoint: { everySteps: 2, directory, keep: 1 },
  },
  {
    ...plain,
    ...changing,
    ...ahead,
    readers: 2,
    data: { ...plain.data, epochs: 2, order: "split" } as JobOptions["data"],
    model: {
      ...plain.model,
      tables: [
        { name: "a", rows: 40, dim: 4, sharding: "row-wise", rowBlocks: 2 },
        { name: "b", rows: 40, dim: 4, sharding: "data-parallel" },
        { name: "c", rows: 40, dim: 4 },
      ],
    },
    checkpoint: { everySteps: 5, directory },
  },
  short,
  { ...plain, ...below, ...ahead },
  { ...short, ...below },
  {
    ...short,
    ...ahead,
    model: {
      ...plain.model,
      tables: [
        { name: "a", rows: 40, dim: 4, idBits: 64, dynamic: { everySteps: 2 } },
        { name: "b", rows: 400, dim: 4 },
      ],
    },
    checkpoint: { everySteps: 1, directory, keep: 2, differential: "consecutive" },
  },
  { ...short, ...shared, sharding: "auto" },
  {
    ...short,
    model: {
      kind: "wukong",
      dense: 2,
      tables: [...tables.slice(1), { name: "a", rows: 40, dim: 6 }],
      bottom: [4, 4],
      layers: [{ interacted: 2, compressed: 1, rank: 2, hidden: [4] }],
      top: [4, 1],
      dropout: 0.2,
      batchNorm: true,
    },
    sharding: "auto",
  },
  {
    ...short,
    model: {
      kind: "din",
      dense: 2,
      tables,
      features: withSequence,
      attention: [{ target: "a", sequence: "seen", hidden: [4] }],
      top: [4, 1],
      dropout: 0.2,
    },
    data: sequences,
    placement: { kind: "servers", servers: 1 },
  },
  {
    ...short,
    placement: { kind: "host" },
    loss: { kind: "mse" },
    evaluation: { everySteps: 2, reduceOnPlateau: { metric: "rmse", factor: 0.5, minDelta: 0.1 } },
  },
  { ...plain, ...tasked },
  {
    ...short,
    model: {
      kind: "bst",
      dense: 2,
      tables,
      features: withSequence,
      transformers: [{ target: "a", sequence: "seen", pooling: "concat" }],
      top: [4, 1],
      dropout: 0.2,
    },
    data: sequences,
  },
  { ...plain, ...served },
  { ...plain, ...served, ...changing, readers: 2, sharding: "auto" },
  { ...plain, ...repeating, ...ahead, sharding: "auto" },
  { ...short, ...repeating, pipeline: { depth: 1 }, readers: 2 },
];

/** All jobs; a scenario refers to one by index. */
export const jobs: readonly JobOptions[] = known;
/** Number of jobs that most scenarios are drawn from, the first ones. */
export const jobsDrawn = known.length;

/** Tables of the wide jobs, which follow: few scenarios have one, as each step touches them all. */
const wideTables = [150, 500, 2000] as const;
for (const count of wideTables) known.push(wide(count));
export const wideJobs = wideTables.length;

/** Four steps over many small tables, whose features interact in a few groups. */
function wide(count: number): JobOptions {
  const names = Array.from({ length: count }, (_, at) => `t${at}`);
  const size = Math.ceil(count / 4);
  return {
    ...short,
    model: {
      kind: "dlrm",
      dense: 2,
      tables: names.map((name) => ({ name, rows: 8, dim: 4 })),
      features: names.map((column) => ({ column })),
      groups: [0, 1, 2, 3].map((at) => {
        return { name: `g${at}`, features: names.slice(at * size, (at + 1) * size) };
      }),
      bottom: [4],
      top: [4, 1],
    },
    // A step deadline of its own: all deadlines follow from it, and a checkpoint has many parts.
    stepDeadlineMs: 20_000,
  };
}

/** Adds a job that no scenario draws. Returns its index. */
export function addJob(job: Partial<JobOptions>): number {
  return known.push({ ...plain, ...job }) - 1;
}
