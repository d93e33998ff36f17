// Chooses the fixed parts of a job where its options leave them to Osiris: the row blocks of each
// table and the slices of a batch. Both belong to the arithmetic, so the choice is a function of
// the job alone, never of devices, memory or measurements: equal jobs have equal bits, whatever
// they run on. It is made once, when a job is resolved; the record of a job has the numbers.

import {
  rowBlockCounts,
  type SparseOptimizerSpec,
  type TableSpec,
} from "../embedding/tables/options.ts";
import { rowStateOf } from "../embedding/tables/row-state.ts";
import { quantumColumns } from "../kernels/contract/kernels.ts";
import { weightBytes } from "../kernels/contract/precision.ts";
import { cutsRows, type Scheme } from "../planner/shards.ts";
import { type Fields, isSection } from "../ports/written.ts";
import { sliceCounts } from "./job-schema.ts";

/** The slices of a job with a small batch. */
const slicesMin = 8;

/**
 * Samples of a slice, at least, before a batch gets more slices than the fewest. Neo trains 65,536
 * samples on 128 devices; slices of 64 cost a tenth of a step (docs/parallelism.md).
 */
const sliceSamplesMin = 512;

/** Bytes of a block, at most: a part that any device can hold beside others. */
const blockBytesMax = 2 ** 30;
/**
 * Bytes from which a table is cut if it has more than its share of all tables. Smaller tables do
 * not leave devices idle for long, and one block costs the least.
 */
const largeBytes = 2 ** 28;

type SliceCount = (typeof sliceCounts)[number];

/** The part of a job whose fixed parts are chosen. */
interface CutJob {
  readonly model: { readonly tables: readonly TableSpec[] };
  readonly data: { readonly batchSize: number };
  readonly optimizer: { readonly sparse: SparseOptimizerSpec };
  readonly slices: SliceCount;
}

/**
 * Returns the job with the numbers that `written`, its options as a user wrote them, leave out or
 * call `auto`.
 */
export function withChosenCuts<Job extends CutJob>(job: Job, written: unknown): Job {
  const options: Fields = isSection(written) ? written : {};
  const slices = isLeftOpen(options.slices) ? slicesFor(job.data) : job.slices;
  const { tables } = job.model;
  const list = isSection(options.model) ? options.model.tables : undefined;
  const own: readonly unknown[] = Array.isArray(list) ? list : [];
  const bytes = tables.map((table) => tableBytes(table, job.optimizer.sparse));
  const allBytes = bytes.reduce((sum, one) => sum + one, 0);
  const cut = tables.map((table, i): TableSpec => {
    const of = own[i];
    if (!isSection(of) || !isLeftOpen(of.rowBlocks)) return table;
    const rowBlocks = rowBlocksFor(table, { bytes: bytes[i] ?? 0, allBytes, slices });
    return Object.freeze({ ...table, rowBlocks });
  });
  const model = Object.freeze({ ...job.model, tables: Object.freeze(cut) });
  return Object.freeze({ ...job, model, slices });
}

/**
 * The slices of a batch: 8, and twice as many while each has at least 512 samples; at most 1,024. A
 * run has at most as many devices as slices.
 */
export function slicesFor({ batchSize }: { readonly batchSize: number }): SliceCount {
  let chosen: SliceCount = slicesMin;
  for (const slices of sliceCounts) {
    if (slices > chosen && batchSize >= slices * sliceSamplesMin) chosen = slices;
  }
  return chosen;
}

/**
 * The row blocks of a table: the smallest power of two for which all of these hold.
 *
 *   - a block has at most 1 GiB of rows and optimizer state, so that some device can hold it
 *   - a table of 256 MiB or more has no block above its share, one of `slices` parts of the bytes
 *     of all tables, so that it leaves none of as many devices idle
 *   - a table whose written `sharding` cuts rows has as many blocks as the job has slices, so that
 *     each device of a run gets one, but at least 2
 *
 * A table has at most 64 blocks, and fewer where a block would otherwise have no row.
 */
export function rowBlocksFor(
  table: Pick<TableSpec, "rows"> & { readonly sharding: Scheme | "auto" },
  of: { readonly bytes: number; readonly allBytes: number; readonly slices: number },
): TableSpec["rowBlocks"] {
  const { bytes, allBytes, slices } = of;
  const isLarge = bytes >= largeBytes;
  const isCut = table.sharding !== "auto" && cutsRows(table.sharding);
  const isEnough = (blocks: number) =>
    blocks * blockBytesMax >= bytes &&
    (!isLarge || blocks * allBytes >= slices * bytes) &&
    (!isCut || blocks >= Math.max(2, slices));
  let chosen: TableSpec["rowBlocks"] = 1;
  for (const blocks of rowBlockCounts) {
    if (!hasRows(table, blocks)) break;
    chosen = blocks;
    if (isEnough(blocks)) break;
  }
  return chosen;
}

/** Whether each of as many blocks has a row: block i begins at row ceil(rows / blocks) * i. */
function hasRows({ rows }: Pick<TableSpec, "rows">, blocks: number): boolean {
  return (blocks - 1) * Math.ceil(rows / blocks) < rows;
}

/** Bytes of a table's rows and their optimizer state. */
function tableBytes({ rows, dim, precision }: TableSpec, sparse: SparseOptimizerSpec): number {
  const { perElement, perRow } = rowStateOf(sparse);
  const exponents = precision === "int8" ? Math.ceil(dim / quantumColumns) : 0;
  return rows * (dim * (weightBytes(precision) + 4 * perElement) + 4 * perRow + exponents);
}

function isLeftOpen(value: unknown): boolean {
  return value === undefined || value === "auto";
}
