// Runs a long task of a command with a progress bar on a terminal; Ctrl-C stops it.

import { SingleBar } from "cli-progress";
import type { ProgressOptions } from "../../internal.ts";
import { exitCodes } from "../support/failure.ts";
import { bytes } from "../support/format.ts";
import { onInterrupt } from "../support/interrupt.ts";

/**
 * Runs `task` to its end, and passes the result to `report`, which returns the command's exit code.
 * The bar is on stderr, so that stdout has the report alone; `unit` formats the bar's values, and
 * `stopped` says what Ctrl-C leaves.
 */
export async function runTask<Result>(
  title: string,
  task: (progress: ProgressOptions) => Promise<Result>,
  report: (result: Result) => number,
  unit: (value: number) => string = bytes,
  stopped = () => "nothing was changed",
): Promise<number> {
  const controller = new AbortController();
  using _interrupt = onInterrupt(() => controller.abort());
  const bar = process.stderr.isTTY ? new SingleBar(barOptions(title, unit)) : undefined;
  const onProgress = (done: number, total: number) => {
    if (bar?.getTotal() !== total) bar?.setTotal(total);
    bar?.update(done);
  };
  try {
    bar?.start(0, 0);
    const result = await task({ onProgress, signal: controller.signal });
    bar?.stop();
    return report(result);
  } catch (error) {
    bar?.stop();
    if (!controller.signal.aborted) throw error;
    console.error(`${title}: stopped; ${stopped()}.`);
    return exitCodes.cancelled;
  }
}

function barOptions(title: string, unit: (value: number) => string) {
  return {
    format: `${title} {bar} {percentage}% · {value} of {total}`,
    formatValue: (value: number, _: unknown, type: string) =>
      type === "value" || type === "total" ? unit(value) : String(value),
    barCompleteChar: "█",
    barIncompleteChar: "░",
    barsize: 24,
    clearOnComplete: true,
    hideCursor: true,
    stream: process.stderr,
  };
}
