// Draws a schedule from a seed: the same seed, job and environment give the same faults, so that
// fault injection is deterministic too (law 4).

import { strict as assert } from "node:assert";
import { poolMax } from "../../actors/threads/generation-spec.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import {
  checkSchedule,
  type FaultKind,
  type FaultOptions,
  faultKinds,
  type Schedule,
} from "./schedule.ts";

/** Size of the environment of a faulted run. */
export interface EnvironmentSize {
  /** Devices per host. */
  readonly devices: number;
  /** Hosts that join as separate processes; 0: the leader's process has the devices. */
  readonly hosts: number;
}

/** Inputs of a draw: the seed, and properties of the job. */
export interface DrawOptions {
  readonly seed: number;
  readonly environment: EnvironmentSize;
  /** Steps of the whole run. */
  readonly steps: number;
  /** Steps between checkpoints. */
  readonly everySteps: number;
  /** Readers per host. */
  readonly readers: number;
  /**
   * Least number of preprocessing workers over all hosts; undefined: the job has no such service.
   */
  readonly workers?: number | undefined;
  readonly hasEvaluation: boolean;
  /** Whether devices have tiers below their memory. */
  readonly isTiered: boolean;
  /** @default all */
  readonly kinds?: readonly FaultKind[];
}

/** Most faults of a draw: enough to interact, few enough that the run ends. */
const faultsMax = 5;

export function drawSchedule(options: DrawOptions): Schedule {
  const { seed, environment, steps, kinds = faultKinds } = options;
  const random = new RandomStream(seed, purposes.faults);
  const moments = Array.from({ length: 1 + random.below(faultsMax) }, () => random.below(steps));
  const faults = moments
    .sort((a, b) => a - b)
    .flatMap((step, i) => drawFault({ ...options, random, step, isFirst: i === 0, kinds }));
  return checkSchedule({ version: 1, seed, environment, faults });
}

interface Draw extends DrawOptions {
  readonly random: RandomStream;
  readonly step: number;
  /** True for the first fault of the schedule, which no recovery precedes. */
  readonly isFirst: boolean;
  readonly kinds: readonly FaultKind[];
}

function drawFault(draw: Draw): FaultOptions[] {
  const { random, step, kinds, environment, everySteps, steps } = draw;
  const what = pick(random, kinds);
  const device = `thread:device:${random.below(devicesOf(environment))}`;
  const when = { step, point: random.below(12) };
  const share = (low: number, high: number) =>
    Math.round(1000 * (low + random.uniform() * (high - low))) / 1000;
  switch (what) {
    case "kill":
    case "out-of-memory": {
      const where = pick(random, [device, drawThread(draw), drawProcess(draw)]);
      return [{ what, where, when: { ...when, during: drawDuring(draw, where) } }];
    }
    case "pause": {
      const where = pick(random, [device, drawThread(draw), drawActor(draw), drawProcess(draw)]);
      // Most pauses pass unnoticed; one in five exceeds every deadline, so that a zombie wakes.
      const deadlines = random.below(5) === 0 ? 2.5 : share(0.01, 0.3);
      return [{ what, where, when: { ...when, during: drawDuring(draw, where) }, deadlines }];
    }
    case "slow": {
      const where = pick(random, [device, drawThread(draw), drawProcess(draw)]);
      return [{ what, where, when, steps: 1 + random.below(5) }];
    }
    case "exception": {
      const where = pick(random, [device, drawThread(draw), drawActor(draw), drawActor(draw)]);
      return [{ what, where, when: { ...when, during: drawDuring(draw, where) } }];
    }
    case "nan":
      return [{ what, where: device, when: { step } }];
    case "drop":
    case "duplicate":
    case "reorder":
    case "corrupt":
      return [{ what, ...drawFrames(draw), when, frames: 1 + random.below(20) }];
    case "delay": {
      const lengths = { frames: 1 + random.below(20), deadlines: share(0.01, 0.2) };
      return [{ what, ...drawFrames(draw), when, ...lengths }];
    }
    case "partition":
      return [{ what, ...drawPair(draw), when, deadlines: share(0.05, 1) }];
    case "link-cut": {
      const host = 1 + random.below(Math.max(1, environment.hosts));
      return [{ what, where: `thread:bridge:${host}`, when: { step } }];
    }
    case "broker-kill":
    case "broker-restart":
      return [{ what, when, deadlines: share(0.01, 0.3) }];
    case "broker-forget":
      return [{ what, when, frames: 1 + random.below(20) }];
    case "disk-full":
    case "disk-slow":
    case "torn-write":
    case "lost-sync":
    case "flipped-bit": {
      const where = pick(random, ["thread:writer:0", "process:leader"]);
      const at = { step: Math.min(step, lastButOne(draw)), during: "checkpoint" } as const;
      if (what === "disk-full" || what === "disk-slow") {
        return [{ what, where, when: at, operations: 1 + random.below(10) }];
      }
      if (what !== "flipped-bit") return [{ what, where, when: at }];
      // The flipped bit must be detected when read back: a device dies at the next checkpoint.
      const saved = Math.min(steps, (Math.floor(at.step / everySteps) + 1) * everySteps);
      return [
        { what, where, when: at },
        { what: "kill", where: device, when: { step: saved + 1, during: "checkpoint" } },
      ];
    }
    case "move":
    case "freeze": {
      const shard = random.below(4);
      const during = drawDuring(draw, "process:leader");
      if (what === "freeze") return [{ what, when: { ...when, during }, shard }];
      const device = random.below(devicesOf(environment));
      return [{ what, when: { ...when, during }, shard, device }];
    }
    case "drain": {
      const readers = draw.readers * Math.max(1, environment.hosts);
      return [{ what, when, reader: random.below(readers) }];
    }
    case "rate": {
      const samples = 1000 * (1 + random.below(20));
      return [{ what, when, samples, deadlines: share(0.05, 0.5) }];
    }
    case "clock-skew":
      return [{ what, where: drawProcess(draw), when, deadlines: share(-2, 4) }];
    default:
      return what satisfies never;
  }
}

function devicesOf({ devices, hosts }: EnvironmentSize): number {
  return devices * Math.max(1, hosts);
}

function drawThread({ random, environment, readers, workers = 0, isTiered }: Draw): string {
  const hosts = Math.max(1, environment.hosts);
  const all = [
    ...Array.from({ length: hosts * readers }, (_, reader) => `thread:reader:${reader}`),
    ...Array.from({ length: devicesOf(environment) }, (_, rank) => `thread:writer:${rank}`),
    ...(isTiered
      ? Array.from({ length: devicesOf(environment) }, (_, rank) => `thread:tier:${rank}`)
      : []),
    ...workersOf(workers, hosts).map((worker) => `thread:worker:${worker}`),
    ...(hosts > 1 ? Array.from({ length: hosts }, (_, i) => `thread:bridge:${i + 1}`) : []),
  ];
  return pick(random, all);
}

/** Indices of the initial workers, dealt evenly to the hosts. */
function workersOf(workers: number, hosts: number): number[] {
  return Array.from({ length: workers }, (_, i) => (i % hosts) * poolMax + Math.floor(i / hosts));
}

function drawActor({ random, environment, workers }: Draw): string {
  const hosts = environment.hosts === 0 ? ["actor:host:0"] : ["actor:host:1", "actor:hosts:0"];
  const control = ["cluster", "jobs", "queue", "job", "coordinator", "checkpoint"];
  const own = [
    `actor:device:${random.below(devicesOf(environment))}`,
    "actor:shard:0",
    "actor:reader:0",
  ];
  const service = workers === undefined ? [] : ["actor:master:0", "actor:pool:0"];
  const all = [...control.map((role) => `actor:${role}:0`), ...hosts, ...own, ...service];
  return pick(random, all);
}

function drawProcess({ random, environment }: Draw): string {
  const hosts = Array.from({ length: environment.hosts }, (_, i) => `process:host:${i + 1}`);
  return pick(random, ["process:leader", ...hosts]);
}

/** Draws the phase of a fault, mostly `step`; threads other than devices have no other phase. */
function drawDuring({ random, isFirst, hasEvaluation }: Draw, where: string) {
  const place = random.below(10);
  if (/^thread:(?!device)/.test(where)) return "step";
  if (place === 0) return "checkpoint";
  if (place === 1 && hasEvaluation) return "evaluation";
  return place === 2 && !isFirst ? "recovery" : "step";
}

function drawFrames(draw: Draw): { subject: string; from?: string; to?: string } {
  const { random, workers } = draw;
  const service = workers === undefined ? [] : ["splits", "pool"];
  const roles = ["host", "device", "coordinator", "checkpoint", "shard", ...service];
  const subjects = [">", ...roles.map((role) => `osiris.*.*.*.${role}.>`)];
  return { subject: pick(random, subjects), ...(random.below(2) === 0 ? {} : drawPair(draw)) };
}

function drawPair({ random, environment }: Draw): { from?: string; to?: string } {
  if (environment.hosts === 0) return {};
  const host = `process:host:${1 + random.below(environment.hosts)}`;
  return pick(random, [
    { from: host, to: "process:leader" },
    { from: "process:leader", to: host },
    { from: host, to: "*" },
  ]);
}

/** The last step whose next checkpoint is not the run's last one. */
function lastButOne({ steps, everySteps }: Draw): number {
  return Math.max(0, steps - everySteps - 1 - (steps % everySteps));
}

function pick<T>(random: RandomStream, from: readonly T[]): T {
  const one = from[random.below(from.length)];
  assert(one !== undefined, "a draw has at least one choice");
  return one;
}
