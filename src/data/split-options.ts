// How one set of files is split into parts for training, validation and test, where it is not
// split at random: by the order of the lines, by time, or by the hash of a column.

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
    /** Column of numbers or ISO dates; it need not be a feature. */
    column: visibleName,
    /** Validation begins with this value. @default none: `evaluation.fraction` decides */
    from: moment.optional(),
    /** The test part begins with this value. @default none: `evaluation.test.fraction` decides */
    testFrom: moment.optional(),
  }),
  z.strictObject({
    kind: z.literal("hash"),
    /** Column whose lines with one value stay in one part; it need not be a feature. */
    column: visibleName,
    /** Seed of the hash: another one makes other parts. @default 0 */
    salt: z.int().min(0).max(0xffff_ffff).default(0),
  }),
]);

/** How data are split, after the checks. */
export type SplitSpec = z.output<typeof splitOptions>;
