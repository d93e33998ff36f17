// Options of FinalNet (final-net.ts).

import { z } from "zod";
import {
  commonOptions,
  commonProblems,
  dimProblems,
  type Problem,
  widths,
} from "./common-options.ts";

/** FinalNet: layers that multiply halves of their outputs, in one block or two. */
export const finalNetOptions = z.strictObject({
  kind: z.literal("finalNet"),
  ...commonOptions,
  first: widths
    .min(1)
    .describe(
      "`finalMlp`: widths of the first MLP's layers, with ReLU after every layer; `finalNet`: widths of the first block's layers, even numbers.",
    ),
  second: widths
    .min(1)
    .optional()
    .describe(
      "Widths of the layers of a second block with the same input; the logits of both blocks are averaged. Left out: one block.",
    ),
  fieldGate: z
    .boolean()
    .default(false)
    .describe(
      "`finalNet`: `true`: the first block's input also has each vector multiplied by a gate; `false`: only the vectors.",
    ),
});

/** A validated FinalNet. */
export type FinalNetSpec = z.output<typeof finalNetOptions>;

/** Options of a FinalNet that contradict each other. */
export function finalNetProblems(model: FinalNetSpec): Problem[] {
  const { fieldGate, groups, dim, tables } = model;
  const problems = commonProblems(model);
  for (const block of ["first", "second"] as const) {
    const odd = model[block]?.findIndex((width) => width % 2 === 1) ?? -1;
    if (odd < 0) continue;
    const message = "an even number: half of a layer multiplies the other";
    problems.push({ path: [block, odd], message });
  }
  if (fieldGate && tables.length === 0) {
    problems.push({ path: ["fieldGate"], message: "false, as there are no vectors to gate" });
  }
  if (fieldGate) return [...problems, ...dimProblems({ ...model, dense: 0 }, [])];
  if (groups !== undefined && dim === undefined) {
    problems.push({ path: ["dim"], message: "the width of the vectors that groups give" });
  }
  return problems;
}
