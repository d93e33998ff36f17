// The dense server: the center of elastic averaging (EASGD: Zhang, Choromanska and LeCun, "Deep
// learning with elastic averaging SGD", 2015). A trainer's weights x and the center c attract each
// other: with d = a (x - c), the trainer takes x - d, and the center becomes c + d.

import { createHash } from "node:crypto";
import { densePart } from "../training/checkpoint/part-names.ts";
import { encodeDense } from "../training/checkpoint/parts.ts";
import type { Center, DenseServer } from "./parameter-servers.ts";

/** `elasticity`: a of the formula. `start`: the initial center, which the server modifies. */
export function createDenseServer(options: {
  readonly start: Center;
  readonly elasticity: number;
}): DenseServer {
  const { elasticity } = options;
  const { weights } = options.start;
  let { slots } = options.start;
  let exchanges = 0;
  /** The last response to each trainer, sent again if the trainer repeats its request. */
  const answers = new Map<number, { readonly number: number; readonly d: Float32Array }>();
  return {
    exchange(trainer, number, x) {
      const last = answers.get(trainer);
      if (last?.number === number) return last.d;
      if (x.length !== weights.length) {
        throw new RangeError(`${x.length} weights of a trainer, and a center of ${weights.length}`);
      }
      const d = new Float32Array(x.length);
      for (let i = 0; i < d.length; i++) {
        d[i] = elasticity * ((x[i] ?? 0) - (weights[i] ?? 0));
        weights[i] = (weights[i] ?? 0) + (d[i] ?? 0);
      }
      answers.set(trainer, { number, d });
      exchanges++;
      return d;
    },
    keep(own) {
      slots = own.map((slot) => slot.slice());
    },
    get center() {
      return { weights, slots };
    },
    cut() {
      const tensors = [weights, ...slots].map((tensor) => tensor.slice());
      const [flat = weights, ...own] = tensors;
      return [
        {
          name: densePart,
          isWhole: true,
          async leaves() {
            const hash = createHash("sha256");
            for (const { buffer } of tensors) hash.update(new Uint8Array(buffer));
            return [hash.digest("hex")];
          },
          async *bytes() {
            yield* encodeDense(flat, own);
          },
        },
      ];
    },
    get exchanges() {
      return exchanges;
    },
  };
}
