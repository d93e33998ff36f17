// Measures the steps of jobs on two machines that share nothing but a cable (bench/machines): each
// has a core, a host and a device. The hosts measure their links for a first job; those figures,
// the cable's rate and the core are the hardware by which the others are predicted.

import { onMachines, type Progress, type Train } from "../../../bench/machines/machine-hosts.ts";
import type { Cable } from "../../../bench/machines/machines.ts";
import { quantiles } from "../../../bench/row.ts";
import type { Hardware } from "../hardware/hardware.ts";
import type { MeasuredSteps } from "./measured-steps.ts";
import {
  jobIn,
  type Place,
  type PlacedJob,
  placedJob,
  warmMsMax,
  windowMs,
} from "./measured-steps.ts";

/** A job's plan, its predicted step, and the tasks of that, in seconds. */
export interface Predicted {
  readonly plan: object;
  readonly predicted: number;
  readonly tasks: Readonly<Record<string, number>>;
}

const packetBytes = 9000;
export const cables: Readonly<Record<Exclude<Place, "alone">, Cable>> = {
  "1g": { bitsPerSecond: 1e9, packetBytes },
  "10g": { bitsPerSecond: 1e10, packetBytes },
};

const [hosts, probeSeconds, jobSeconds] = [2, 1, 6] as const;

const ways = { hosts, way: "c", flags: ["--links", "direct"], cores: 2 } as const;

/** The bytes, sent and received, that a core moves in a second: no cable limits it. */
export async function measureMovers(): Promise<number> {
  return await onMachines({ cable: cables["10g"], ...ways }, async (train) => {
    return 2 * (await linksOf(train, "10g")).allToAll;
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

/** Trains these jobs, each by its plan for this hardware. */
export async function measureLinked(
  place: keyof typeof cables,
  jobs: readonly PlacedJob[],
  { coreBandwidth, ...hardware }: Hardware & { readonly coreBandwidth: number },
  predict: (job: PlacedJob, hardware: Hardware) => Predicted,
): Promise<(Predicted & { readonly job: PlacedJob; readonly measured: MeasuredSteps })[]> {
  const cable = cables[place];
  return await onMachines({ cable, ...ways }, async (train) => {
    const measured = await linksOf(train, place);
    const bandwidth = cable.bitsPerSecond / 8;
    const scaleOut = {
      ...{ latency: measured.roundSeconds, bandwidth, isShared: true, coreBandwidth },
      allToAllShare: Math.min(1, measured.allToAll / bandwidth),
      allReduceShare: Math.min(1, measured.allReduce / bandwidth),
    };
    const own = { ...hardware, scaleOut, host: { ...hardware.host, devices: 1, cores: 1 } };
    const found = [];
    for (const job of jobs) {
      const predicted = predict(job, own);
      const planned = { ...onMachine(job), plan: predicted.plan };
      const { events } = await train(planned, jobSeconds, warmMsMax);
      found.push({ job, ...predicted, measured: stepsOf(events) });
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

function stepsOf(events: readonly Progress[]): MeasuredSteps {
  const windows: number[] = [];
  const waits = new Map<string, number[]>();
  let [ms, steps, reading] = [0, 0, 0];
  for (const { times } of events) {
    if (times === undefined) continue;
    ms += times.steps * times.stepMs;
    steps += times.steps;
    reading = times.readMs / 1000;
    for (const [name, share] of Object.entries(times.shares)) {
      const key = name === "computing" || name === "sendingIds" ? name : `wait.${name}`;
      waits.set(key, [...(waits.get(key) ?? []), (share * times.stepMs) / 1000]);
    }
    if (ms < windowMs) continue;
    windows.push(ms / steps / 1000);
    [ms, steps] = [0, 0];
  }
  const stages = [...waits].map(([name, own]) => [name, quantiles(own).median] as const);
  return { windows, reading, stages: Object.fromEntries(stages) };
}
