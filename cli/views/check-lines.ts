// Checks of a machine or job as lines for people.

import type { Check } from "../../internal.ts";

/** A line for each check, and one below for its advice. */
export function checkLines(checks: readonly Check[]): string[] {
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks.flatMap(({ name, state, found, advice }) => [
    `${state.padEnd(4)}  ${name.padEnd(width)}  ${found}`,
    ...(advice === undefined ? [] : [`${" ".repeat(width + 8)}${advice}`]),
  ]);
}
