// Writes the serving version of a model as safetensors, byte for byte as `exportModel` writes the
// same version from a checkpoint.

import {
  type JobSpec,
  type Kernels,
  type OpenedModel,
  type Progress,
  type ProgressOptions,
  progressOf,
  type Rows,
  rowDecayOf,
  type Scorer,
  storedTables,
  writeWhole,
} from "../../../internal.ts";
import { denseTensors, notesOf, type WholeRows, writeSafetensors } from "../../formats/index.ts";
import type { DeltaIndex } from "./delta-file.ts";
import type { LoadedTable, OwnTier } from "./load-tables.ts";
import { readRowsMax } from "./row-file.ts";
import { initialiseRows, sliceRows } from "./row-records.ts";

/** The state of a served model that an export needs. */
export interface ExportedVersion {
  readonly opened: OpenedModel;
  /** Hash of the version's manifest. */
  readonly manifest: string;
  readonly version: { readonly digest: string; readonly step: number };
  readonly rows: { readonly tables: readonly LoadedTable[]; readonly steps: number };
  readonly dense: Float32Array;
  readonly means: DeltaIndex["means"];
  readonly scorer: Scorer;
}

/** Writes the file. @throws InputUnusableError where it cannot be written */
export async function exportServed(
  { opened, manifest, version, rows, dense, means, scorer }: ExportedVersion,
  path: string,
  options: ProgressOptions,
): Promise<void> {
  const { job, kernels, disk, store } = opened;
  const { graph } = scorer;
  const tables = storedTables(opened).map((stored, i) => {
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
  const { digest, step: cut } = version;
  const { arithmetic } = opened.manifest;
  const about = { cut, modelDigest: digest.replace(/^sha256:/, ""), arithmetic, means };
  const calibration = store.calibration(about.modelDigest);
  const notes = notesOf(store.jobText, about, manifest, calibration);
  const shared = { checkpoint: opened, graph, tables, calibration, notes };
  const model = { ...shared, dense: denseTensors(graph, dense) };
  const progress = progressOf(options);
  await writeWhole(options.disk ?? disk, path, (file) => {
    return writeSafetensors({ file, last: undefined, save: async () => {} }, model, progress);
  });
}

/**
 * The rows of table `at` of a job after `steps` steps, as float32 with the values that a lookup
 * gives, in chunks that own their memory.
 */
async function* servedRows(
  kernels: Kernels,
  job: JobSpec,
  at: number,
  { rows: memory, places, base, tier }: LoadedTable,
  steps: number,
  progress: Pick<Progress, "breathe">,
): AsyncGenerator<WholeRows, void, undefined> {
  const spec = job.model.tables[at];
  if (spec === undefined) throw new RangeError(`The job has no table ${at}`);
  const { sparse } = job.optimizer;
  const share = rowDecayOf(sparse, spec)?.shareAt(steps) ?? 1;
  const average = sparse.ema && { decay: sparse.ema.decay, steps };
  // Each row is pooled as a bag of one id by sum, whatever the table's pooling. Only the row's own
  // block contributes to the sum over row blocks.
  const slices = tier === undefined ? undefined : new SliceReader(kernels, memory, tier);
  const rows = [slices?.rows ?? { ...memory, pooling: "sum" as const }];
  for (let first = 0; first < spec.rows; first += sliceRows) {
    const count = Math.min(sliceRows, spec.rows - first);
    await slices?.read(first, count);
    const ids = Int32Array.from({ length: count }, (_, i) => {
      return slices === undefined ? (places?.[first + i] ?? first + i + base) : i;
    });
    const offsets = Int32Array.from({ length: count + 1 }, (_, i) => i);
    const out = kernels.tensor([count, spec.dim]);
    kernels.pool(out, rows, { tables: 1, samples: count, offsets, ids }, 0, count, average);
    if (share !== 1) kernels.scaleColumns(out, 0, spec.dim, share);
    await progress.breathe();
    yield { first, weights: kernels.read(out) };
  }
}

/** Reads rows on disk, slice by slice, into memory beside the cache. */
class SliceReader {
  readonly rows: Rows;
  readonly #kernels: Kernels;
  readonly #tier: OwnTier;

  constructor(kernels: Kernels, { dim, precision, state, averaged }: Rows, tier: OwnTier) {
    this.#kernels = kernels;
    this.#tier = tier;
    const stateWidth = state.shape[1] ?? 0;
    this.rows = kernels.rows({
      ...{ rows: sliceRows, dim, precision, stateWidth, averaged },
      ...{ pooling: "sum", rowBlocks: 1 },
    });
  }

  /** Reads `count` rows from row `first` on into the first slots of `rows`. */
  async read(first: number, count: number): Promise<void> {
    const { table, copies } = this.#tier;
    const [initial, stored]: [number[], number[]] = [[], []];
    for (let i = 0; i < count; i++) (copies.of(first + i) < 0 ? initial : stored).push(i);
    const ids = Int32Array.from(initial, (i) => first + i);
    initialiseRows(this.#kernels, this.rows, Int32Array.from(initial), ids, table.initial);
    for (let at = 0; at < stored.length; at += readRowsMax) {
      const places = Int32Array.from(stored.slice(at, at + readRowsMax));
      const records = await table.file.read(
        places.map((i) => first + i),
        copies,
      );
      this.#kernels.scatterRecords(this.rows, places, records);
    }
  }
}
