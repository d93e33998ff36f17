// Schemas of column names and of separator characters.

import { z } from "zod";

/** A name without control characters, which a terminal would take for commands. */
export const visibleName = z
  .string()
  .min(1)
  .regex(/^[ -~\u00a0-\uffff]+$/, "a name without control characters");

/** A separator: one ASCII character other than a quote or a line break. */
export const character = z.string().refine(isSeparator, {
  error: "one ASCII character that is no quote and no line break",
});

function isSeparator(value: string): boolean {
  return value.length === 1 && value.charCodeAt(0) < 128 && !'"\r\n'.includes(value);
}
