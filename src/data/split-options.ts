// Options for splitting one set of files into training, validation and test other than at random:
// by the order of the lines, by time, or by the hash of a column.

import { z } from "zod";
import { visibleName } from "./column-name-options.ts";

const moment = z.union([z.number(), z.string().min(1)], {
  error: "a number, or an ISO date as text: 2024-01-31, 2024-01-31T12:00:00Z",
});

/** Schema of `evaluation.split`. */
export const splitOptions = z.discriminatedUnion("kind", [
  /** The last lines are held out, in the order of the files. */
  z.strictObject({ kind: z.literal("order") }),
  z.strictObject({
    kind: z.literal("time"),
    column: visibleName.describe("`time`, `hash`: the column; it need not be a feature."),
    from: moment
      .optional()
      .describe(
        "`time`: validation begins with this time, a number or an ISO date; left out, `evaluation.fraction` decides.",
      ),
    testFrom: moment.optional().describe("`time`: the test begins with this time."),
  }),
  z.strictObject({
    kind: z.literal("hash"),
    column: visibleName.describe(
      "Column whose lines with one value stay in one part; it need not be a feature.",
    ),
    salt: z
      .int()
      .min(0)
      .max(0xffff_ffff)
      .default(0)
      .describe("`hash`: another one makes other parts."),
  }),
]);

/** The validated option. */
export type SplitSpec = z.output<typeof splitOptions>;
