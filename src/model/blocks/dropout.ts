// Dropout, as a part of other blocks.

import type { Tensor } from "../../kernels/contract/kernels.ts";
import { purposes } from "../../ports/random.ts";
import type { Memory, Pass } from "../graph/graph.ts";

/** A place of dropout: its rate, and the number that its masks are drawn with. */
export interface DropoutSite {
  readonly rate: number;
  readonly site: number;
}

/**
 * Drops units of t (B,·), by the place in the batch of each row. It is its own backward: the same
 * mask, drawn again.
 */
export function drop(
  { kernels }: Pick<Memory, "kernels">,
  own: DropoutSite | undefined,
  { draw }: Pass,
  t: Tensor,
): void {
  if (own === undefined || draw === undefined) return;
  const { key, step, runs } = draw;
  for (const { first, count, place } of runs) {
    const rows = kernels.part(t, first, count);
    kernels.dropout(rows, key, purposes.dropout + own.site, step, place, own.rate);
  }
}
