// The job service's methods `rate` and `drain`: check the request against the run's job and the
// hosts of its newest generation, and pass it to the readers through the run's record.
// ../run/control/reader-commands.ts delivers it.

import { RunStateError, StepTimeoutError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { ReaderAnswer } from "../run/state/reader-requests.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import type { DrainedReader } from "./job-api.ts";

/**
 * Share of the step deadline that a rate limit may use between two batches; the rest is for work.
 */
const limitedShare = 0.5;

/**
 * The lowest permitted rate of a job: with a lower one, devices would wait too long for a batch.
 */
export function lowestRate({ data, readers, stepDeadlineMs }: LimitedJob): number {
  return Math.ceil((1000 * readers * data.batchSize) / (limitedShare * stepDeadlineMs));
}

type LimitedJob = Pick<JobSpec, "readers" | "stepDeadlineMs"> & {
  readonly data: Pick<JobSpec["data"], "batchSize">;
};

/**
 * Sets the rate limit of a run's readers; 0: no limit. @throws InvalidOptionError if it is too low
 */
export function limitReaders({ readers, job }: RunRecord, samplesPerSecond: number): void {
  const lowest = lowestRate(job);
  if (samplesPerSecond > 0 && samplesPerSecond < lowest) {
    const { batchSize } = job.data;
    const why = `at a lower rate, batches of ${batchSize} samples miss the step deadline`;
    throw expected("samplesPerSecond", `0 or at least ${lowest}: ${why}`, samplesPerSecond);
  }
  readers.limit = samplesPerSecond;
}

/**
 * How long a reader may take to answer: the time to make a generation if none exists, plus a step.
 */
export function readerPatienceMs(job: Pick<JobSpec, "stepDeadlineMs">): number {
  const { assembly, step } = deadlinesOf(job);
  return assembly + step;
}

/**
 * Replaces the thread of a reader.
 * @throws InvalidOptionError, RunStateError, StepTimeoutError if it was not replaced
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
    const withdraw = readers.add({
      reader,
      answered: (answer) => settle(() => resolve(answer)),
    });
  });
}

/** The number of readers of the newest generation; for a run without one, of one host. */
function readersOf({ shards, job }: RunRecord): number {
  return job.readers * (shards?.hosts.length ?? 1);
}

function noReader(record: RunRecord, reader: number): Error {
  const last = readersOf(record) - 1;
  return expected("reader", `one of the run's readers, 0 to ${last}`, reader);
}
