// Ctrl-C: the first one requests a command to stop cleanly, the second one ends the process at
// once. A drain notice, a file or a URL by which a machine announces its end, counts as the first.

import type { Command } from "commander";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { watchDrain } from "../../src/ports/drain-notice.ts";
import { exitCodes } from "./failure.ts";

/** Options that name the source of drain notices (src/ports/drain-notice.ts). */
export interface DrainArguments {
  readonly drainFile?: string;
  readonly drainUrl?: string;
}

/** Adds `--drain-file` and `--drain-url`. */
export function withDrain(command: Command): Command {
  const end = "exists: it announces that this machine will be taken away";
  return command
    .option("--drain-file <PATH>", `end as at Ctrl-C once this file ${end}`)
    .option(
      "--drain-url <URL>",
      "end as at Ctrl-C once this URL answers 200; aws, gcp: the notice of a spot machine there",
    );
}

/** Resolves once there is a drain notice, after `say` received its reason. */
export function drainNotice(options: DrainArguments, say: (line: string) => void): Promise<void> {
  const { drainFile, drainUrl } = options;
  const ports = { clock: realClock, disk: realDisk, fetch, env: process.env, warn: say };
  return new Promise((resolve) => {
    watchDrain({ drainFile, drainUrl }, ports, ({ reason }) => {
      say(`Draining: ${reason}`);
      resolve();
    });
  });
}

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
 * Calls `ask` at the first Ctrl-C or SIGTERM, unless the result is disposed of before. After that
 * call the listener stays until the process ends: without it, the next Ctrl-C would end the process
 * by the signal, without the exit code of the command.
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
