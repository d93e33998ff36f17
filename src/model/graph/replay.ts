// Replays the kernel calls of a block, of half a pass, or of a stage of a step. Most of these make
// the same calls for every batch of one size. The calls are recorded once (`Kernels.recorded`) and
// then repeated without the JavaScript that prepared them, which for small batches takes longer
// than many of the calls.
//
// Invariant
//   R1. Calls are replayed only if they depend solely on the number of samples, the slices, and
//       memory that does not move. A block that reads another field of the pass (masks, lengths,
//       sums over the batch), or that waits for other devices, runs itself in every pass. A stage
//       that depends on anything else calls `refuse`.

import type { Kernels } from "../../kernels/contract/kernels.ts";
import type { AxisPass } from "./graph.ts";

type Done = Promise<void> | undefined;

/**
 * Runs `work`, or repeats its calls. `otherwise`: runs instead, once calls cannot be replayed.
 * @default `work`
 */
export type Run = <Pass extends Extent>(
  pass: Pass,
  work: (pass: Pass) => Promise<void> | void,
  otherwise?: (pass: Pass) => Promise<void> | void,
) => Done;

export interface Replays {
  /** Makes the runner of one block, half or stage. It records the kernel calls of that work. */
  runner(): Run;
  /** Called while the work runs: its calls depend on more than the samples and slices. R1 */
  refuse(): void;
}

export function createReplays(kernels: Pick<Kernels, "recorded">): Replays {
  let isRefused = false;
  const refuse = () => {
    isRefused = true;
  };
  const watched = <Pass extends Extent>(pass: Pass) =>
    new Proxy(pass, {
      get(of, name) {
        if (name !== "samples" && name !== "slices") refuse();
        return Reflect.get(of, name);
      },
    });
  return {
    refuse,
    runner() {
      let known: (Extent & { readonly repeat: () => void }) | undefined;
      let isReplayable = true;
      return (pass, work, otherwise = work) => {
        if (!isReplayable) return otherwise(pass) ?? undefined;
        if (known !== undefined && isSame(known, pass)) {
          known.repeat();
          return undefined;
        }
        let done: Done;
        isRefused = false;
        const repeat = kernels.recorded(() => {
          done = work(watched(pass)) ?? undefined;
        });
        isReplayable = repeat !== undefined && done === undefined && !isRefused;
        const { samples, slices } = pass;
        known = isReplayable && repeat ? { samples, slices, repeat } : undefined;
        return done;
      };
    },
  };
}

/** The fields of a pass on which replayed calls may depend. */
type Extent = Pick<AxisPass, "samples" | "slices">;

function isSame({ samples, slices: one }: Extent, { samples: count, slices: other }: Extent) {
  if (samples !== count) return false;
  if (one === other) return true;
  const isSameTree = one.first === other.first && one.most === other.most;
  if (!isSameTree || one.bounds.length !== other.bounds.length) return false;
  return one.bounds.every((bound, i) => bound === other.bounds[i]);
}
