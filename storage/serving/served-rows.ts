// All rows of a served table in their order, as float32: as a lookup of any row gives them. For
// files that other programs predict with.

import { rowDecayOf } from "../../src/embedding/tables/row-decay.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { Progress } from "../disk/progress.ts";
import type { WholeRows } from "../exports/whole-rows.ts";
import { type LoadedTable, sliceRows } from "./load-tables.ts";

/** The rows of table `at` of a job after `steps` steps, in chunks of memory of their own. */
export async function* servedRows(
  kernels: Kernels,
  job: JobSpec,
  at: number,
  { rows: memory, places, base }: LoadedTable,
  steps: number,
  progress: Pick<Progress, "breathe">,
): AsyncGenerator<WholeRows, void, undefined> {
  const spec = job.model.tables[at];
  if (spec === undefined) throw new RangeError(`The job has no table ${at}`);
  const { sparse } = job.optimizer;
  const share = rowDecayOf(sparse, spec)?.shareAt(steps) ?? 1;
  const average = sparse.ema && { decay: sparse.ema.decay, steps };
  // A row alone in its bag, whatever the pooling. Of row blocks, one has it and the others nothing.
  const rows = [{ ...memory, pooling: "sum" as const }];
  for (let first = 0; first < spec.rows; first += sliceRows) {
    const count = Math.min(sliceRows, spec.rows - first);
    const ids = Int32Array.from({ length: count }, (_, i) => {
      return places?.[first + i] ?? first + i + base;
    });
    const offsets = Int32Array.from({ length: count + 1 }, (_, i) => i);
    const out = kernels.tensor([count, spec.dim]);
    kernels.pool(out, rows, { tables: 1, samples: count, offsets, ids }, 0, count, average);
    if (share !== 1) kernels.scaleColumns(out, 0, spec.dim, share);
    await progress.breathe();
    yield { first, weights: kernels.read(out) };
  }
}
