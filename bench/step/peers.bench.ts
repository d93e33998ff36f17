// Question: how does a whole step compare with PyTorch's, on this machine, in this run? Ours on two
// device threads and the peer (pytorch.py) on two threads train in alternation, each round in fresh
// threads and processes. The peer's figure is that of its fastest variant. The first round runs all
// variants, later rounds only the fastest two of them, unless `--all-variants` is given. The ratio
// is the median of the pairs of one level of the machine's speed (levels.ts).
//
// Our float32 and bfloat16 are both compared with the same runs of the peer in float32.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Option } from "commander";
import type { DensePrecision } from "../../src/kernels/contract/kernels.ts";
import { type Bench, type Measurement, positive, positiveOption } from "../bench.ts";
import { type ConfigurationName, configuration, configurationNames } from "../configurations.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { ratesOf, runSteps } from "./device-threads.ts";
import { type Levelled, levelReader, levelsOf, type PairsOfLevel } from "./levels.ts";
import { measureStepLimit } from "./step-limit.ts";

const devices = 2;
const run = promisify(execFile);
/** The Python on the PATH, and Debian's, which the former may hide. */
const pythons = ["python3", "/usr/bin/python3"] as const;
const variants = ["bags", "fused", "manual"] as const;
/** Number of variants that later rounds run. */
const laterVariants = 2;

const optimizers = ["sgd", "rowWiseAdagrad"] as const;
type Optimizer = (typeof optimizers)[number];
type Target = readonly [atLeast: number, aim: number];

interface Cell {
  readonly config: ConfigurationName;
  readonly batch: number;
  readonly optimizer: Optimizer;
  readonly precision: DensePrecision;
  readonly target: Target;
}

/** Targets of the ratio. PyTorch multiplies in float32 in every cell. */
const targets: readonly Cell[] = [
  ...cellsOf("a", 128, [1.3, 1.7], [1.5, 1.9]),
  ...cellsOf("a", 2048, [1.25, 1.4], [1.3, 1.5], [1.8, 2.2]),
  ...cellsOf("b", 2048, [1.4, 1.6], [1.6, 1.9], [2.1, 2.6]),
  ...cellsOf("c", 2048, [1.7, 2.0], [1.8, 2.2], [2.0, 2.4]),
  ...cellsOf("d", 2048, [1.4, 1.8], [1.4, 1.8]),
  ...cellsOf("w", 2048, [1.4, 1.8], [1.4, 1.8]),
];

function cellsOf(
  config: ConfigurationName,
  batch: number,
  sgd: Target,
  rowWiseAdagrad: Target,
  bfloat16?: Target,
): Cell[] {
  const shape = { config, batch };
  const cells: Cell[] = [
    { ...shape, optimizer: "sgd", precision: "float32", target: sgd },
    { ...shape, optimizer: "rowWiseAdagrad", precision: "float32", target: rowWiseAdagrad },
  ];
  if (bfloat16 === undefined) return cells;
  return [...cells, { ...shape, optimizer: "sgd", precision: "bfloat16", target: bfloat16 }];
}

/** Options; a filter that is left out selects everything. */
interface PeersBenchOptions {
  readonly config?: readonly ConfigurationName[];
  readonly batch?: number;
  readonly optimizer?: readonly Optimizer[];
  readonly precision?: DensePrecision;
  readonly rounds: number;
  readonly seconds: number;
  readonly allVariants: boolean;
  /** A Python that has torch; left out, the first of `pythons` that has. */
  readonly python?: string;
  /** The peer's program: ours, or another with the same command line and the same last line. */
  readonly script?: string;
}

export const peersBench: Bench<PeersBenchOptions> = {
  question: "whole steps beside PyTorch's, in alternation in the same run, with their targets",
  options: [
    new Option("--config <names...>", "only these").choices(configurationNames),
    new Option("--batch <samples>", "only this batch").argParser(positive),
    new Option("--optimizer <kinds...>", "only these").choices(optimizers).default(["sgd"]),
    new Option("--precision <kind>", "only this").choices(["float32", "bfloat16"]),
    positiveOption("--rounds <count>", "processes of each, in turn", 2),
    positiveOption("--seconds <seconds>", "how long each measures in a round", 2),
    new Option("--all-variants", "all of the peer's variants in every round").default(false),
    new Option("--python <path>", "a Python that has torch"),
    new Option("--script <path>", "another program of the peer, with the same command line"),
  ],
  full: { optimizer: optimizers, rounds: 7 },
  measurements(options) {
    const { config, batch, optimizer, precision } = options;
    const wanted = targets.filter(
      (cell) =>
        (config?.includes(cell.config) ?? true) &&
        (batch ?? cell.batch) === cell.batch &&
        (optimizer?.includes(cell.optimizer) ?? true) &&
        (precision ?? cell.precision) === cell.precision,
    );
    const groups = new Map<string, Cell[]>();
    for (const cell of wanted) {
      const key = `${cell.config} ${cell.batch} ${cell.optimizer}`;
      groups.set(key, [...(groups.get(key) ?? []), cell]);
    }
    const python = findOnce(options.python === undefined ? pythons : [options.python]);
    return [...groups.values()].map((cells) => measurementOf(cells, options, python));
  },
};

/** The measurement of cells that differ only in precision, and share the peer's runs. */
function measurementOf(
  cells: readonly Cell[],
  options: PeersBenchOptions,
  python: () => Promise<string | undefined>,
): Measurement {
  const { rounds, seconds, allVariants } = options;
  const later = (rounds - 1) * (allVariants ? variants.length : laterVariants);
  const [{ config } = { config: "a" as const }] = cells;
  const ours = rounds * cells.length * (seconds + ourSetUpSeconds[config]);
  const theirs = (variants.length + later) * (seconds + peerSetUpSeconds[config]);
  const limits = 2 * rounds * cells.length;
  return {
    names: cells.map(nameOf),
    seconds: ours + theirs + limits,
    async *measure(isWanted) {
      const wanted = cells.filter((cell) => isWanted(nameOf(cell)));
      yield* await rowsOfCells(wanted, options, await python());
    },
  };
}

/** Seconds to make tables and batches; the peer also starts Python and imports torch. */
const ourSetUpSeconds = { a: 4, b: 4, c: 10, d: 4, w: 4 } as const;
const peerSetUpSeconds = { a: 8, b: 7, c: 12, d: 7, w: 7 } as const;

function nameOf({ config, batch, optimizer, precision }: Cell): string {
  return `train.${config}.${batch}.${optimizer}.${precision}`;
}

/** Finds the first candidate that has torch, when a row first needs it. */
function findOnce(candidates: readonly string[]): () => Promise<string | undefined> {
  let found: Promise<string | undefined> | undefined;
  return () => {
    found ??= findPython(candidates);
    return found;
  };
}

/** Prints the multiply-adds of a product of matrices on one thread, in GFLOP/s. */
const productProgram = `
import time, torch
torch.set_num_threads(1)
a = torch.rand(512, 512)
best = 0
for _ in range(6):
    begin = time.perf_counter()
    a @ a
    best = max(best, 2 * 512**3 / (time.perf_counter() - begin) / 1e9)
print(round(best))
`;

/** A slower PyTorch multiplies without a BLAS, so that ratios to it are meaningless. */
const gflopsMin = 20;

async function findPython(candidates: readonly string[]): Promise<string | undefined> {
  for (const python of candidates) {
    const rate = await run(python, ["-c", productProgram]).then(
      ({ stdout }) => Number(stdout),
      () => undefined,
    );
    if (rate === undefined) continue;
    if (rate < gflopsMin) {
      console.error(`The PyTorch of ${python} multiplies at ${rate} GFLOP/s: it has no fast BLAS,`);
      console.error("and the ratios below are meaningless: `apt-get install libopenblas0-openmp`.");
    }
    return python;
  }
  console.error("There is no PyTorch here: `apt-get install python3-torch libopenblas0-openmp`,");
  console.error("or name a Python with PyTorch by --python. Until then only ours is measured.");
  return undefined;
}

/** A row for each cell; without PyTorch, only of ours. */
async function rowsOfCells(
  cells: readonly Cell[],
  { seconds, rounds, allVariants, script = ownScript }: PeersBenchOptions,
  python: string | undefined,
): Promise<BenchRow[]> {
  const level = levelReader(devices);
  const ours = cells.map((): Levelled[] => []);
  const limits = cells.map((): number[] => []);
  let theirs: Peer[] = variants.map((variant) => ({ variant, is: variant, rates: [] }));
  for (let round = 0; round < rounds; round++) {
    for (const [i, cell] of cells.entries()) {
      const until = { seconds, steps: Number.POSITIVE_INFINITY };
      const found = await level(async () => {
        const [report] = await runSteps({ ...cell, ...until, devices, arithmetic: "auto" });
        return quantiles(ratesOf(cell.batch, report)).median;
      });
      ours[i]?.push(found);
      const limit = await measureStepLimit(configuration(cell.config), devices, cell.precision);
      limits[i]?.push(limit.rate);
    }
    const [cell] = cells;
    if (python === undefined || cell === undefined) continue;
    theirs = await runPeers(theirs, async (variant) => {
      let is = variant;
      const found = await level(async () => {
        const one = await runPeer(python, script, cell, variant, seconds);
        is = one.is;
        return one.rate;
      });
      return { is, found };
    });
    if (!allVariants) theirs = theirs.slice(0, laterVariants);
  }
  const [fastest] = theirs;
  return cells.map((cell, i) => rowOfCell(cell, ours[i] ?? [], limits[i] ?? [], fastest));
}

function rowOfCell(
  cell: Cell,
  ours: readonly Levelled[],
  limits: readonly number[],
  peer: Peer | undefined,
): BenchRow {
  const pairs = (peer?.rates ?? []).flatMap((rate, i) => {
    const [own] = ours.slice(i, i + 1);
    return own === undefined ? [] : [{ ours: own, peer: rate }];
  });
  const levels = levelsOf(pairs);
  const [most] = levels;
  const compared = most?.pairs.map((pair) => pair.ours) ?? ours;
  const { median, spread } = quantiles(compared.map(({ rate }) => rate));
  // The limit of the round that ours belongs to: it was measured just after ours.
  const shares = compared.map((one) => one.rate / (limits[ours.indexOf(one)] ?? 0));
  const reached = quantiles(shares).median;
  const row = {
    ...{ name: nameOf(cell), figure: median, unit: "samples/s", spread, target: cell.target },
    ...(Number.isFinite(reached) && { machine: median / reached, reached }),
  };
  if (peer === undefined) return row;
  const limitIs = `PyTorch ${peer.is}, float32, ${devices} threads; ${wordsOf(levels, pairs.length)}`;
  if (most === undefined) return { ...row, limitIs };
  const limit = quantiles(most.pairs.map((pair) => pair.peer.rate)).median;
  return { ...row, limit, limitIs, ratio: most.ratio };
}

/** For people: `5 pairs at 186 GFLOP/s (1.31), 2 at 121 (1.28)`. */
function wordsOf(levels: readonly PairsOfLevel[], all: number): string {
  const words = levels.map(({ level, pairs, ratio }, i) => {
    const count = i > 0 ? pairs.length : `${pairs.length} ${pairs.length === 1 ? "pair" : "pairs"}`;
    return `${count} at ${level.toFixed(0)} GFLOP/s (${ratio.toFixed(2)})`;
  });
  const across = all - levels.reduce((sum, { pairs }) => sum + pairs.length, 0);
  return [...words, ...(across > 0 ? [`${across} across levels`] : [])].join(", ");
}

/** A variant of the peer, and its samples/s round by round. */
interface Peer {
  readonly variant: string;
  /** Version of torch, and the variant. */
  readonly is: string;
  readonly rates: readonly Levelled[];
}

/**
 * Runs one more round of each variant; returns them fastest first, without those that the program
 * does not have for this optimizer. @throws the error of the last variant's process, if all fail
 */
async function runPeers(
  peers: readonly Peer[],
  runOnce: (variant: string) => Promise<{ is: string; found: Levelled }>,
): Promise<Peer[]> {
  const found: Peer[] = [];
  let failure: unknown;
  for (const { variant, rates } of peers) {
    try {
      const { is, found: one } = await runOnce(variant);
      found.push({ variant, is, rates: [...rates, one] });
    } catch (error) {
      failure = error;
    }
  }
  if (found.length === 0) throw failure;
  const medianOf = ({ rates }: Peer) => quantiles(rates.map(({ rate }) => rate)).median;
  return found.sort((a, b) => medianOf(b) - medianOf(a));
}

/** Samples/s of the peer's median step, measured in a process of its own. */
async function runPeer(
  python: string,
  script: string,
  { config, batch, optimizer }: Cell,
  variant: string,
  seconds: number,
): Promise<{ is: string; rate: number }> {
  const rule = optimizer === "sgd" ? "sgd" : "rwsadagrad";
  const words = [script, config, batch, devices, rule, variant, seconds];
  const { stdout } = await run(python, words.map(String));
  const [, torch, rate] = /torch (\S+) .*samples\/s.* median (\d+)/.exec(stdout) ?? [];
  return { is: `${torch}, ${variant}`, rate: Number(rate) };
}

// Compiled, this file is dist/bench/step/peers.bench.js; the program is beside the TypeScript.
const ownScript = fileURLToPath(new URL("../../../bench/step/pytorch.py", import.meta.url));
