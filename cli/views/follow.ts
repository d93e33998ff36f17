// Follows a run to its end.

import { RemoteError, type Run, type RunEvent, type RunResult } from "../../internal.ts";
import type { RunView } from "./run-view.ts";

/**
 * Shows all events of a run; returns its result. The view stays open.
 * @throws RemoteError with the run's own code, where it failed
 */
export async function follow(run: Run, view: RunView): Promise<RunResult> {
  let last: RunEvent | undefined;
  for await (const event of run.events()) {
    view.show(event);
    last = event;
  }
  if (last?.type === "run.finished") return last.result;
  if (last?.type === "run.failed") throw new RemoteError(last.error);
  throw new TypeError(`The events of run ${run.run} ended without a result`);
}
