// Ctrl-C: the first one asks a command to stop cleanly, the second one ends the process at once.

import { exitCodes } from "./failure.ts";

/** Signals this close together count as one: `npm start` repeats the terminal's Ctrl-C. */
const sameMs = 500;
const signals = ["SIGINT", "SIGTERM"] as const;

/** Resolves at the first Ctrl-C or SIGTERM. */
export function interruption(): Promise<void> {
  return new Promise((resolve) => {
    onInterrupt(resolve);
  });
}

/**
 * Calls `ask` at the first Ctrl-C or SIGTERM from now on, until it is disposed of. A command that
 * was asked to end keeps its listener until its process ends: without a listener the next Ctrl-C
 * would end the process by the signal, without the command's exit code.
 */
export function onInterrupt(ask: () => void): Disposable {
  let requestedAtMs: number | undefined;
  const hear = () => {
    const nowMs = performance.now();
    if (requestedAtMs === undefined) {
      requestedAtMs = nowMs;
      ask();
    } else if (nowMs - requestedAtMs > sameMs) {
      process.exit(exitCodes.cancelled);
    }
  };
  for (const signal of signals) process.on(signal, hear);
  return {
    [Symbol.dispose]: () => {
      if (requestedAtMs !== undefined) return;
      for (const signal of signals) process.off(signal, hear);
    },
  };
}
