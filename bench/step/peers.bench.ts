// Question: how does a whole step compare with PyTorch's, on this machine, in this run? Ours on two
// device threads and the peer (pytorch.py) on two threads train in alternation, each round in
// fresh threads and processes. The peer's figure is that of its fastest variant.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { DensePrecision } from "../../src/kernels/contract/kernels.ts";
import { type ConfigurationName, configuration } from "../configurations.ts";
import { type BenchRow, quantiles } from "../report.ts";
import { measureStepLimit } from "./step-limit.ts";
import { ratesOf, runSteps } from "./train.bench.ts";

const devices = 2;
const run = promisify(execFile);
/** On the path, and Debian's, where another may stand before it. */
const pythons = ["python3", "/usr/bin/python3"] as const;
const variants = ["bags", "fused", "manual"] as const;

type Optimizer = "sgd" | "rowWiseAdagrad";
type Target = readonly [atLeast: number, aim: number];

interface Cell {
  readonly config: ConfigurationName;
  readonly batch: number;
  readonly optimizer: Optimizer;
  readonly precision: DensePrecision;
  readonly target: Target;
}

/** What a ratio has to be, and what it should be. PyTorch multiplies in float32 in all of them. */
const targets: readonly Cell[] = [
  ...cellsOf("a", 128, [1.3, 1.7], [1.5, 1.9]),
  ...cellsOf("a", 2048, [1.25, 1.4], [1.3, 1.5], [1.8, 2.2]),
  ...cellsOf("b", 2048, [1.4, 1.6], [1.6, 1.9], [2.1, 2.6]),
  ...cellsOf("c", 2048, [1.7, 2.0], [1.8, 2.2], [2.0, 2.4]),
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

/** Left out, a filter lets everything through. */
export interface PeersBenchOptions {
  readonly config?: readonly ConfigurationName[];
  readonly batch?: number;
  readonly optimizer?: Optimizer;
  readonly precision?: DensePrecision;
  readonly rounds: number;
  readonly seconds: number;
  /** A Python that has torch; left out, the first of `pythons` that has. */
  readonly python?: string;
  /** The peer's program: ours, or another with the same words and the same last line. */
  readonly script?: string;
}

/**
 * A row for each cell of the table of targets that the options let through. Without a PyTorch it
 * says how to get one, and measures ours alone.
 */
export async function benchPeers(options: PeersBenchOptions): Promise<BenchRow[]> {
  const { config, batch, optimizer, precision } = options;
  const wanted = targets.filter(
    (cell) =>
      (config?.includes(cell.config) ?? true) &&
      (batch ?? cell.batch) === cell.batch &&
      (optimizer ?? cell.optimizer) === cell.optimizer &&
      (precision ?? cell.precision) === cell.precision,
  );
  const python = await findPython(options.python === undefined ? pythons : [options.python]);
  if (python === undefined) {
    console.log("There is no PyTorch here: `apt-get install python3-torch libopenblas0-openmp`,");
    console.log("or any other, named by --python.");
  }
  const rows: BenchRow[] = [];
  for (const cell of wanted) rows.push(await cellRow(cell, options, python));
  return rows;
}

async function findPython(candidates: readonly string[]): Promise<string | undefined> {
  for (const python of candidates) {
    const hasTorch = await run(python, ["-c", "import torch"]).then(
      () => true,
      () => false,
    );
    if (hasTorch) return python;
  }
  return undefined;
}

async function cellRow(
  cell: Cell,
  { seconds, rounds, script = ownScript }: PeersBenchOptions,
  python: string | undefined,
): Promise<BenchRow> {
  const { config, batch, optimizer, precision, target } = cell;
  const ours: number[] = [];
  const theirs = new Map<string, number[]>();
  for (let round = 0; round < rounds; round++) {
    const until = { seconds, steps: Number.POSITIVE_INFINITY };
    const [report] = await runSteps({ ...cell, ...until, devices, arithmetic: "auto" });
    ours.push(quantiles(ratesOf(batch, report)).median);
    if (python === undefined) continue;
    for (const { peer, rate } of await runPeers(python, script, cell, seconds)) {
      theirs.set(peer, [...(theirs.get(peer) ?? []), rate]);
    }
  }
  const machine = await measureStepLimit(configuration(config), devices, precision);
  const { median, spread } = quantiles(ours);
  const row = {
    name: `train.${config}.${batch}.${optimizer}.${precision}`,
    figure: median,
    unit: "samples/s",
    spread,
    target,
    ...(machine.rate === 0 ? {} : { machine: machine.rate, reached: median / machine.rate }),
  };
  const [fastest] = [...theirs]
    .map(([peer, rates]) => ({ peer, rate: quantiles(rates).median }))
    .sort((a, b) => b.rate - a.rate);
  if (fastest === undefined) return row;
  const limitIs = `PyTorch ${fastest.peer}, float32, ${devices} threads`;
  return { ...row, limit: fastest.rate, limitIs, ratio: median / fastest.rate };
}

/**
 * Samples/s of the median step of every variant. One that the program does not have for this
 * optimizer is left out. @throws what the last variant's process failed with, if all fail
 */
async function runPeers(
  python: string,
  script: string,
  { config, batch, optimizer }: Cell,
  seconds: number,
): Promise<{ peer: string; rate: number }[]> {
  const rule = optimizer === "sgd" ? "sgd" : "rwsadagrad";
  const found: { peer: string; rate: number }[] = [];
  let failure: unknown;
  for (const variant of variants) {
    try {
      const words = [script, config, batch, devices, rule, variant, seconds];
      const { stdout } = await run(python, words.map(String));
      const [, torch, rate] = /torch (\S+) .*samples\/s.* median (\d+)/.exec(stdout) ?? [];
      found.push({ peer: `${torch}, ${variant}`, rate: Number(rate) });
    } catch (error) {
      failure = error;
    }
  }
  if (found.length === 0) throw failure;
  return found;
}

// Compiled, this file is dist/bench/step/peers.bench.js; the program is beside the TypeScript.
const ownScript = fileURLToPath(new URL("../../../bench/step/pytorch.py", import.meta.url));
