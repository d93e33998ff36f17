// What the job service does for `rate` and `drain`: checks the request against the run's
// job and the hosts of its newest generation, and asks its readers by way of its record. How they
// are told is in ../run-control/reader-commands.ts.

import { RunStateError, StepTimeoutError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { ReaderAnswer } from "../run/state/reader-wishes.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import type { DrainedReader } from "./job-api.ts";

/** Share of the step deadline that a limit may use up between two batches: work needs the rest. */
const limitedShare = 0.5;

/** The lowest limit of a job: a lower one would keep devices waiting for a batch for too long. */
export function lowestRate({ data, readers, stepDeadlineMs }: LimitedJob): number {
  return Math.ceil((1000 * readers * data.batchSize) / (limitedShare * stepDeadlineMs));
}

type LimitedJob = Pick<JobSpec, "readers" | "stepDeadlineMs"> & {
  readonly data: Pick<JobSpec["data"], "batchSize">;
};

/** Has the readers keep to a limit; 0: to none. @throws InvalidOptionError: it is too low */
export function limitReaders({ readers, job }: RunRecord, samplesPerSecond: number): void {
  const lowest = lowestRate(job);
  if (samplesPerSecond > 0 && samplesPerSecond < lowest) {
    const { batchSize } = job.data;
    const why = `below it, batches of ${batchSize} come too late for its step deadline`;
    throw expected("samplesPerSecond", `0 or at least ${lowest}: ${why}`, samplesPerSecond);
  }
  readers.limit = samplesPerSecond;
}

/** How long a reader may take to answer: the time in which a generation is made, if none is. */
export function readerPatienceMs(job: Pick<JobSpec, "stepDeadlineMs">): number {
  const { assembly, step } = deadlinesOf(job);
  return assembly + step;
}

/**
 * Has the thread of a reader replaced.
 * @throws InvalidOptionError, RunStateError, StepTimeoutError: why it was not
 */
export async function drainReader(
  record: RunRecord,
  reader: number,
  clock: Clock,
): Promise<DrainedReader> {
  const answer = await answerOf(record, reader, clock);
  if (answer.kind !== "drained") throw noReader(record, reader);
  const { isForced, position } = answer;
  return { run: record.run, reader, isForced, position };
}

function answerOf(record: RunRecord, reader: number, clock: Clock): Promise<ReaderAnswer> {
  const { run, readers, job } = record;
  const isRunning = () => record.status === "running";
  const stateError = () => new RunStateError(run, "drain a reader of", "running", record.status);
  return new Promise((resolve, reject) => {
    if (!isRunning()) return reject(stateError());
    if (reader >= readersOf(record)) return reject(noReader(record, reader));
    const deadlineMs = readerPatienceMs(job);
    const settle = (end: () => void) => {
      cancel();
      withdraw();
      forget();
      end();
    };
    const cancel = clock.after(deadlineMs, () =>
      settle(() => reject(new StepTimeoutError(`reader:${reader} of run ${run}`, deadlineMs))),
    );
    const forget = record.onEvent(() => {
      if (!isRunning()) settle(() => reject(stateError()));
    });
    const withdraw = readers.ask({
      reader,
      answered: (answer) => settle(() => resolve(answer)),
    });
  });
}

/** The readers of its newest generation; of a run without one, those of one host. */
function readersOf({ shards, job }: RunRecord): number {
  return job.readers * (shards?.hosts.length ?? 1);
}

function noReader(record: RunRecord, reader: number): Error {
  const last = readersOf(record) - 1;
  return expected("reader", `one of the run's readers, 0 to ${last}`, reader);
}
