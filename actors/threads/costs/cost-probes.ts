// Draws the probes that cost networks learn from: sets of tables on a device, and exchanges of
// uneven columns (NeuroShard: Zha et al., MLSys 2023, section 3.1). Each probe is a function of the
// seed and its number, so that measuring can stop at any probe and resume later.

import type { CostTable } from "../../../src/planner/reuse.ts";
import { reuseOf } from "../../../src/planner/reuse.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";

/** A table whose ids are popular by Zipf's law. */
export interface ProbedTable {
  readonly rows: number;
  readonly dim: number;
  readonly poolingFactor: number;
  readonly zipf: number;
}

/** Limits of the drawn probes. */
export interface ProbeLimits {
  readonly seed: number;
  readonly devices: number;
  /** Most bytes of the weights of a set. */
  readonly bytesMax: number;
  /** Most columns of a device in an exchange. */
  readonly columnsMax: number;
}

const dims = [4, 8, 16, 32, 64, 128];
/** Tables per set, and per exchange over all devices. */
const setTables = { min: 1, max: 24 };
const exchangeTables = { min: 10, max: 59 };
/** Most rows of a table; the least is 100, and rows are log-uniform in between. */
const rowsMost = 4_000_000;
/** Most ids of a sample; their number is log-normal with median e. */
const idsMost = 64;
const zipfMost = 1.4;

/** The tables of a set; the rows of each are limited so that the set fits in `bytesMax`. */
export function setProbe({ seed, bytesMax }: ProbeLimits, index: number): ProbedTable[] {
  const random = new RandomStream(seed, purposes.costProbes, 2 * index);
  const count = between(random, setTables);
  return Array.from({ length: count }, () => {
    const dim = dims[random.below(dims.length)] ?? 4;
    const rowsLimit = Math.min(rowsMost, Math.floor(bytesMax / count / (4 * dim)));
    const rows = Math.floor(100 * (Math.max(100, rowsLimit) / 100) ** random.uniform());
    const ids = Math.exp(1 + 1.2 * random.normal());
    return {
      rows: Math.max(100, rows),
      dim,
      poolingFactor: Math.min(idsMost, ids),
      zipf: zipfMost * random.uniform(),
    };
  });
}

/** The table as a cost network sees it. */
export function costTableOf(table: ProbedTable): CostTable {
  const { rows, dim, poolingFactor } = table;
  return { rows, dim, poolingFactor, bins: reuseOf(table) };
}

/** Columns of each device, and its delay at the start as a share of `lateMax`, 0 for the first. */
export interface ExchangeProbe {
  readonly columns: readonly number[];
  readonly late: readonly number[];
}

/**
 * Draws an exchange: each table goes to a random device with a probability drawn per probe, else to
 * the least loaded device.
 */
export function exchangeProbe(limits: ProbeLimits, index: number): ExchangeProbe {
  const { seed, devices, columnsMax } = limits;
  const random = new RandomStream(seed, purposes.costProbes, 2 * index + 1);
  const chance = random.uniform();
  const drawn = Array.from({ length: between(random, exchangeTables) }, () => {
    return dims[random.below(dims.length)] ?? 4;
  });
  const columns = new Array<number>(devices).fill(0);
  for (const dim of drawn.sort((a, b) => b - a)) {
    const least = columns.indexOf(Math.min(...columns));
    const device = random.uniform() < chance ? random.below(devices) : least;
    const sum = (columns[device] ?? 0) + dim;
    if (sum <= columnsMax) columns[device] = sum;
  }
  const spread = random.uniform();
  const starts = columns.map(() => spread * random.uniform());
  const first = Math.min(...starts);
  return { columns, late: starts.map((start) => start - first) };
}

function between(random: RandomStream, { min, max }: { min: number; max: number }): number {
  return min + random.below(max - min + 1);
}
