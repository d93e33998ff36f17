// What calibration measures of rows: lookups, gradients and updates, by the columns of a shard and
// by how often a batch needs a row again; row blocks, sums of cut rows, copies, and ids on their
// way. Times are turned into the constants of the cost model (src/planner/cost/cost.ts), which adds
// them up in the same way.

import {
  BagMemory,
  type BagShard,
  bagFrameBytes,
  writeBagFrame,
} from "../../src/embedding/lookup/bag-frames.ts";
import type { Bags, Kernels, RowRule, Rows, Tensor } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { type CalibrationSize, leastSeconds } from "./calibration-time.ts";

/** What one device measured of rows. */
export interface RowRates {
  /** Bytes a second of lookups in rows of 32, 64 and 128 columns. */
  readonly lookup: readonly [number, number, number];
  /** A lookup in a shard of four row blocks, in lookups of one. */
  readonly blocksFactor: number;
  /** Gradients of rows: in lookups of the same rows, and seconds of each id besides. */
  readonly backwardFactor: number;
  readonly sortSeconds: number;
  /** Passes over distinct rows that a row-wise Adagrad's update costs besides. */
  readonly rowPasses: number;
  /** Seconds of each distinct row that tells sums of its columns. */
  readonly rowSumSeconds: number;
  /** Passes over a copied table: its gradient cleared and written, and the table's update. */
  readonly denseUpdatePasses: number;
  /** Seconds of each id that is sent to a shard, and that is dealt out by rows. */
  readonly idSeconds: number;
  readonly dealSeconds: number;
}

const rule: RowRule = {
  kind: "rowWiseAdagrad",
  learningRate: 1e-3,
  epsilon: 1e-8,
  l2: 0,
  decay: 0,
};
/** Lookups of a row in a batch that repeats its rows, and of a row of a copied table. */
const lookupsAgain = 16;
const lookupsOfCopy = 4;

/** Measures rows on this device alone. `pause` lets the others come up between the measurements. */
export async function measureRows(
  kernels: Kernels,
  clock: Clock,
  size: CalibrationSize,
  pause: () => Promise<unknown>,
): Promise<RowRates> {
  const narrow = measureColumns(kernels, clock, size, 32);
  await pause();
  const middle = measureColumns(kernels, clock, size, 64);
  await pause();
  const wide = measureColumns(kernels, clock, size, 128);
  await pause();
  const ids = size.samples * size.idsPerBag;
  const { backwardFactor, sortSeconds } = backwardCosts(narrow, wide, ids);
  const rate = ({ bytes, lookup }: ColumnTimes) => bytes / lookup;
  const rowPasses = (Math.max(0, wide.update - wide.gradients) * rate(wide)) / wide.rowBytes;
  const sums = Math.max(0, narrow.squares - narrow.gradients) + narrow.means;
  const copy = measureCopy(kernels, clock, size);
  const copySeconds = copy.seconds - backwardFactor * middle.lookup - sortSeconds * ids;
  return {
    lookup: [rate(narrow), rate(middle), rate(wide)],
    blocksFactor: measureBlocks(kernels, clock, size) / middle.lookup,
    backwardFactor,
    sortSeconds,
    rowPasses,
    rowSumSeconds: sums / narrow.distinct,
    denseUpdatePasses: (Math.max(0, copySeconds) * rate(wide)) / copy.bytes,
    ...measureIds(clock, size),
  };
}

/**
 * What a byte and what an id of a backward pass cost, from two widths of the same ids: the factor
 * over a byte's lookup, and seconds an id. Neither is below 0, also where rounding, or noise in the
 * times, would have it so.
 */
export function backwardCosts(
  narrow: Pick<ColumnTimes, "lookup" | "gradients">,
  wide: Pick<ColumnTimes, "lookup" | "gradients">,
  ids: number,
): Pick<RowRates, "backwardFactor" | "sortSeconds"> {
  const perLookup = (wide.gradients - narrow.gradients) / (wide.lookup - narrow.lookup);
  const most = narrow.gradients / narrow.lookup;
  const backwardFactor = Math.min(most, Math.max(0, perLookup)) || most;
  const sortSeconds = Math.max(0, (narrow.gradients - backwardFactor * narrow.lookup) / ids);
  return { backwardFactor, sortSeconds };
}

interface ColumnTimes {
  /** Bytes of one call's lookups, as the cost model counts them. */
  readonly bytes: number;
  /** Distinct rows of a call, and their bytes. */
  readonly distinct: number;
  readonly rowBytes: number;
  /** Seconds of looking rows up, and of their update. */
  readonly lookup: number;
  readonly update: number;
  /** Of an update of as many ids, where few rows are written. */
  readonly gradients: number;
  /** Of the sums of their quanta, and of the means from two such parts of the rows. */
  readonly squares: number;
  readonly means: number;
}

function measureColumns(
  kernels: Kernels,
  clock: Clock,
  size: CalibrationSize,
  dim: number,
): ColumnTimes {
  const { rounds } = size;
  const { table, bags, ids, out } = sceneOf(kernels, size, dim);
  const slices = slicesOf(0, 8, 8, size.samples);
  const lookup = leastSeconds(clock, rounds, () => pool(kernels, out, table, bags));
  const update = leastSeconds(clock, rounds, () => {
    kernels.updateRows([table], bags, out, slices, [rule]);
  });
  const few = Math.max(1, Math.ceil(ids.length / lookupsAgain));
  const again = { ...bags, ids: ids.map((row) => row % few) };
  const gradients = leastSeconds(clock, rounds, () => {
    kernels.updateRows([table], again, out, slices, [rule]);
  });
  let sums: Float32Array = new Float32Array(0);
  const squares = leastSeconds(clock, rounds, () => {
    sums = kernels.rowSquares([table], 0, bags, out, slices, [rule]);
  });
  const quanta = Math.ceil(dim / 32);
  const means = leastSeconds(clock, rounds, () => {
    kernels.rowMeans([sums, sums], [quanta, quanta], 2 * dim);
  });
  const distinct = new Set(ids).size;
  const bytes = ids.length * (4 + 4 * dim) + size.samples * dim * 4;
  return {
    ...{ bytes, distinct, rowBytes: 4 * dim * distinct },
    ...{ lookup, update, gradients, squares, means },
  };
}

/** Seconds of looking up rows of 64 columns that lie in four blocks. */
function measureBlocks(kernels: Kernels, clock: Clock, size: CalibrationSize): number {
  const { table, bags, out } = sceneOf(kernels, size, 64, { rowBlocks: 4 });
  return leastSeconds(clock, size.rounds, () => pool(kernels, out, table, bags));
}

/** Seconds of a copied table's backward and update, where a batch needs nearly all its rows. */
function measureCopy(kernels: Kernels, clock: Clock, size: CalibrationSize) {
  const rows = Math.max(1, Math.ceil((size.samples * size.idsPerBag) / lookupsOfCopy));
  const { table, bags, out } = sceneOf(kernels, size, 64, { rows });
  const slices = slicesOf(0, 8, 8, size.samples);
  const [dRows, counts] = [kernels.tensor([rows, 64]), kernels.tensor([rows])];
  const seconds = leastSeconds(clock, size.rounds, () => {
    kernels.dRows([dRows], [counts], [table], 0, bags, out, slices);
    kernels.applyRows(table, dRows, counts, rule, false);
  });
  return { seconds, bytes: 4 * 64 * rows };
}

/** Seconds of an id from the samples into a shard; and of one dealt out to half the rows. */
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
  const frame = new Int32Array(bagFrameBytes(samples, [all], [idsPerBag]) / 4);
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

/** A table beyond any cache, unless its rows are told, and bags of any of its rows. */
function sceneOf(
  kernels: Kernels,
  { tableBytes, samples, idsPerBag }: CalibrationSize,
  dim: number,
  own: { readonly rows?: number; readonly rowBlocks?: number } = {},
) {
  const { rows = Math.floor(tableBytes / (4 * dim)), rowBlocks = 1 } = own;
  const table = kernels.rows({ rows, dim, pooling: "sum", rowBlocks, stateWidth: 1 });
  kernels.fill(table.weights, 0.5);
  const random = new RandomStream(1, dim);
  const ids = Int32Array.from({ length: samples * idsPerBag }, () => random.below(rows));
  const bags: Bags = {
    tables: 1,
    samples,
    offsets: Int32Array.from({ length: samples + 1 }, (_, i) => i * idsPerBag),
    ids,
  };
  return { table, bags, ids, out: kernels.tensor([samples, dim]) };
}

function pool(kernels: Kernels, out: Tensor, table: Rows, bags: Bags): void {
  kernels.pool(out, [table], bags, 0, bags.samples);
}
