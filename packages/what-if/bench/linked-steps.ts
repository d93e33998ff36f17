// Measures the steps of jobs on two machines that share nothing but a cable (bench/machines): each
// has a core, a host and a device. The hosts measure their links for a first job. The other jobs
// are predicted by hardware with these links, the cable's rate and the core.

import {
  type MeasuredRun,
  onMachines,
  type TraceEvent,
  type Train,
} from "../../../bench/machines/machine-hosts.ts";
import type { Cable } from "../../../bench/machines/machines.ts";
import { stepTasks, waitedFor } from "../../../internal.ts";
import type { Hardware } from "../hardware/hardware.ts";
import { type TaskTimes, taskTimesOf } from "../tasks/task-times.ts";
import type { MeasuredSteps, StepWindow } from "./measured-steps.ts";
import {
  jobIn,
  type Place,
  type PlacedJob,
  placedJob,
  warmMsMax,
  windowMs,
} from "./measured-steps.ts";

/** A job's plan, its predicted step, and the tasks of the step, in seconds. */
export interface Predicted {
  readonly plan: object;
  readonly predicted: number;
  readonly tasks: Readonly<Record<string, number>>;
}

/** A step sends about a megabyte: a burst of that size would hide the rate of the cable. */
const ofCable = { packetBytes: 9000, burstBytes: 100_000 };
export const cables: Readonly<Record<Exclude<Place, "alone">, Cable>> = {
  "1g": { bitsPerSecond: 1e9, ...ofCable },
  "10g": { bitsPerSecond: 1e10, ...ofCable },
};

const [hosts, probeSeconds, jobSeconds] = [2, 1, 6] as const;
/** Number of steps in a trace, from which the times of tasks are taken. */
const tracedSteps = 60;

const ways = { hosts, way: "c", flags: ["--links", "direct"], cores: 2 } as const;

/**
 * Bytes per second, sent and received, that a core moves without the limit of a cable: twice the
 * rate of the faster of the two collectives, because the slower one also computes on that core.
 */
export async function measureMovers(): Promise<number> {
  return await onMachines({ cable: cables["10g"], ...ways }, async (train) => {
    const { allToAll, allReduce } = await linksOf(train, "10g");
    return 2 * Math.max(allToAll, allReduce);
  });
}

/** Bytes per second that each host sends, and seconds of a round without bytes. */
async function linksOf(train: Train, place: keyof typeof cables) {
  const { links } = await train(onMachine(placedJob(0, 0, place)), probeSeconds);
  const measured = typeof links?.direct === "object" ? links.direct : links?.broker;
  if (measured === undefined) throw new Error("The hosts did not measure their links");
  // The planner counts all vectors of a host, of which half stay on it.
  return { ...measured, allToAll: measured.allToAll / hosts };
}

export interface LinkedJob extends Predicted {
  readonly job: PlacedJob;
  readonly measured: MeasuredSteps;
  /** The links with which the job was predicted. */
  readonly scaleOut: Hardware["scaleOut"];
}

/** Trains these jobs, each by its plan for this hardware. */
export async function measureLinked(
  place: keyof typeof cables,
  jobs: readonly PlacedJob[],
  { coreBandwidth, ...hardware }: Hardware & { readonly coreBandwidth: number },
  predict: (job: PlacedJob, hardware: Hardware) => Predicted,
): Promise<LinkedJob[]> {
  const cable = cables[place];
  return await onMachines({ cable, ...ways }, async (train) => {
    const measured = await linksOf(train, place);
    const bandwidth = cable.bitsPerSecond / 8;
    const scaleOut = {
      ...{ latency: measured.roundSeconds, bandwidth, isShared: true, coreBandwidth },
      allToAllShare: Math.min(1, measured.allToAll / bandwidth),
      allReduceShare: Math.min(1, measured.allReduce / bandwidth),
    };
    const linked = { ...hardware, scaleOut, host: { ...hardware.host, devices: 1, cores: 1 } };
    const found = [];
    for (const job of jobs) {
      const predicted = predict(job, linked);
      const planned = { ...onMachine(job), plan: predicted.plan };
      const run = await train(planned, jobSeconds, { warmMs: warmMsMax, traced: tracedSteps });
      found.push({ job, ...predicted, scaleOut: linked.scaleOut, measured: stepsOf(run) });
    }
    return found;
  });
}

/** The job with the directories of a machine. */
function onMachine(job: PlacedJob) {
  const { data, ...others } = jobIn("/tmp", job);
  const checkpoint = { ...others.checkpoint, directory: `s3://bucket/${job.name}` };
  return { ...others, data, checkpoint, stepDeadlineMs: 60_000 };
}

/** The windows of a run. Their stages are those of the traced steps after the last window. */
function stepsOf({ events, trace = [] }: MeasuredRun): MeasuredSteps {
  const windows: StepWindow[] = [];
  const stages = stagesOf(trace);
  let [ms, steps, reading] = [0, 0, 0];
  for (const { times } of events) {
    if (times === undefined) continue;
    ms += times.steps * times.stepMs;
    steps += times.steps;
    reading = times.readMs / 1000;
    if (ms < windowMs) continue;
    windows.push({ seconds: ms / steps / 1000, level: 0, stages });
    [ms, steps] = [0, 0];
  }
  return { windows, reading };
}

/** The tasks and waits of each device. */
function stagesOf(trace: readonly TraceEvent[]): TaskTimes[] {
  const threadOf = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;
  const devices = trace.filter(({ name, args }) => {
    return name === "thread_name" && args?.name?.startsWith("device") === true;
  });
  return devices.map((device) => {
    const deviceEvents = trace.filter(({ cat, ...event }) => {
      return cat !== undefined && threadOf(event) === threadOf(device);
    });
    const records = deviceEvents.map(({ cat, name, ts = 0, dur = 0 }) => {
      const isWait = cat === "wait";
      const names: readonly string[] = isWait ? waitedFor : stepTasks;
      const what = names.indexOf(isWait ? name.slice("wait ".length) : name);
      const kind = isWait ? ("wait" as const) : ("task" as const);
      return { kind, what, fromMs: ts / 1000, toMs: (ts + dur) / 1000 };
    });
    // A wait is recorded at its end, before the task that contains it.
    records.sort((a, b) => a.toMs - b.toMs || b.fromMs - a.fromMs);
    return taskTimesOf(records);
  });
}
