// Compares two checkpoints of one model: rows, table by table, and the dense network. Both are read
// as streams in step, by row number, so that memory use stays small.

import { InputUnusableError } from "../../src/errors/errors.ts";
import { graphOf } from "../../src/model/model.ts";
import { densePart } from "../../src/training/checkpoint/part-names.ts";
import { decodeDense } from "../../src/training/checkpoint/parts.ts";
import { type Progress, type ProgressOptions, progressOf } from "../disk/progress.ts";
import { type CheckpointRecord, recordOf } from "./list-checkpoints.ts";
import { cursorOf, type RowCursor } from "./merged-rows.ts";
import { type OpenCheckpoint, openModel } from "./open-checkpoint.ts";
import { needState } from "./store/file-checkpoint-store.ts";
import { rowsOfTable, type StoredTable, storedTables } from "./table-rows.ts";

/** Options of `diffCheckpoints`. */
export interface DiffOptions extends ProgressOptions {
  /** Directory of `to`. @default the same directory */
  readonly other?: string | undefined;
}

/** Rows of one table that differ in any bit. */
export interface TableDifference {
  readonly name: string;
  /** Rows that both checkpoints have. */
  readonly common: number;
  /** Rows of `common` with other weights or other optimizer state. */
  readonly changed: number;
  /** Rows that only the second checkpoint has. */
  readonly born: number;
  /** Rows that only the first checkpoint has. */
  readonly gone: number;
  /**
   * The largest change of a weight in a common row, and the first such row; undefined: no change.
   */
  readonly largest: { readonly change: number; readonly row: number } | undefined;
}

/** The differences of two checkpoints. */
export interface CheckpointDifference {
  readonly from: CheckpointRecord;
  readonly to: CheckpointRecord;
  /** Whether all weights and all optimizer state are equal, bit by bit. */
  readonly isEqual: boolean;
  readonly tables: readonly TableDifference[];
  /** Weights of the dense network: their count, how many differ, and the largest change. */
  readonly dense: {
    readonly weights: number;
    readonly changed: number;
    readonly largest: number;
    /** Number of floats of the optimizer's state that differ. */
    readonly state: number;
  };
}

/**
 * Compares two checkpoints; `from` and `to` are prefixes of their manifests' hashes. @throws
 * CheckpointMissingError, CheckpointCorruptError, InputUnusableError (the models differ),
 * PathForbiddenError (as `loadModel`)
 */
export async function diffCheckpoints(
  directory: string,
  from: string,
  to: string,
  options: DiffOptions = {},
): Promise<CheckpointDifference> {
  const { other = directory, disk } = options;
  const first = openModel(directory, from, disk);
  const second = openModel(other, to, disk);
  checkAlike(first, second, other);
  for (const { store } of [first, second]) needState(store, "a comparison of rows");
  const progress = progressOf(options);
  const [tables, others] = [storedTables(first), storedTables(second)];
  for (const { bytes } of [...tables, ...others]) progress.expect(bytes);
  const differences: TableDifference[] = [];
  for (const [i, table] of tables.entries()) {
    differences.push(await diffTable(first, table, second, others[i] ?? table, progress));
  }
  return {
    from: recordOf(first.manifest),
    to: recordOf(second.manifest),
    isEqual: first.manifest.modelDigest === second.manifest.modelDigest,
    tables: differences,
    dense: diffDense(first, second),
  };
}

function checkAlike(first: OpenCheckpoint, second: OpenCheckpoint, path: string): void {
  const shapeOf = ({ job: { model, optimizer } }: OpenCheckpoint) => {
    const tables = model.tables.map(({ name, rows, dim }) => `${name} ${rows} x ${dim}`);
    const layers = graphOf(model).layout.parameters.map(({ name, shape }) => `${name} ${shape}`);
    return [optimizer.sparse.kind, optimizer.dense.kind, ...layers, ...tables].join();
  };
  if (shapeOf(first) === shapeOf(second)) return;
  const message = `Expected the model in ${path} to be that of ${first.store.directory}`;
  throw new InputUnusableError(path, `${message}, but its tables, layers or optimizers differ`);
}

async function diffTable(
  first: OpenCheckpoint,
  table: StoredTable,
  second: OpenCheckpoint,
  other: StoredTable,
  progress: Progress,
): Promise<TableDifference> {
  const { name, dim } = table.spec;
  const cursor = (checkpoint: OpenCheckpoint, own: StoredTable) =>
    cursorOf(rowsOfTable(checkpoint, own, progress), dim, table.width);
  const [a, b] = [await cursor(first, table), await cursor(second, other)];
  let [common, changed, born, gone] = [0, 0, 0, 0];
  let largest: TableDifference["largest"];
  while (Number.isFinite(a.row) || Number.isFinite(b.row)) {
    if (a.row === b.row) {
      common++;
      if (!isSame(a, b)) changed++;
      const change = largestChange(a.weights, b.weights);
      if (change > (largest?.change ?? 0)) largest = { change, row: a.row };
      await a.next();
      await b.next();
    } else if (a.row < b.row) {
      gone++;
      await a.next();
    } else {
      born++;
      await b.next();
    }
  }
  return { name, common, changed, born, gone, largest };
}

function isSame(a: RowCursor, b: RowCursor): boolean {
  return changesOf(a.weights, b.weights) === 0 && changesOf(a.state, b.state) === 0;
}

/** Counts numbers that differ in their bits: -0 differs from 0. */
function changesOf(a: Float32Array, b: Float32Array): number {
  let changes = 0;
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) changes++;
  return changes;
}

function largestChange(a: Float32Array, b: Float32Array): number {
  let largest = 0;
  for (let i = 0; i < a.length; i++) {
    largest = Math.max(largest, Math.abs((b[i] ?? 0) - (a[i] ?? 0)));
  }
  return largest;
}

function diffDense(first: OpenCheckpoint, second: OpenCheckpoint): CheckpointDifference["dense"] {
  const tensorsOf = ({ store, manifest }: OpenCheckpoint) =>
    decodeDense(store.readWholePart(manifest, densePart), densePart);
  const [weights = new Float32Array(), ...slots] = tensorsOf(first);
  const [others = weights, ...otherSlots] = tensorsOf(second);
  const states = slots.map((slot, i) => changesOf(slot, otherSlots[i] ?? slot));
  return {
    weights: weights.length,
    changed: changesOf(weights, others),
    largest: largestChange(weights, others),
    state: states.reduce((sum, changes) => sum + changes, 0),
  };
}
