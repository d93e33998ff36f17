// Fluent API of chaos tests for user jobs:
//
//   await chaos(job, { devices: 2 })
//     .kill("device:1").at({ step: 120 })
//     .partition("host:1", "leader", { deadlines: 1 }).at({ step: 200 })
//     .broker.restart().at({ step: 260 })
//     .verify();
//
// Faults can also be drawn from a seed: `await chaos(job).seed(42).verify()`.

import { PromiseBrokenError } from "../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../src/job/job.ts";
import type { EnvironmentSize } from "./faults/draw.ts";
import {
  checkSchedule,
  type FaultKind,
  type FaultOptions,
  type Moment,
  type Schedule,
  type ScheduleOptions,
} from "./faults/schedule.ts";
import type { FaultedRunOptions } from "./trials/faulted-run.ts";
import { drawFor, runTrial, type Trial } from "./trials/trial.ts";
import { type ReferenceRun, runReference } from "./trials/verdict.ts";

/** The moment of a fault; a missing field is 0, or "step" for `during`. */
export type MomentOptions = Pick<Moment, "step"> & Partial<Moment>;
/** A length, in step deadlines of the job. */
interface Deadlines {
  readonly deadlines: number;
}
/**
 * The frames that a fault affects: their number, their subjects, and the processes between which
 * they pass.
 */
interface FrameOptions {
  readonly frames: number;
  /** A NATS subject pattern. @default ">" */
  readonly subject?: string;
  /** `leader`, `host:1`. @default any */
  readonly from?: string;
  readonly to?: string;
}
type DiskFault = Extract<FaultOptions, { what: `disk-${string}` }>["what"];

/** A fault that still lacks its moment. */
export interface Pending {
  at(when: MomentOptions): Chaos;
}

/** Options of `verify`. */
export interface ChaosOptions extends FaultedRunOptions {
  /** The reference run of an earlier `verify`, which is then not trained again. */
  readonly reference?: ReferenceRun;
}

/**
 * Starts a chaos test of `job`. `environment` defaults to 2 devices in one process.
 */
export function chaos(job: JobOptions, environment: Partial<EnvironmentSize> = {}): Chaos {
  const devices = environment.devices ?? (resolveJob(job).devices || 2);
  return new Chaos(job, { devices, hosts: environment.hosts ?? 0 }, { faults: [] });
}

type Plan =
  | { readonly faults: readonly FaultOptions[] }
  | { readonly seed: number; readonly kinds?: readonly FaultKind[] }
  | { readonly schedule: Schedule };

/** A chaos test of a job under construction. Immutable: every call returns a new one. */
export class Chaos {
  readonly #job: JobOptions;
  readonly #environment: EnvironmentSize;
  readonly #plan: Plan;

  constructor(job: JobOptions, environment: EnvironmentSize, plan: Plan) {
    this.#job = job;
    this.#environment = environment;
    this.#plan = plan;
  }

  /** Draws faults of these kinds from a seed. @default all kinds */
  seed(seed: number, kinds?: readonly FaultKind[]): Chaos {
    return new Chaos(
      this.#job,
      this.#environment,
      kinds === undefined ? { seed } : { seed, kinds },
    );
  }

  /** Replays a printed schedule in its own environment. @throws InvalidOptionError */
  schedule(given: ScheduleOptions): Chaos {
    const schedule = checkSchedule(given);
    return new Chaos(this.#job, schedule.environment, { schedule });
  }

  /** Adds a fault, given as plain data. */
  fault(fault: FaultOptions): Chaos {
    const before = "faults" in this.#plan ? this.#plan.faults : [];
    return new Chaos(this.#job, this.#environment, { faults: [...before, fault] });
  }

  /** Kills a thread (`device:1`, `reader:0`) or a process (`leader`, `host:1`). */
  kill(where: string): Pending {
    return this.#pending((when) => ({ what: "kill", where: strikable(where), when }));
  }

  /** Makes a thread, an actor or a process hang. */
  pause(where: string, { deadlines }: Deadlines): Pending {
    return this.#pending((when) => ({ what: "pause", where: strikable(where), when, deadlines }));
  }

  slow(where: string, { steps }: { readonly steps: number }): Pending {
    return this.#pending((when) => ({ what: "slow", where: strikable(where), when, steps }));
  }

  outOfMemory(where: string): Pending {
    return this.#pending((when) => ({ what: "out-of-memory", where: strikable(where), when }));
  }

  /** Throws an error in a thread, or in an actor without a thread (`coordinator`). */
  exception(where: string): Pending {
    return this.#pending((when) => ({ what: "exception", where: strikable(where), when }));
  }

  /** Makes the loss of a device NaN. */
  nan(where: string): Pending {
    return this.#pending((when) => ({ what: "nan", where: strikable(where), when }));
  }

  drop(options: FrameOptions): Pending {
    return this.#pending((when) => ({ what: "drop", ...framesOf(options), when }));
  }

  delay({ deadlines, ...options }: FrameOptions & Deadlines): Pending {
    return this.#pending((when) => ({ what: "delay", ...framesOf(options), when, deadlines }));
  }

  duplicate(options: FrameOptions): Pending {
    return this.#pending((when) => ({ what: "duplicate", ...framesOf(options), when }));
  }

  reorder(options: FrameOptions): Pending {
    return this.#pending((when) => ({ what: "reorder", ...framesOf(options), when }));
  }

  corrupt(options: FrameOptions): Pending {
    return this.#pending((when) => ({ what: "corrupt", ...framesOf(options), when }));
  }

  /** Blocks all frames between two processes, in both directions. */
  partition(one: string, other: string, { deadlines }: Deadlines): Pending {
    const ends = { from: strikable(one), to: strikable(other) };
    return this.#pending((when) => ({ what: "partition", ...ends, when, deadlines }));
  }

  /** Faults of the broker: it is unavailable for a share of the step deadline. */
  get broker() {
    const away = { deadlines: 0.05 };
    return {
      kill: ({ deadlines }: Deadlines = away) =>
        this.#pending((when) => ({ what: "broker-kill", when, deadlines })),
      restart: ({ deadlines }: Deadlines = away) =>
        this.#pending((when) => ({ what: "broker-restart", when, deadlines })),
      /** The broker loses acknowledged frames. */
      forget: ({ frames }: { readonly frames: number }) =>
        this.#pending((when) => ({ what: "broker-forget", when, frames })),
    };
  }

  /** Faults of the disk, as seen by a thread or a process. */
  disk(where: string) {
    const place = strikable(where);
    const lasting = (what: DiskFault) => {
      return ({ operations }: { readonly operations: number }) =>
        this.#pending((when) => ({ what, where: place, when, operations }));
    };
    const once = (what: "torn-write" | "flipped-bit" | "lost-sync") => () =>
      this.#pending((when) => ({ what, where: place, when }));
    return {
      full: lasting("disk-full"),
      slow: lasting("disk-slow"),
      tornWrite: once("torn-write"),
      flippedBit: once("flipped-bit"),
      lostSync: once("lost-sync"),
    };
  }

  /** Makes the clock of a process jump. */
  skewClock(where: string, { deadlines }: Deadlines): Pending {
    return this.#pending((when) => ({
      what: "clock-skew",
      where: strikable(where),
      when,
      deadlines,
    }));
  }

  /** Not a fault: a user moves a shard to a device during the run. */
  moveShard(shard: number, { device }: { readonly device: number }): Pending {
    return this.#pending((when) => ({ what: "move", when, shard, device }));
  }

  /** Not a fault: a user pins a shard to its present device. */
  freezeShard(shard: number): Pending {
    return this.#pending((when) => ({ what: "freeze", when, shard }));
  }

  /** Not a fault: a user drains a reader. */
  drainReader(reader: number): Pending {
    return this.#pending((when) => ({ what: "drain", when, reader }));
  }

  /** Not a fault: a user limits the readers for a while, in samples per second. */
  limitReaders(samples: number, { deadlines }: Deadlines): Pending {
    return this.#pending((when) => ({ what: "rate", when, samples, deadlines }));
  }

  /**
   * Trains the job's reference run, to be shared by `verify` calls of several schedules.
   * @throws RemoteError where it fails
   */
  reference(): Promise<ReferenceRun> {
    const { devices, hosts } = this.#environment;
    return runReference(this.#job, devices * Math.max(1, hosts));
  }

  /**
   * Trains the job without and with faults, and compares both runs.
   * @throws PromiseBrokenError where the runs differ, or the faulted run did not finish
   * @throws InvalidOptionError where a fault is invalid
   */
  async verify(options: ChaosOptions = {}): Promise<Trial> {
    const { reference = await this.reference(), ...play } = options;
    const trial = await runTrial(this.#job, this.#scheduleFor(reference), reference, play);
    if (trial.verdict === "equal") return trial;
    throw new PromiseBrokenError(trial.verdict, trial.differences, trial.schedule);
  }

  #scheduleFor(reference: ReferenceRun): Schedule {
    const plan = this.#plan;
    if ("schedule" in plan) return plan.schedule;
    if ("seed" in plan)
      return drawFor(this.#job, reference, { ...plan, environment: this.#environment });
    return checkSchedule({ version: 1, environment: this.#environment, faults: plan.faults });
  }

  #pending(fault: (when: MomentOptions) => FaultOptions): Pending {
    return { at: (when) => this.fault(fault(when)) };
  }
}

/** Actors that own a thread; `host` and `leader` name processes, all other names actors. */
const threaded = /^(device|reader|tier|bridge|writer):\d+$|^prepare$/;

/** Expands a short name to a place; a full name (`actor:device:1`) is returned unchanged. */
function strikable(name: string): string {
  if (/^(thread|actor|process):|^\*$/.test(name)) return name;
  if (threaded.test(name)) return `thread:${name}`;
  if (name === "leader" || name.startsWith("host:")) return `process:${name}`;
  return `actor:${name.includes(":") ? name : `${name}:0`}`;
}

function framesOf({ frames, subject = ">", from = "*", to = "*" }: FrameOptions) {
  return { frames, subject, from: strikable(from), to: strikable(to) };
}
