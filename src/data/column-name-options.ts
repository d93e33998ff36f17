// Schemas of the names of columns, and of the characters in a field.

import { z } from "zod";

/** A name without control characters, which a terminal would take for commands. */
export const visibleName = z
  .string()
  .min(1)
  .regex(/^[ -~\u00a0-\uffff]+$/, "a name without control characters");

/** A character that separates: one, ASCII, and none that lines and quotes are made of. */
export const character = z.string().refine(isSeparator, {
  error: "one ASCII character that is no quote and no line break",
});

function isSeparator(value: string): boolean {
  return value.length === 1 && value.charCodeAt(0) < 128 && !'"\r\n'.includes(value);
}
