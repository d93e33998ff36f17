// Measures how log loss falls with compute: Wukong, DLRM and DCN v2 at five sizes each, over two
// orders of magnitude of FLOPs per sample, on generated data whose best log loss is known
// (planted-interactions.ts). Every sample is seen once.
//
//   node dist/examples/scaling-law.js --list             the points
//   node dist/examples/scaling-law.js --point wukong-3   trains one, and appends its result
//   node dist/examples/scaling-law.js                    trains missing points; about 12 min
//   node dist/examples/scaling-law.js --tell             the table and the fits
//   node dist/examples/scaling-law.js --draw             the picture of docs/models.md
//
// --results FILE: one line per point; --home DIRECTORY: the samples; --samples N: for a trial run.

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { adam, Cluster, csv, type JobOptions, modelSize } from "../index.ts";
import { columns, type FileReport, idsOfFeature, writeSamples } from "./planted-interactions.ts";
import { fitPowerLaw } from "./power-law.ts";
import { drawScalingLaw } from "./scaling-law-picture.ts";

/** The outcome of one point: a line of the results file. */
export interface Outcome extends FileReport {
  readonly point: string;
  readonly samples: number;
  readonly seed: number;
  /** FLOPs of a forward pass per sample. */
  readonly flops: number;
  readonly denseParameters: number;
  /** Log loss on the test samples. */
  readonly logLoss: number;
  readonly seconds: number;
  readonly digest: string;
}

const { values: flags } = parseArgs({
  options: {
    list: { type: "boolean", default: false },
    tell: { type: "boolean", default: false },
    draw: { type: "boolean", default: false },
    point: { type: "string" },
    results: { type: "string", default: "docs/pictures/scaling-law.jsonl" },
    home: { type: "string", default: join(tmpdir(), "osiris-scaling-law") },
    samples: { type: "string", default: "3000000" },
    seed: { type: "string", default: "1" },
  },
});

const samples = Number(flags.samples);
const seed = Number(flags.seed);
const testSamples = 100_000;
const batchSize = 512;
const steps = Math.ceil(samples / batchSize);
/** Steps of warm-up, after which the learning rate falls linearly to 0. */
const warmUpSteps = Math.ceil(steps / 20);
const decay = { kind: "polynomial", warmUpSteps, steps: steps - warmUpSteps } as const;
const optimizer = adam({ learningRate: 0.005, schedule: decay });
const dim = 8;

const tables = columns.map((name) => ({
  name,
  rows: idsOfFeature,
  dim,
  initScale: 0.3,
  sharding: "data-parallel" as const,
}));

/**
 * Layers of a Wukong model, each with `vectors` interacted and `vectors` compressed outputs, and
 * all dot products.
 */
function layersOf(layers: number, vectors: number) {
  const layer = { interacted: vectors, compressed: vectors, rank: "full" } as const;
  return Array.from({ length: layers }, () => layer);
}

/** The models by name, from the smallest to the largest of each architecture. */
const points: Readonly<Record<string, JobOptions["model"]>> = {
  "wukong-1": { kind: "wukong", tables, layers: layersOf(1, 3), top: [16, 1] },
  "wukong-2": { kind: "wukong", tables, layers: layersOf(2, 6), top: [32, 1] },
  "wukong-3": { kind: "wukong", tables, layers: layersOf(2, 12), top: [64, 1] },
  "wukong-4": { kind: "wukong", tables, layers: layersOf(2, 16), top: [128, 1] },
  "wukong-5": { kind: "wukong", tables, layers: layersOf(3, 20), top: [256, 1] },
  "dlrm-1": { kind: "dlrm", tables, top: [84, 1] },
  "dlrm-2": { kind: "dlrm", tables, top: [112, 112, 1] },
  "dlrm-3": { kind: "dlrm", tables, top: [272, 272, 1] },
  "dlrm-4": { kind: "dlrm", tables, top: [412, 412, 1] },
  "dlrm-5": { kind: "dlrm", tables, top: [760, 760, 1] },
  "dcnV2-1": { kind: "dcnV2", tables, crossLayers: 2, rank: 12, top: [16, 1] },
  "dcnV2-2": { kind: "dcnV2", tables, crossLayers: 2, top: [16, 1] },
  "dcnV2-3": { kind: "dcnV2", tables, crossLayers: 3, top: [200, 200, 1] },
  "dcnV2-4": { kind: "dcnV2", tables, crossLayers: 4, top: [350, 350, 1] },
  "dcnV2-5": { kind: "dcnV2", tables, crossLayers: 4, top: [700, 700, 1] },
};

if (flags.list) list();
else if (flags.tell) tell(outcomes());
else if (flags.draw) writeFileSync("docs/pictures/scaling-law.svg", drawScalingLaw(outcomes()));
else await train(flags.point === undefined ? missing() : [flags.point]);

function list(): void {
  for (const [name, model] of Object.entries(points)) {
    const { flops, denseParameters } = modelSize(model);
    const cells = [name.padEnd(10), `${flops} FLOPs`.padStart(14), `${denseParameters} parameters`];
    console.log(cells.join("  "));
  }
}

/** The outcomes in the results file. */
function outcomes(): Outcome[] {
  if (!existsSync(flags.results)) return [];
  const lines = readFileSync(flags.results, "utf8").trimEnd().split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Outcome);
}

function missing(): string[] {
  const known = new Set(outcomes().map((one) => `${one.point} ${one.seed} ${one.samples}`));
  return Object.keys(points).filter((point) => !known.has(`${point} ${seed} ${samples}`));
}

async function train(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => points[name] === undefined);
  if (unknown !== undefined) throw new Error(`There is no point ${unknown}: --list has them all`);
  if (names.length === 0) return;
  const files = prepared();
  await using cluster = await Cluster.start({ devices: 1 });
  for (const name of names) {
    const outcome = await trainOne(cluster, name, files);
    // Written before the next point is trained, so that an interruption loses only one point.
    writeFileSync(flags.results, `${JSON.stringify(outcome)}\n`, { flag: "a" });
    tell([outcome]);
  }
}

async function trainOne(cluster: Cluster, point: string, files: FileReport): Promise<Outcome> {
  const model = points[point] as JobOptions["model"];
  const directory = join(flags.home, `${point}-${seed}`);
  rmSync(directory, { recursive: true, force: true });
  const startMs = performance.now();
  const run = await cluster.submit({
    name: point,
    model,
    data: dataOf("train"),
    optimizer: { dense: optimizer, sparse: optimizer },
    evaluation: { data: dataOf("test"), everySteps: 1_000_000 },
    checkpoint: { directory, everySteps: 1_000_000 },
    seed,
  });
  const { logLoss = Number.NaN, digest } = await run.result();
  rmSync(directory, { recursive: true, force: true });
  const seconds = Math.round((performance.now() - startMs) / 100) / 10;
  return { point, samples, seed, ...modelSize(model), logLoss, ...files, seconds, digest };
}

function dataOf(part: "train" | "test") {
  return csv(join(flags.home, `${part}-${samples}.csv`), {
    label: "label",
    categorical: columns.map((column) => ({ column, ids: "integer" as const })),
    batchSize,
    shuffle: false, // Samples are independent.
    cache: join(flags.home, "cache"),
  });
}

/** Writes missing files of samples. Returns the reference losses of the test samples. */
function prepared(): FileReport {
  mkdirSync(flags.home, { recursive: true });
  const report = join(flags.home, `test-${samples}.json`);
  if (!existsSync(report)) {
    writeSamples(join(flags.home, `train-${samples}.csv`), samples, 2);
    const files = writeSamples(join(flags.home, `test-${samples}.csv`), testSamples, 3);
    writeFileSync(report, JSON.stringify(files));
  }
  return JSON.parse(readFileSync(report, "utf8"));
}

function tell(all: readonly Outcome[]): void {
  for (const { point, seed: own, flops, logLoss, bestLogLoss, seconds, digest } of all) {
    const above = `${(logLoss - bestLogLoss).toFixed(4)} above the best`;
    const cells = [point.padEnd(9), `seed ${own}`, `${(flops / 1e6).toFixed(4)} MFLOP`];
    console.log([...cells, logLoss.toFixed(4), above, `${seconds} s`, digest].join("  "));
  }
  if (all.length === 1) return;
  for (const [architecture, { a, b, c, residuals }] of fitsOf(all)) {
    const largest = Math.max(...residuals.map(Math.abs)).toFixed(4);
    const law = `${(-a).toFixed(4)} + ${b.toFixed(4)} x^${c.toFixed(3)}`;
    console.log(`${architecture.padEnd(9)}  log loss = ${law}, residuals up to ${largest}`);
  }
}

/** The law of each architecture with at least four points; x in MFLOP. */
function fitsOf(all: readonly Outcome[]) {
  const names = [...new Set(all.map(({ point }) => point.split("-")[0] ?? ""))];
  return names.flatMap((name) => {
    const own = all.filter(({ point }) => point.startsWith(`${name}-`));
    if (own.length < 4) return [];
    const law = fitPowerLaw(own.map(({ flops, logLoss }) => ({ x: flops / 1e6, y: logLoss })));
    return [[name, law] as const];
  });
}
