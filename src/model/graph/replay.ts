// Replays of blocks. Most blocks make the same calls of kernels in every pass over as many samples:
// these are recorded once (`Kernels.recorded`) and then repeated without the JavaScript of the
// block, which for small batches takes longer than many of the calls.
//
// Invariant
//   R1. A block is replayed only if its calls depended on nothing but the number of samples, the
//       slices, and tensors of the network. A block that reads another field of the pass (masks,
//       lengths, sums over the batch), or the dense features, which lie elsewhere in each step, or
//       that waits for other devices, runs itself in every pass.

import type { Kernels } from "../../kernels/contract/kernels.ts";
import type { AxisPass } from "./graph.ts";

type Done = Promise<void> | undefined;

/** Runs one direction of one block. */
export type Run = (pass: AxisPass, work: (pass: AxisPass) => Promise<void> | void) => Done;

export interface Replays {
  /** The runner of one direction of one block, which remembers its calls. */
  runner(): Run;
  /** Called while a block runs: its calls depend on more than the samples and slices. R1 */
  refuse(): void;
}

export function createReplays(kernels: Pick<Kernels, "recorded">): Replays {
  let isRefused = false;
  const refuse = () => {
    isRefused = true;
  };
  const watched = (pass: AxisPass) =>
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
      return (pass, work) => {
        if (!isReplayable) return work(pass) ?? undefined;
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

/** What the recorded calls depend on. */
type Extent = Pick<AxisPass, "samples" | "slices">;

function isSame({ samples, slices: one }: Extent, { samples: count, slices: other }: Extent) {
  if (samples !== count) return false;
  if (one === other) return true;
  const isSameTree = one.first === other.first && one.most === other.most;
  if (!isSameTree || one.bounds.length !== other.bounds.length) return false;
  return one.bounds.every((bound, i) => bound === other.bounds[i]);
}
