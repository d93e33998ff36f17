// Writes the serving version of a model as safetensors, byte for byte as `exportModel` writes the
// same version from a checkpoint.

import {
  type Disk,
  type JobSpec,
  type Kernels,
  openCheckpoint,
  type ProgressOptions,
  progressOf,
  type Scorer,
  storedTables,
  writeWhole,
} from "../../../internal.ts";
import { denseTensors, notesOf, writeSafetensors } from "../../formats/index.ts";
import type { DeltaIndex } from "./delta-file.ts";
import type { LoadedTable } from "./load-tables.ts";
import { servedRows } from "./served-rows.ts";

/** The state of a served model that an export needs. */
export interface ExportedVersion {
  readonly job: JobSpec;
  readonly jobText: string;
  readonly arithmetic: string;
  /** The checkpoint directory, and the hash of the version's manifest. */
  readonly path: string;
  readonly manifest: string;
  readonly disk: Disk;
  readonly kernels: Kernels;
  readonly version: { readonly digest: string; readonly step: number };
  readonly rows: { readonly tables: readonly LoadedTable[]; readonly steps: number };
  readonly dense: Float32Array;
  readonly means: DeltaIndex["means"];
  readonly scorer: Scorer;
}

/** Writes the file. @throws InputUnusableError where it cannot be written */
export async function exportServed(
  served: ExportedVersion,
  path: string,
  options: ProgressOptions & { readonly disk?: Disk | undefined },
): Promise<void> {
  const { job, jobText, arithmetic, disk, kernels, rows, dense, means, manifest } = served;
  const { graph } = served.scorer;
  const checkpoint = openCheckpoint(served.path, undefined, disk);
  const tables = storedTables(checkpoint).map((stored, i) => {
    const table = rows.tables[i];
    if (table === undefined) throw new RangeError(`There is no table ${i}`);
    const { ids } = table;
    const all = () => [...(ids?.descending() ?? [])].sort((a, b) => a.row - b.row);
    return {
      stored: { ...stored, bytes: 0 },
      ids: ids && { count: ids.size, all },
      rows: () => servedRows(kernels, job, i, table, rows.steps, progressOf(options)),
    };
  });
  const { digest, step: cut } = served.version;
  const about = { cut, modelDigest: digest.replace(/^sha256:/, ""), arithmetic, means };
  const calibration = checkpoint.store.calibration(about.modelDigest);
  const notes = notesOf(jobText, about, manifest, calibration);
  const own = { checkpoint, graph, tables, calibration, notes };
  const model = { ...own, dense: denseTensors(graph, dense) };
  const progress = progressOf(options);
  await writeWhole(options.disk ?? disk, path, (file) => {
    return writeSafetensors({ file, last: undefined, save: async () => {} }, model, progress);
  });
}
