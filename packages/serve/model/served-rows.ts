// All rows of a served table in order, as float32, with the values that a lookup gives. Exports
// write them, so that other programs predict alike.

import {
  type JobSpec,
  type Kernels,
  type Progress,
  type Rows,
  rowDecayOf,
} from "../../../internal.ts";
import type { WholeRows } from "../../formats/index.ts";
import { bear } from "./born-rows.ts";
import { type LoadedTable, type OwnTier, sliceRows } from "./load-tables.ts";
import { readRowsMax } from "./row-file.ts";

/** The rows of table `at` of a job after `steps` steps, in chunks that own their memory. */
export async function* servedRows(
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
  const own = tier === undefined ? undefined : new SliceReader(kernels, memory, tier);
  const rows = [own?.rows ?? { ...memory, pooling: "sum" as const }];
  for (let first = 0; first < spec.rows; first += sliceRows) {
    const count = Math.min(sliceRows, spec.rows - first);
    await own?.read(first, count);
    const ids = Int32Array.from({ length: count }, (_, i) => {
      return own === undefined ? (places?.[first + i] ?? first + i + base) : i;
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
    const [born, stored]: [number[], number[]] = [[], []];
    for (let i = 0; i < count; i++) (copies.of(first + i) < 0 ? born : stored).push(i);
    const ids = Int32Array.from(born, (i) => first + i);
    bear(this.#kernels, this.rows, Int32Array.from(born), ids, table.birth);
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
