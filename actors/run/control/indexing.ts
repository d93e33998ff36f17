// Indexing of a run's files during its training: further hosts help to make the index, and a run
// that began before the index was complete trains as far as files are indexed (decision 44).

import { StepTimeoutError } from "../../../src/errors/errors.ts";
import { jobTextOf } from "../../../src/job/job.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import type { Address, MessageEvent } from "../../runtime/mailbox.ts";
import type { DataPart } from "../../threads/data/index-program.ts";
import { allSteps } from "../../threads/data/ready-steps.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";
import { publishPreparing } from "./coordinator-events.ts";
import { coordinatorName } from "./coordinator-failures.ts";
import type { Prepared } from "./coordinator-requests.ts";
import { scheduleFor } from "./next-action.ts";

/** The context of a run whose data are prepared, as far as its first steps need them. */
export function afterPrepared(
  context: TrainingCoordinatorContext,
  { plan }: Prepared,
): Pick<TrainingCoordinatorContext, "metrics" | "schedule" | "indexedSteps"> {
  const contents = { ...context.metrics.contents, ...plan.contents };
  const { indexedSteps = allSteps } = plan;
  const metrics = { ...context.metrics, contents };
  return { metrics, schedule: scheduleFor(context, plan), indexedSteps };
}

/** Takes the progress of a preparation. */
export function afterPreparing(
  context: TrainingCoordinatorContext,
  progress: MessageEvent<"host.preparing">["body"],
): Partial<Pick<TrainingCoordinatorContext, "indexedSteps">> {
  const { steps = 0, part } = progress;
  if (part !== undefined) shareIndexing(context, part);
  else if (context.indexedSteps < allSteps || steps === 0) publishPreparing(context, progress);
  return { indexedSteps: Math.max(context.indexedSteps, steps) }; // Reports may overtake others.
}

/** Has the further hosts index files of a part, of which the first host makes an index. */
function shareIndexing({ mailbox, job, hosts }: TrainingCoordinatorContext, part: DataPart): void {
  const text = jobTextOf(job);
  for (const [share, { host }] of hosts.entries()) {
    if (share === 0) continue;
    const to: Address = { role: "host", index: host };
    mailbox.send(to, "host.index", { job: text, part, share, hosts: hosts.length });
  }
}

/** The coordinator's wait for the index of the files that the next action reads. */
export function indexWait({ network, scope, hosts, step }: TrainingCoordinatorContext) {
  const awaited = hosts.slice(0, 1).map(({ host }) => `host:${host}`);
  const what = `the index of the files of a step after step ${step}`;
  const sinceMs = network.clock.now();
  return { network, run: scope.run, waiter: coordinatorName, awaited, what, sinceMs };
}

/** The error of a generation whose next files are not indexed, without a sign of progress. */
export function unindexedOf(context: TrainingCoordinatorContext): Error {
  const { awaited, what } = indexWait(context);
  return new StepTimeoutError(`${what} from ${awaited}`, deadlinesOf(context.job).index);
}
