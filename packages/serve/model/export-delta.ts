// Writes the delta between two checkpoints of a run, which updates a served model from the earlier
// one to the later one.

import {
  type Disk,
  graphOf,
  InputUnusableError,
  idsOfTable,
  type Manifest,
  type OpenCheckpoint,
  openCheckpoint,
  openKernels,
  openModel,
  type Progress,
  type ProgressOptions,
  progressOf,
  realDisk,
  type StoredTable,
  servedStateWidth,
  storedTables,
  type TableIds,
  writeWhole,
} from "../../../internal.ts";
import { servedDense } from "../../formats/index.ts";
import { changedRecords } from "./changed-records.ts";
import { type DeltaTable, type DeltaVersion, DeltaWriter } from "./delta-file.ts";
import { RecordMaker, sliceRows } from "./row-records.ts";

/** Options of `exportDelta`. */
export interface DeltaOptions extends ProgressOptions {
  /** The earlier checkpoint: its step, a prefix of its manifest's hash, or `best`. */
  readonly since: string | number;
  /** The later one, by its manifest's hash, `best` or `last`. @default as `loadModel` */
  readonly manifest?: string | undefined;
}

/** The result of `exportDelta`. */
export interface DeltaReport {
  readonly file: string;
  readonly bytes: number;
  readonly from: DeltaVersion;
  readonly to: DeltaVersion;
  /** By table: all rows, changed rows in the delta, and ids that were added or lost their row. */
  readonly tables: readonly {
    readonly name: string;
    readonly rows: number;
    readonly changed: number;
    readonly ids: number;
  }[];
}

/**
 * Writes the delta from one checkpoint of a directory to a later one to `path`. Memory holds one
 * chunk of rows at a time, and all dynamic ids.
 * @throws CheckpointMissingError, CheckpointCorruptError
 * @throws InputUnusableError where both are the same checkpoint, or `path` cannot be written
 * @throws PathForbiddenError where the model is a module that `allowModels` does not allow
 */
export async function exportDelta(
  directory: string,
  path: string,
  options: DeltaOptions,
): Promise<DeltaReport> {
  const { disk = realDisk } = options;
  const to = openModel(directory, options.manifest, disk);
  const from = openSince(directory, options.since, disk);
  if (from.manifest.sha256 === to.manifest.sha256) {
    const wanted = `Expected \`since\` to name a checkpoint of ${directory} before step ${to.manifest.cut}`;
    throw new InputUnusableError(directory, `${wanted}, got that checkpoint itself`);
  }
  const progress = progressOf(options);
  const tables: DeltaTable[] = [];
  const bytes = await writeWhole(disk, path, async (file) => {
    const writer = new DeltaWriter(file);
    const [before, after] = [storedTables(from), storedTables(to)];
    for (const { bytes } of after) progress.expect(bytes);
    for (const [i, later] of after.entries()) {
      const table = before[i] ?? later;
      tables.push(await putTable(writer, { from, to, table, later }, progress));
    }
    const values = servedDense(to, graphOf(to.job.model));
    const dense = { at: writer.put(values), count: values.length };
    const { jobIdentity, arithmetic, means } = to.manifest;
    const ends = { from: versionOf(from.manifest), to: versionOf(to.manifest) };
    writer.finish({ jobIdentity, arithmetic, ...ends, ...(means && { means }), tables, dense });
  });
  return {
    file: path,
    bytes,
    from: versionOf(from.manifest),
    to: versionOf(to.manifest),
    tables: tables.map(({ name, changed, ids }, i) => {
      const rows = to.job.model.tables[i]?.rows ?? 0;
      return { name, rows, changed, ids: (ids?.changed ?? 0) + (ids?.freed ?? 0) };
    }),
  };
}

export function versionOf({ modelDigest, cut, sha256 }: Manifest): DeltaVersion {
  return { digest: `sha256:${modelDigest}`, step: cut, manifest: sha256 };
}

/** The checkpoint of a step, or with a prefix of its manifest's hash. */
function openSince(directory: string, since: string | number, disk: Disk): OpenCheckpoint {
  const newest = openCheckpoint(directory, "last", disk);
  const step = /^\d+$/.test(String(since)) ? Number(since) : undefined;
  const found = newest.store.list().manifests.find(({ cut }) => cut === step);
  if (found !== undefined) return { ...newest, manifest: found };
  return openCheckpoint(directory, String(since), disk);
}

async function putTable(
  writer: DeltaWriter,
  both: { from: OpenCheckpoint; to: OpenCheckpoint; table: StoredTable; later: StoredTable },
  progress: Progress,
): Promise<DeltaTable> {
  const { from, to, later } = both;
  const { spec, table } = later;
  const kernels = openKernels("auto");
  const at = writer.end;
  let changed = 0;
  for await (const { rows, bytes } of changedRecords({ ...both, kernels }, progress)) {
    writer.put(rows, bytes); // All chunks but the last have `sliceRows` rows.
    changed += rows.length;
  }
  const width = servedStateWidth(to.job.optimizer.sparse, spec.dim);
  const { recordBytes } = new RecordMaker(kernels, spec, width);
  const entry = { name: spec.name, recordBytes, changed, at, chunkRows: sliceRows };
  const [before, after] = [idsOfTable(from, table), idsOfTable(to, table)];
  return before === undefined || after === undefined
    ? entry
    : { ...entry, ids: putIds(writer, before, after) };
}

/** Appends rows with a new id, these ids, and rows that lost their id. */
function putIds(writer: DeltaWriter, before: TableIds, after: TableIds) {
  const changed = [...after.all()].filter(({ row, id }) => before.idOf(row) !== id);
  const freed = [...before.all()].filter(({ row }) => after.idOf(row) === undefined);
  const at = writer.put(
    Int32Array.from(changed, ({ row }) => row),
    Int32Array.from(freed, ({ row }) => row),
    BigInt64Array.from(changed, ({ id }) => id),
  );
  return { at, changed: changed.length, freed: freed.length };
}
