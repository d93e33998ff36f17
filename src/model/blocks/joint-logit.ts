// The logit of the joint event of ESMM (Ma et al., SIGIR 2018, arXiv 1804.07931). One tower gives
// the logit of the first event, another the logit of the second event among samples with the first.
// Their probabilities multiply. The product is turned back into a logit in log space, so that no
// probability is rounded to 0 or 1 on the way.

import { checkShapes, type GraphBuilder, sizeOf, type Value } from "../graph/graph.ts";
import type { Name, Translation } from "../graph/translation.ts";

/** The logit of s(a) * s(b), elementwise, where s is the logistic function. */
export function jointLogit(graph: GraphBuilder, a: Value, b: Value): Value {
  checkShapes(`${a.shape}` === `${b.shape}`, "both logits have one shape", a, b);
  return graph.add({
    inputs: [a, b],
    shape: a.shape,
    keepsGradient: true,
    elements: 3 * sizeOf(a),
    translate: translateJointLogit,
    start: (memory) => ({
      forward({ samples }): void {
        const [out, x, y] = [memory.out(samples), memory.x(0, samples), memory.x(1, samples)];
        memory.kernels.jointLogit(out, x, y);
      },

      backward({ samples }): void {
        const [x, y, dOut] = [memory.x(0, samples), memory.x(1, samples), memory.dOut(samples)];
        const [dX, dY] = [memory.dX(0, samples), memory.dX(1, samples)];
        if (dX === undefined || dY === undefined) throw new RangeError("Both logits are trained");
        memory.kernels.dJointLogit(dX, dY, dOut, x, y);
      },
    }),
  });
}

/**
 * As in the kernel, the largest exponent is taken out of the sum, so that `exp` does not overflow.
 */
function translateJointLogit(to: Translation): Name {
  const [x, y] = [to.op("Neg", [to.x(0)]), to.op("Neg", [to.x(1)])];
  const terms = [x, y, to.op("Add", [x, y])];
  const most = to.op("Max", terms);
  const [first = x, second = y, both = x] = terms.map((term) => {
    return to.op("Exp", [to.op("Sub", [term, most])]);
  });
  const sum = to.op("Add", [to.op("Add", [first, second]), both]);
  return to.op("Neg", [to.op("Add", [most, to.op("Log", [sum])])]);
}
