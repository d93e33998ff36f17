// Times steps on separate threads: the device and reader programs of a run, without a host and
// without checkpoints. One generation after another trains on the same threads: the JIT takes
// thousands of steps to compile the programs, so that later generations begin with compiled code.

import { PeerLostError, RemoteError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { serversOf, slicesBeside } from "../../src/planner/placement.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Launcher, Thread } from "../../src/ports/launcher.ts";
import type { TimelineRecord } from "../../src/ports/timeline.ts";
import {
  type HostMeters,
  type StepTimes,
  timesBetween,
} from "../../src/training/meters/step-meter.ts";
import type { DeviceCommand, DeviceReport } from "../threads/device-program.ts";
import {
  abort,
  createGeneration,
  type Generation,
  progressOver,
  wake,
} from "../threads/generation-memory.ts";
import { type DataPlan, generationSpecOf, headOf, hostPlaces } from "../threads/generation-spec.ts";
import { deviceRecords } from "../threads/host-timelines.ts";
import { threadFile } from "../threads/thread-file.ts";
import type { ParticipantTask, ProbeTask } from "../threads/thread-program.ts";

/** Duration of a generation, and of the samples of its counters. */
export interface SampleTimes {
  /**
   * Warm-up before the first sample: at least this time and `warmUpSteps` steps, but no longer than
   * `longestMs` if a step has ended by then.
   */
  readonly warmUpMs: number;
  readonly warmUpSteps: number;
  /** Limit of the warm-up, and of the sampling after it: later, one sample is enough. */
  readonly longestMs: number;
  /**
   * Duration of one sample of the counters: shorter than a thread's time slice on a busy machine.
   */
  readonly sampleMs: number;
  readonly samples: number;
}

/** A job to time: its prepared data, and the durations. */
export interface TimedJob {
  readonly job: JobSpec;
  readonly data: DataPlan;
  readonly times: SampleTimes;
}

/** The thread launcher and the clock. */
export interface ProbePorts {
  readonly launcher: Launcher;
  readonly clock: Clock;
}

/** Called after each job, with the number of timed jobs. `recordsOf`: timelines of that job. */
type OnTimed = (jobs: number, recordsOf: (rank: number) => readonly TimelineRecord[]) => void;

/**
 * Trains these jobs one after another on `devices` devices, each for a while, and discards their
 * state. All jobs must have equally many readers. Returns the samples of each job.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function timeSteps(
  jobs: readonly TimedJob[],
  devices: number,
  { launcher, clock }: ProbePorts,
  onDone: OnTimed = () => {},
): Promise<StepTimes[][]> {
  const generations = jobs.map((one) => generationOf(one, devices));
  const shared = generations.map(({ spec, memory }) => ({ spec: headOf(spec), memory }));
  const start = <Command, Report>(role: ProbeTask["role"], index: number) => {
    const task: ProbeTask = { program: "probe", role, index, generations: shared };
    return launcher.start<Command, Report>(threadFile, task, `calibrate-${role}-${index}`);
  };
  const readers = Array.from({ length: jobs[0]?.job.readers ?? 0 }, (_, i) =>
    start<never, never>("reader", i),
  );
  const ranks = Array.from({ length: devices }, (_, rank) =>
    start<DeviceCommand, DeviceReport>("device", rank),
  );
  const threads = [...readers, ...ranks];
  let isOver = false;
  const lost = Promise.race(threads.map(lossOf));
  lost.catch(() => {}); // Handled by the races below; after them the threads end as expected.
  const ready = ranks.map(countReady);
  const found: StepTimes[][] = [];
  try {
    for (const [i, generation] of generations.entries()) {
      const tiers = tiersOf(generation, launcher);
      await Promise.race([Promise.all(ready.map((reach) => reach(i + 1))), lost]);
      for (const [rank, device] of ranks.entries()) {
        const toStep = generation.layout.schedule.steps;
        device.send({ type: "run", toStep, lossSum: 0, plateau: 1 });
        wake(generation, rank);
      }
      const times = jobs[i]?.times;
      if (times === undefined) continue;
      found.push(await Promise.race([sampled(generation, clock, times, () => isOver), lost]));
      abort(generation);
      await Promise.all(tiers.map(({ ended }) => ended));
      const { spec, memory } = generation;
      onDone(i + 1, (rank) => deviceRecords({ spec, memory }, rank));
    }
    return found;
  } finally {
    isOver = true;
    for (const generation of generations) abort(generation);
    await Promise.all(threads.map(({ ended }) => ended));
  }
}

/** The threads of the tiers of a generation's devices: none where no table is cached. */
function tiersOf({ spec, memory, layout }: Generation, launcher: Launcher) {
  return layout.tierRings.flatMap((ring, index) => {
    if (ring === undefined) return [];
    const task: ParticipantTask = { program: "tier", spec: headOf(spec), memory, index };
    return [launcher.start<never, never>(threadFile, task, `calibrate-tier-${index}`)];
  });
}

function generationOf({ job, data }: TimedJob, devices: number): Generation {
  const sliceCounts = slicesBeside(job.slices, devices, serversOf(job.placement, devices));
  const spec = generationSpecOf({
    ...{ job, plan: data, step: 0, latest: undefined, sliceCounts, network: {} },
    scope: { run: "calibrate", generation: 1 },
    hosts: [{ host: 0, devices }],
  });
  const [place] = hostPlaces(spec);
  if (place === undefined) throw new RangeError("A probe has a host");
  return createGeneration(spec, place);
}

/** Samples the counters of a generation that trains. */
async function sampled(
  { spec, memory }: Generation,
  clock: Clock,
  { warmUpMs, warmUpSteps, longestMs, sampleMs, samples }: SampleTimes,
  isOver: () => boolean,
): Promise<StepTimes[]> {
  const progress = progressOver(memory, spec.devices);
  const metersNow = (): HostMeters => ({
    devices: Array.from({ length: spec.devices }, (_, rank) =>
      Array.from(progress.metersOf(rank), Number),
    ),
    reading: Array.from(progress.reading, Number),
  });
  const sleep = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const stepsNow = () => Atomics.load(progress.steps, 0);
  const startMs = clock.now();
  const isBefore = (ms: number) => clock.now() < startMs + ms;
  do await sleep(warmUpMs);
  while (!isOver() && stepsNow() < (isBefore(longestMs) ? warmUpSteps : 1));
  const found: StepTimes[] = [];
  const least = Math.min(1, samples);
  const isEnough = () => found.length >= (isBefore(2 * longestMs) ? samples : least);
  while (!isOver() && !isEnough()) {
    const [from, steps] = [metersNow(), stepsNow()];
    do await sleep(sampleMs);
    while (!isOver() && stepsNow() === steps);
    found.push(...[timesBetween([{ from, to: metersNow() }])].filter((one) => one !== undefined));
  }
  return found;
}

/**
 * Returns a function that waits until a device has reported `ready` `times` times, once for each
 * generation.
 */
function countReady(device: Thread<DeviceCommand, DeviceReport>): (times: number) => Promise<void> {
  let reports = 0;
  let resume = () => {};
  device.onReport(({ type }) => {
    if (type !== "ready") return;
    reports++;
    resume();
  });
  return async (times) => {
    while (reports < times) {
      await new Promise<void>((resolve) => {
        resume = resolve;
      });
    }
  };
}

/** Rejects when the thread ends: a probe's threads must run until they are aborted. */
async function lossOf<Command, Report>({ ended }: Thread<Command, Report>): Promise<never> {
  const end = await ended;
  if (end.kind === "failed") throw new RemoteError(end.error);
  throw new PeerLostError("calibrate", end.kind === "lost" ? end.reason : "it ended unexpectedly");
}

/**
 * Returns the least of the passes' medians: the typical value on an otherwise idle machine. 0:
 * nothing was sampled.
 */
export function quietest(
  passes: readonly (readonly StepTimes[])[],
  of: (times: StepTimes) => number,
): number {
  const medians = passes.flatMap((samples) => {
    const sorted = samples
      .map(of)
      .filter((value) => value > 0)
      .sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? [];
  });
  return medians.length === 0 ? 0 : Math.min(...medians);
}
