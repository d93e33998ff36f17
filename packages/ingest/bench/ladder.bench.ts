// Question: how much does each improvement of Meta's storage layout (DSI) gain here, and how much
// in the paper? The improvements form a ladder of steps, each on top of the previous one. Real
// files in each layout: useful bytes a second on a modelled disk, and rows a second on one real
// core. Zhao et al., Understanding data storage and ingestion, ISCA 2022, section 7.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type Bench, positiveOption, together } from "../../../bench/bench.ts";
import { type BenchRow, rowOf } from "../../../bench/row.ts";
import { temporaryHome } from "../../../internal.ts";
import { type CpuStep, cpuSteps, readOnCpu } from "./cpu-ladder.ts";
import { type DiskCost, readOnDisk } from "./disk-ladder.ts";
import { BatchDigest, featuresOfJob } from "./feature-batch.ts";
import { byPopularity, drawLogged, type Logged } from "./features.ts";
import { writeFlattened, writeMaps } from "./layouts.ts";

interface LadderOptions {
  readonly rows: number;
  readonly features: number;
  readonly stripe: number;
  readonly rounds: number;
}

/** The disk steps, with the paper's read speeds as multiples of the map layout's speed. */
const diskSteps = {
  map: 1,
  flattened: 0.03,
  coalesced: 0.99,
  reordered: 1.84,
  largeStripes: 2.41,
} as const;
type DiskStepName = keyof typeof diskSteps;
const diskNames = Object.keys(diskSteps) as DiskStepName[];
const cpuPaper: Readonly<Record<CpuStep, number>> = { map: 1, flattened: 2, flatMaps: 2.3 };
/** Rows of a large stripe, as a multiple of the rows of a usual stripe. */
const largeFactor = 4;
/** Gain of all steps together: the least gain that passes, and the paper's gain. */
const diskTarget = [1.9, 2.41] as const;
const cpuTarget = [2.3, 2.3] as const;

const diskRow = (step: string) => `ladder.disk.${step}`;
const cpuRow = (step: string) => `ladder.cpu.${step}`;
const shareRow = "ladder.bytes";
const signsRow = (kind: string) => `ladder.${kind}.signs`;

export const ladderBench: Bench<LadderOptions> = {
  question: "useful bytes/s and rows/s of each step from map columns to flat maps, beside DSI's",
  options: [
    positiveOption("--rows <count>", "rows of the files", 16_384),
    positiveOption("--features <count>", "features; a tenth is read", 600),
    positiveOption("--stripe <rows>", "rows of a row group", 4096),
    positiveOption("--rounds <count>", "repetitions on the core", 5),
  ],
  full: { features: 2400, rounds: 7 },
  measurements(options) {
    const names = [
      shareRow,
      ...diskNames.flatMap((step) => [diskRow(step), `${diskRow(step)}.overread`]),
      signsRow("disk"),
      ...cpuSteps.map(cpuRow),
      signsRow("cpu"),
    ];
    const millions = (options.rows * options.features) / 1e6;
    return [together(names, millions * (6 + options.rounds), () => ladderRows(options))];
  },
};

/** All rows of the bench. */
export async function ladderRows(options: LadderOptions): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-ladder-");
  const logged = drawLogged(options.rows, options.features);
  const files = writeLayouts(home.path, logged, options.stripe);
  return [...(await diskRows(files, logged)), ...(await cpuRows(files, logged, options.rounds))];
}

type Files = Readonly<Record<"map" | "flattened" | "reordered" | "largeStripes", string>>;

function writeLayouts(home: string, logged: Logged, stripe: number): Files {
  const files = {
    map: join(home, "map.parquet"),
    flattened: join(home, "flattened.parquet"),
    reordered: join(home, "reordered.parquet"),
    largeStripes: join(home, "large-stripes.parquet"),
  };
  const popular = byPopularity(logged);
  writeMaps(files.map, logged, stripe);
  writeFlattened(files.flattened, logged.rows, logged.features, stripe);
  writeFlattened(files.reordered, logged.rows, popular, stripe);
  writeFlattened(files.largeStripes, logged.rows, popular, stripe * largeFactor);
  return files;
}

async function diskRows(files: Files, logged: Logged): Promise<BenchRow[]> {
  const columns = logged.job.flatMap((key) => logged.features[key]?.name ?? []);
  const flat = (path: string, isCoalesced = true) => readOnDisk({ path, columns, isCoalesced });
  const costs: Record<DiskStepName, DiskCost> = {
    map: await readOnDisk({ path: files.map, isCoalesced: true }),
    flattened: await flat(files.flattened, false),
    coalesced: await flat(files.flattened),
    reordered: await flat(files.reordered),
    largeStripes: await flat(files.largeStripes),
  };
  // The useful bytes are the same for every layout: those of the job's columns, flattened.
  const useful = costs.flattened.wanted;
  const rate = (cost: DiskCost) => useful / cost.seconds / 1e6;
  return [
    rowOf(
      { name: shareRow, unit: "bytes of the job's features", limitIs: "all features" },
      [useful],
      [costs.map.wanted],
    ),
    ...diskNames.flatMap((step) => {
      const target = step === "largeStripes" ? { target: diskTarget } : {};
      return [
        rowOf(
          {
            name: diskRow(step),
            unit: "useful MB/s",
            limitIs: mapSays(diskSteps[step]),
            ...target,
          },
          [rate(costs[step])],
          [rate(costs.map)],
        ),
        rowOf(
          { name: `${diskRow(step)}.overread`, unit: `bytes read a useful byte` },
          [costs[step].read / useful],
          [],
        ),
      ];
    }),
    signs(
      "disk",
      diskNames.map((step) => rate(costs[step])),
      Object.values(diskSteps),
    ),
  ];
}

/** Counts the steps that make reading faster or slower as the same step does in the paper. */
function signs(kind: string, ours: readonly number[], theirs: readonly number[]): BenchRow {
  const signOf = (rates: readonly number[], i: number) => {
    return Math.sign((rates[i + 1] ?? 0) - (rates[i] ?? 0));
  };
  const steps = theirs.length - 1;
  const same = Array.from({ length: steps }, (_, i) => signOf(ours, i) === signOf(theirs, i));
  const unit = "steps with the paper's sign";
  const target = [1, 1] as const;
  return rowOf(
    { name: signsRow(kind), unit, limitIs: "all steps", target },
    [same.filter(Boolean).length],
    [steps],
  );
}

function mapSays(factor: number): string {
  return `the map layout; the paper has ${Math.round(100 * factor)} %`;
}

async function cpuRows(files: Files, logged: Logged, rounds: number): Promise<BenchRow[]> {
  const job = featuresOfJob(logged);
  const pathOf = { map: files.map, flattened: files.largeStripes, flatMaps: files.largeStripes };
  const rates: Record<CpuStep, number[]> = { map: [], flattened: [], flatMaps: [] };
  const digests = new Set<string>();
  for (const step of cpuSteps) {
    const digest = new BatchDigest(job);
    await readOnCpu(step, pathOf[step], job, (batch) => digest.add(batch));
    digests.add(digest.digest());
  }
  assert.equal(digests.size, 1, "all steps make the same batches");
  for (let round = 0; round < rounds; round++) {
    for (const step of cpuSteps) {
      let rows = 0;
      const startMs = performance.now();
      await readOnCpu(step, pathOf[step], job, (batch) => {
        rows += batch.rows;
      });
      rates[step].push((1000 * rows) / (performance.now() - startMs));
    }
  }
  const rows = cpuSteps.map((step) => {
    const target = step === "flatMaps" ? { target: cpuTarget } : {};
    return rowOf(
      { name: cpuRow(step), unit: "rows/s", limitIs: mapSays(cpuPaper[step]), ...target },
      rates[step],
      rates.map,
    );
  });
  const figures = rows.map(({ figure }) => figure);
  return [...rows, signs("cpu", figures, Object.values(cpuPaper))];
}
