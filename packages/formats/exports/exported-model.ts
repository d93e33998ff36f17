// The contents of an export, read from a checkpoint: dense parameters by name, tables, and the
// file's provenance. If the job keeps moving averages of weights, the averages are exported, as
// predictions use them. Rows of tables are streamed, not held in memory.

import {
  CheckpointCorruptError,
  decodeDense,
  densePart,
  type Graph,
  graphOf,
  idsOfTable,
  type Manifest,
  type OpenCheckpoint,
  openModel,
  type Progress,
  type ProgressOptions,
  type StoredCalibration,
  type StoredTable,
  storedTables,
  type TableIds,
} from "../../../internal.ts";
import { createBirths, type WholeRows, wholeRows } from "./whole-rows.ts";

/** A dense parameter, or a running statistic. */
export interface DenseTensor {
  /** Name in PyTorch's form: `bottom.0.weight`. */
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** A table, and the map from dynamic ids to rows, if it has dynamic ids. */
export interface ExportedTable {
  readonly stored: StoredTable;
  readonly ids: Pick<TableIds, "count" | "all"> | undefined;
  /**
   * All rows from `begin` on, in chunks; each is valid until the next one.
   * @throws CheckpointCorruptError
   */
  rows(progress: Progress, begin?: number): AsyncIterable<WholeRows>;
}

/** A checkpoint opened for an export. */
export interface ExportedModel {
  readonly checkpoint: OpenCheckpoint;
  readonly graph: Graph;
  readonly dense: readonly DenseTensor[];
  readonly tables: readonly ExportedTable[];
  /** The calibration stored with the model, if any. */
  readonly calibration: StoredCalibration | undefined;
  /** Provenance that is stored in the file, as strings by name. */
  readonly notes: Readonly<Record<string, string>>;
}

/** Options that select the checkpoint to export, and follow the progress. */
export interface ExportedOptions extends ProgressOptions {
  /** Hash of a manifest, or a prefix of it; or `best`, `last`. @default as `loadModel` */
  readonly manifest?: string | undefined;
}

/**
 * Opens the checkpoint of a directory for an export.
 * @throws CheckpointMissingError, CheckpointCorruptError, PathForbiddenError (as `loadModel`)
 */
export function openExported(directory: string, options: ExportedOptions): ExportedModel {
  const checkpoint = openModel(directory, options.manifest, options.disk);
  const { job, manifest, store } = checkpoint;
  const graph = graphOf(job.model);
  const flat = servedDense(checkpoint, graph);
  const births = createBirths();
  const tables = storedTables(checkpoint).map((stored): ExportedTable => {
    const ids = idsOfTable(checkpoint, stored.table);
    return {
      stored,
      ids,
      rows: (progress, begin) => wholeRows(checkpoint, stored, births, progress, begin),
    };
  });
  const calibration = store.calibration(manifest.modelDigest);
  return {
    ...{ checkpoint, graph, tables, calibration },
    dense: denseTensors(graph, flat),
    notes: notesOf(store.jobText, manifest, manifest.sha256, calibration),
  };
}

/**
 * The flat dense parameters that predictions use: the moving averages, if the job keeps them.
 * @throws CheckpointCorruptError
 */
export function servedDense({ job, manifest, store }: OpenCheckpoint, graph: Graph): Float32Array {
  const { length } = graph.layout;
  const tensors = decodeDense(store.readWholePart(manifest, densePart), densePart);
  const isAveraged = job.optimizer.dense.ema !== undefined;
  const flat = isAveraged ? averaged(tensors, graph) : tensors[0];
  if (flat?.length === length) return flat;
  const wanted = `it has ${flat?.length} parameters, expected ${length} of its job's model`;
  throw new CheckpointCorruptError(densePart, wanted);
}

/** A file's provenance. `cut`: number of steps; `manifest`: hash of the checkpoint's manifest. */
export function notesOf(
  job: string,
  {
    cut,
    modelDigest,
    arithmetic,
    means,
  }: Pick<Manifest, "cut" | "modelDigest" | "arithmetic" | "means">,
  manifest: string,
  calibration: StoredCalibration | undefined,
): Record<string, string> {
  return {
    job,
    step: String(cut),
    digest: `sha256:${modelDigest}`,
    manifest,
    arithmetic,
    ...(means && { means: JSON.stringify(means) }),
    ...(calibration && { calibration: JSON.stringify(calibration) }),
  };
}

/** Splits flat parameters into named tensors, without a copy. */
export function denseTensors({ layout }: Graph, flat: Float32Array): DenseTensor[] {
  return layout.parameters.map(({ name, shape, first, length }) => {
    return { name, shape, values: flat.subarray(first, first + length) };
  });
}

/**
 * Replaces the trained parameters by their moving average, which is the last tensor; running
 * statistics stay unchanged.
 */
function averaged(tensors: readonly Float32Array[], { layout }: Graph): Float32Array | undefined {
  const flat = tensors[0]?.slice();
  flat?.set(tensors.at(-1)?.subarray(0, layout.trained) ?? []);
  return flat;
}

/** The tensor name of a table's rows, in TorchRec's form. */
export function rowsNameOf({ stored }: ExportedTable): string {
  return `embedding_bags.${stored.spec.name}.weight`;
}
