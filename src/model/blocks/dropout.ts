// Dropout, for use inside other blocks.

import type { Tensor } from "../../kernels/contract/kernels.ts";
import { purposes } from "../../ports/random.ts";
import type { Memory, Pass } from "../graph/graph.ts";

/**
 * A dropout site of a graph: the drop probability, and the number that its masks are seeded with.
 */
export interface DropoutSite {
  readonly rate: number;
  readonly site: number;
}

/**
 * Applies dropout to t (B,·) in place, with a mask that depends on each row's position in the
 * batch. The backward pass calls it on the gradient, and draws the same mask again.
 */
export function drop(
  { kernels }: Pick<Memory, "kernels">,
  own: DropoutSite | undefined,
  pass: Pick<Pass, "draw">,
  t: Tensor,
): void {
  if (own === undefined || pass.draw === undefined) return;
  const { key, step, runs } = pass.draw;
  for (const { first, count, place } of runs) {
    const rows = kernels.part(t, first, count);
    kernels.dropout(rows, key, purposes.dropout + own.site, step, place, own.rate);
  }
}
