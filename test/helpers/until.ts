// Waits for an effect that no promise announces.

import { setTimeout as sleep } from "node:timers/promises";

/** The longest wait: minutes, which no busy machine reaches; AVA ends a silent run after ten. */
export const waitMs = 300_000;

/** Waits until `isSo` returns true. `what`: the awaited effect, which the error names. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  everyMs = 5,
): Promise<void> {
  const startMs = performance.now();
  while (!(await isSo())) {
    if (performance.now() - startMs > waitMs) throw new Error(`Waited five minutes for ${what}`);
    await sleep(everyMs);
  }
}
