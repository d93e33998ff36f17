// Calibration of row operations: lookups, gradients and updates by shard width and by reuse of rows
// within a batch; row blocks, sums of column-sharded rows, replicated tables, and the transport of
// ids. Times become constants of the cost model (src/planner/cost/cost.ts), which adds them up in
// the same way.

import {
  BagMemory,
  type BagShard,
  bagFrameBytes,
  writeBagFrame,
} from "../../src/embedding/lookup/bag-frames.ts";
import {
  type Bags,
  type Kernels,
  quantumColumns,
  type Rows,
  type Tensor,
} from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { type RowCosts, rowCostsOf } from "../../src/planner/cost/row-costs.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { leastSeconds, measuredRule as rule } from "./measuring.ts";

/** Sizes of the measured workloads. */
export interface CalibrationSize {
  /** Bytes of the table that rows are read from: more than the caches hold. */
  readonly tableBytes: number;
  readonly samples: number;
  readonly idsPerBag: number;
  /** Bytes from each device to each other in a round of the all-to-all. */
  readonly partBytes: number;
  /** Elements of the all-reduced vector. */
  readonly gradientLength: number;
  /** Rows, columns and inner extent of the matrix product. */
  readonly productExtent: number;
  /** Repetitions, of which the fastest counts. */
  readonly rounds: number;
}

/** The measured row rates of one device. */
export interface RowRates {
  /** Bytes per second of lookups in rows of 32, 64 and 128 columns. */
  readonly lookup: readonly [number, number, number];
  /** Costs of rows, by width. */
  readonly rows: readonly RowCosts[];
  /** Cost of a lookup in a shard of four row blocks, relative to one block. */
  readonly blocksFactor: number;
  /**
   * Seconds per distinct row to combine the column shards' partial sums of squares, besides the
   * sums.
   */
  readonly rowSumSeconds: number;
  /**
   * Update cost of a replicated table, in passes over its bytes: the gradient is cleared and
   * written, the table updated.
   */
  readonly denseUpdatePasses: number;
  /** Seconds per id sent to a shard, and per id dealt to row shards. */
  readonly idSeconds: number;
  readonly dealSeconds: number;
}

/** Lookups per row of the replicated table in a batch. */
const lookupsOfCopy = 4;

/**
 * Measured widths, in columns: fractions of a vector register and multiples of it, for which the
 * kernels have separate code, and one width in between that takes the code for fractions.
 */
const widths = [4, 8, 16, 32, 64, 96, 128] as const;

/**
 * Measures row rates on this device alone. `pause` lets the other devices catch up between
 * measurements.
 */
export async function measureRows(
  kernels: Kernels,
  clock: Clock,
  size: CalibrationSize,
  pause: () => Promise<unknown>,
): Promise<RowRates> {
  const rows: RowCosts[] = [];
  for (const columns of widths) {
    rows.push(measureWidth(kernels, clock, size, columns));
    await pause();
  }
  const rate = (columns: number) => {
    const { lookupId = 0, lookupRow = 0, vector = 0 } = rowCostsOf(rows, columns) ?? {};
    const { idsPerBag } = size;
    const bytes = idsPerBag * (4 + 4 * columns) + 4 * columns;
    return bytes / (idsPerBag * (lookupId + lookupRow) + vector);
  };
  return {
    lookup: [rate(32), rate(64), rate(128)],
    rows,
    blocksFactor: measureBlocks(kernels, clock, size),
    rowSumSeconds: measureSums(kernels, clock, size),
    denseUpdatePasses: measureCopy(kernels, clock, size, rows) * rate(128),
    ...measureIds(clock, size),
  };
}

/**
 * Row costs of one width, from three scenes: bags of few rows, which the caches hold; the same with
 * one id per bag; and bags of distinct rows, which come from memory.
 */
function measureWidth(
  kernels: Kernels,
  clock: Clock,
  size: CalibrationSize,
  columns: number,
): RowCosts {
  const timed = (rows: number, idsPerBag: number) =>
    timeScene(kernels, clock, size.rounds, sceneOf(kernels, { ...size, idsPerBag }, columns, rows));
  const hot = timed(hotRows, size.idsPerBag);
  const single = timed(hotRows, 1);
  const rowsMax = Math.floor(size.tableBytes / sceneTables / (4 * columns));
  const cold = timed(Math.min(coldRows, rowsMax), size.idsPerBag);
  const costs = solveRowCosts({ hot, single, cold }, size.idsPerBag);
  return { columns, ...costs };
}

/** Seconds per id of a scene, and distinct rows per id. */
export interface SceneTimes {
  readonly lookup: number;
  readonly update: number;
  readonly sums: number;
  readonly distinct: number;
}

/**
 * Solves for the costs that explain the three scenes of `measureWidth`. Each is at least 0, even
 * with noise.
 */
export function solveRowCosts(
  { hot, single, cold }: Readonly<Record<"hot" | "single" | "cold", SceneTimes>>,
  idsPerBag: number,
): Omit<RowCosts, "columns"> {
  const vectorOf = (single.lookup - hot.lookup) / (1 - 1 / Math.max(2, idsPerBag));
  const vector = Math.min(single.lookup, Math.max(0, vectorOf));
  const lookupId = Math.max(0, hot.lookup - vector / idsPerBag);
  const perRow = (name: "lookup" | "update" | "sums") => {
    return Math.max(0, cold[name] - hot[name]) / Math.max(1e-3, cold.distinct - hot.distinct);
  };
  const [updateRow, sumsRow] = [perRow("update"), perRow("sums")];
  return {
    ...{ lookupId, lookupRow: perRow("lookup"), vector },
    ...{ updateId: Math.max(0, hot.update - hot.distinct * updateRow), updateRow },
    ...{ sumsId: Math.max(0, hot.sums - hot.distinct * sumsRow), sumsRow },
  };
}

/** Seconds per id of a scene, cycling through its batches so that rows are not cached. */
function timeScene(
  kernels: Kernels,
  clock: Clock,
  rounds: number,
  { tables, batches, out, slices, distinct }: Scene,
): SceneTimes {
  const rules = tables.map(() => rule);
  let turn = 0;
  const next = () => batches[turn++ % batches.length] ?? noBags;
  const ids = batches[0]?.ids.length ?? 1;
  const perId = (work: (bags: Bags) => void) =>
    leastSeconds(clock, rounds, () => work(next())) / ids;
  const update = perId((bags) => kernels.updateRows(tables, bags, out, slices, rules));
  const counts = new Int32Array(tables.length);
  const lookups = new Float64Array(ids);
  const means = new Float32Array(ids);
  // Both phases, as in a step: the update takes the order that the sums have kept.
  const phases = perId((bags) => {
    const order = { lookups, ids: bags.ids };
    kernels.rowSquares(tables, bags, out, 0, slices, rules, counts, order);
    const completed = tables.map(({ dim }, t) => {
      return { means: means.subarray(0, (counts[t] ?? 0) / Math.ceil(dim / quantumColumns)) };
    });
    kernels.updateRows(tables, bags, out, slices, rules, completed, order);
  });
  return {
    lookup: perId((bags) => kernels.pool(out, tables, bags, 0, bags.samples)),
    update,
    sums: Math.max(0, phases - update),
    distinct: distinct / ids,
  };
}

/** Cost of a lookup in rows of 64 columns in four row blocks, relative to one block. */
function measureBlocks(kernels: Kernels, clock: Clock, size: CalibrationSize): number {
  const [one = 1, four = 1] = [1, 4].map((rowBlocks) => {
    const scene = sceneOf(kernels, size, 64, hotRows, rowBlocks);
    return timeScene(kernels, clock, size.rounds, scene).lookup;
  });
  return Math.max(1, four / one);
}

/** Seconds per row to combine the mean of squares from two column shards. */
function measureSums(kernels: Kernels, clock: Clock, { samples, rounds }: CalibrationSize): number {
  const sums = new Float32Array(samples).fill(0.5);
  const seconds = leastSeconds(clock, rounds, () => {
    kernels.rowMeans([sums, sums], [1, 1], 64);
  });
  return seconds / samples;
}

/** Seconds per byte of a replicated table's backward and update, without the cost of its ids. */
function measureCopy(
  kernels: Kernels,
  clock: Clock,
  size: CalibrationSize,
  costs: readonly RowCosts[],
): number {
  const columns = 64;
  const ids = size.samples * size.idsPerBag;
  const rows = Math.max(1, Math.ceil(ids / lookupsOfCopy));
  const table = kernels.rows({ rows, dim: columns, pooling: "sum", rowBlocks: 1, stateWidth: 1 });
  const random = new RandomStream(1, columns);
  const offsets = Int32Array.from({ length: size.samples + 1 }, (_, i) => i * size.idsPerBag);
  const drawn = Int32Array.from({ length: ids }, () => random.below(rows));
  const bags: Bags = { tables: 1, samples: size.samples, offsets, ids: drawn };
  const out = kernels.tensor([size.samples, columns]);
  const slices = slicesOf(0, 8, 8, size.samples);
  const [dRows, counts] = [kernels.tensor([rows, columns]), kernels.tensor([rows])];
  const seconds = leastSeconds(clock, size.rounds, () => {
    kernels.dRows([dRows], [counts], [table], bags, out, 0, slices);
    kernels.applyRows(table, dRows, counts, rule, false);
  });
  const { updateId = 0 } = rowCostsOf(costs, columns) ?? {};
  return Math.max(0, seconds - updateId * ids) / (4 * columns * rows);
}

/** Seconds per id to send it from the samples to a shard, and to deal it to half of the rows. */
function measureIds(clock: Clock, { samples, idsPerBag, rounds }: CalibrationSize) {
  const count = samples * idsPerBag;
  const random = new RandomStream(1, 0);
  const local = {
    samples,
    lengths: new Int32Array(samples).fill(idsPerBag),
    rows: Int32Array.from({ length: count }, () => random.below(count)),
    starts: Int32Array.of(0, count),
    weights: undefined,
  };
  const all: BagShard = { lookup: 0, firstRow: 0, rows: count, isWhole: true, isWeighted: false };
  const half = { ...all, rows: Math.ceil(count / 2), isWhole: false };
  const frame = new Int32Array(bagFrameBytes(samples, [all], [samples * idsPerBag]) / 4);
  const memory = new BagMemory();
  const sent = leastSeconds(clock, rounds, () => {
    writeBagFrame(frame, local, [all], -1);
    memory.gather([{ ints: frame, samples }], [all]);
  });
  const dealt = leastSeconds(clock, rounds, () => {
    writeBagFrame(frame, local, [half], -1);
  });
  return { idSeconds: sent / count, dealSeconds: dealt / count };
}

/**
 * Tables of a scene, looked up together as in a step, and the columns of a device's pooled vectors.
 */
const sceneTables = 8;
const sceneColumns = 1024;
/** Rows of a hot table: few enough for the caches. */
const hotRows = 512;
/** Rows of a cold table: with the other tables, more than the caches hold. */
const coldRows = 2 ** 16;
/** Batches of a scene, used in turn. */
const sceneBatches = 8;

/** A measured workload: tables of one width, and batches of random bags. */
interface Scene {
  /** The last table only pads the vectors to a device's length. */
  readonly tables: readonly Rows[];
  readonly batches: readonly Bags[];
  readonly out: Tensor;
  readonly slices: ReturnType<typeof slicesOf>;
  /** Distinct rows of a batch, over all tables. */
  readonly distinct: number;
}

const noBags: Bags = { tables: 0, samples: 0, offsets: Int32Array.of(0), ids: new Int32Array(0) };

function sceneOf(
  kernels: Kernels,
  { samples: all, idsPerBag }: CalibrationSize,
  dim: number,
  rowCount: number,
  rowBlocks = 1,
): Scene {
  const samples = Math.max(8, Math.ceil(all / sceneTables));
  const rows = Math.max(1, rowCount);
  const shape = { pooling: "sum", stateWidth: 1 } as const;
  const tables = Array.from({ length: sceneTables }, () => {
    const table = kernels.rows({ ...shape, rows, dim, rowBlocks });
    kernels.fill(table.weights, 0.5);
    return table;
  });
  const filler = Math.max(1, sceneColumns - sceneTables * dim);
  tables.push(kernels.rows({ ...shape, rows: 1, dim: filler, rowBlocks: 1 }));
  const random = new RandomStream(1, dim);
  const bags = sceneTables * samples;
  const batches = Array.from({ length: sceneBatches }, (): Bags => {
    const ids = Int32Array.from({ length: bags * idsPerBag }, () => random.below(rows));
    const offsets = Int32Array.from({ length: bags + samples + 1 }, (_, i) => {
      return Math.min(bags, i) * idsPerBag;
    });
    return { tables: tables.length, samples, offsets, ids };
  });
  const first = batches[0]?.ids ?? new Int32Array(0);
  let distinct = 0;
  for (let table = 0; table < sceneTables; table++) {
    const own = first.subarray(table * samples * idsPerBag, (table + 1) * samples * idsPerBag);
    distinct += new Set(own as Int32Array).size;
  }
  const out = kernels.tensor([samples, sceneTables * dim + filler]);
  return { tables, batches, out, slices: slicesOf(0, 8, 8, samples), distinct };
}
