// What an export takes of a checkpoint: dense parameters by their names, tables, and what tells
// where the file comes from. Where a job averages weights, these are the averages, as predictions
// take them. Nothing here is as large as a table.

import { CheckpointCorruptError } from "../../src/errors/errors.ts";
import type { Graph } from "../../src/model/graph/graph.ts";
import { graphOf } from "../../src/model/model.ts";
import { densePart } from "../../src/training/checkpoint/part-names.ts";
import { decodeDense } from "../../src/training/checkpoint/parts.ts";
import type { Manifest } from "../checkpoint-store/checkpoint-store.ts";
import type { StoredCalibration } from "../checkpoint-store/stored-calibration.ts";
import { type OpenCheckpoint, openModel } from "../checkpoints/open-checkpoint.ts";
import { idsOfTable, type TableIds } from "../checkpoints/part-ids.ts";
import { type StoredTable, storedTables } from "../checkpoints/table-rows.ts";
import type { Progress, ProgressOptions } from "../disk/progress.ts";
import { type WholeRows, wholeRows } from "./whole-rows.ts";

/** A dense parameter, or a statistic beside them. */
export interface DenseTensor {
  /** As in PyTorch: `bottom.0.weight`. */
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** A table, and which dynamic id has which row, where it has such ids. */
export interface ExportedTable {
  readonly stored: StoredTable;
  readonly ids: Pick<TableIds, "count" | "all"> | undefined;
  /**
   * All rows from `begin` on, in chunks; each is valid until the next one.
   * @throws CheckpointCorruptError
   */
  rows(progress: Progress, begin?: number): AsyncIterable<WholeRows>;
}

export interface ExportedModel {
  readonly checkpoint: OpenCheckpoint;
  readonly graph: Graph;
  readonly dense: readonly DenseTensor[];
  readonly tables: readonly ExportedTable[];
  /** How its probabilities are calibrated, where that is stored with the model. */
  readonly calibration: StoredCalibration | undefined;
  /** Texts for people and programs that find the file. */
  readonly notes: Readonly<Record<string, string>>;
}

/** Which checkpoint of a directory, and how its export is followed. */
export interface ExportedOptions extends ProgressOptions {
  /** Hash of a manifest, or the hash's beginning; or `best`, `last`. @default as `loadModel` */
  readonly manifest?: string | undefined;
}

/**
 * Opens the checkpoint of a directory for an export.
 * @throws CheckpointMissingError, CheckpointCorruptError
 */
export function openExported(directory: string, options: ExportedOptions): ExportedModel {
  const checkpoint = openModel(directory, options.manifest, options.disk);
  const { job, manifest, store } = checkpoint;
  const graph = graphOf(job.model);
  const flat = servedDense(checkpoint, graph);
  const tables = storedTables(checkpoint).map((stored): ExportedTable => {
    const ids = idsOfTable(checkpoint, stored.table);
    return {
      stored,
      ids,
      rows: (progress, begin) => wholeRows(checkpoint, stored, progress, begin),
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
 * The dense parameters that predictions take, flat: the averages, where the job averages weights.
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

/** Where a file comes from: `cut` counts steps, `manifest` is the hash of a checkpoint's. */
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

/** Flat parameters by their names. */
export function denseTensors({ layout }: Graph, flat: Float32Array): DenseTensor[] {
  return layout.parameters.map(({ name, shape, first, length }) => {
    return { name, shape, values: flat.subarray(first, first + length) };
  });
}

/** The moving average of trained parameters, which comes last, and statistics as they are. */
function averaged(tensors: readonly Float32Array[], { layout }: Graph): Float32Array | undefined {
  const flat = tensors[0]?.slice();
  flat?.set(tensors.at(-1)?.subarray(0, layout.trained) ?? []);
  return flat;
}

/** The name of a table's rows, as TorchRec has it. */
export function rowsNameOf({ stored }: ExportedTable): string {
  return `embedding_bags.${stored.spec.name}.weight`;
}
