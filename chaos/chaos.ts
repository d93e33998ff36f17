// Chaos for one's own jobs, as a sentence:
//
//   await chaos(job, { devices: 2 })
//     .kill("device:1").at({ step: 120 })
//     .partition("host:1", "root", { deadlines: 1 }).at({ step: 200 })
//     .broker.restart().at({ step: 260 })
//     .verify();
//
// or drawn from a seed: `await chaos(job).seed(42).verify()`.

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

/** When a fault is injected; what is left out is 0, or "step". */
export type MomentOptions = Pick<Moment, "step"> & Partial<Moment>;
/** Shares of the job's step deadline. */
interface Deadlines {
  readonly deadlines: number;
}
/** Frames that a fault meets: so many, on these subjects, between these processes. */
interface FrameOptions {
  readonly frames: number;
  /** As in NATS. @default ">" */
  readonly subject?: string;
  /** `root`, `host:1`. @default any */
  readonly from?: string;
  readonly to?: string;
}
type DiskFault = Extract<FaultOptions, { what: `disk-${string}` }>["what"];

/** A fault that has everything but its moment. */
export interface Pending {
  at(when: MomentOptions): Chaos;
}

/** Chaos for a job. Every call returns a new one. */
export interface ChaosOptions extends FaultedRunOptions {
  /** The reference run of an earlier `verify`, so that it is not trained again. */
  readonly reference?: ReferenceRun;
}

/** Breaks `job` on a stage: 2 devices in one process unless it says otherwise. */
export function chaos(job: JobOptions, stage: Partial<EnvironmentSize> = {}): Chaos {
  const devices = stage.devices ?? (resolveJob(job).devices || 2);
  return new Chaos(job, { devices, hosts: stage.hosts ?? 0 }, { faults: [] });
}

type Plan =
  | { readonly faults: readonly FaultOptions[] }
  | { readonly seed: number; readonly kinds?: readonly FaultKind[] }
  | { readonly schedule: Schedule };

export class Chaos {
  readonly #job: JobOptions;
  readonly #stage: EnvironmentSize;
  readonly #plan: Plan;

  constructor(job: JobOptions, stage: EnvironmentSize, plan: Plan) {
    this.#job = job;
    this.#stage = stage;
    this.#plan = plan;
  }

  /** Faults drawn from a seed, of these kinds. @default all kinds */
  seed(seed: number, kinds?: readonly FaultKind[]): Chaos {
    return new Chaos(this.#job, this.#stage, kinds === undefined ? { seed } : { seed, kinds });
  }

  /** A schedule as it was printed, on its own stage. @throws InvalidOptionError */
  schedule(given: ScheduleOptions): Chaos {
    const schedule = checkSchedule(given);
    return new Chaos(this.#job, schedule.stage, { schedule });
  }

  /** One more fault, as plain data. */
  fault(fault: FaultOptions): Chaos {
    const before = "faults" in this.#plan ? this.#plan.faults : [];
    return new Chaos(this.#job, this.#stage, { faults: [...before, fault] });
  }

  /** Ends a thread (`device:1`, `reader:0`) or a process (`root`, `host:1`). */
  kill(where: string): Pending {
    return this.#pending((when) => ({ what: "kill", where: strikable(where), when }));
  }

  /** Makes the thread hang. */
  pause(where: string, { deadlines }: Deadlines): Pending {
    return this.#pending((when) => ({ what: "pause", where: strikable(where), when, deadlines }));
  }

  slow(where: string, { steps }: { readonly steps: number }): Pending {
    return this.#pending((when) => ({ what: "slow", where: strikable(where), when, steps }));
  }

  outOfMemory(where: string): Pending {
    return this.#pending((when) => ({ what: "out-of-memory", where: strikable(where), when }));
  }

  /** An error thrown in a thread, or in the actor of a role that has none (`coordinator`). */
  exception(where: string): Pending {
    return this.#pending((when) => ({ what: "exception", where: strikable(where), when }));
  }

  /** A loss that is no number, on a device. */
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

  /** Nothing passes between two processes, either way. */
  partition(one: string, other: string, { deadlines }: Deadlines): Pending {
    const ends = { from: strikable(one), to: strikable(other) };
    return this.#pending((when) => ({ what: "partition", ...ends, when, deadlines }));
  }

  /** Of the broker, away for a share of the step deadline. */
  get broker() {
    const away = { deadlines: 0.05 };
    return {
      kill: ({ deadlines }: Deadlines = away) =>
        this.#pending((when) => ({ what: "broker-kill", when, deadlines })),
      restart: ({ deadlines }: Deadlines = away) =>
        this.#pending((when) => ({ what: "broker-restart", when, deadlines })),
      /** It loses frames that it has acknowledged. */
      forget: ({ frames }: { readonly frames: number }) =>
        this.#pending((when) => ({ what: "broker-forget", when, frames })),
    };
  }

  /** Of the disk that a thread or a process sees. */
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

  /** The clock of a process jumps. */
  skewClock(where: string, { deadlines }: Deadlines): Pending {
    return this.#pending((when) => ({
      what: "clock-skew",
      where: strikable(where),
      when,
      deadlines,
    }));
  }

  /** No fault: a user moves a shard to a device, in mid-run. */
  moveShard(shard: number, { device }: { readonly device: number }): Pending {
    return this.#pending((when) => ({ what: "move", when, shard, device }));
  }

  /** The same: a user holds a shard where it is. */
  freezeShard(shard: number): Pending {
    return this.#pending((when) => ({ what: "freeze", when, shard }));
  }

  /** The same: a user drains a reader. */
  drainReader(reader: number): Pending {
    return this.#pending((when) => ({ what: "drain", when, reader }));
  }

  /** The same: a user limits the readers for a while, to so many samples a second. */
  limitReaders(samples: number, { deadlines }: Deadlines): Pending {
    return this.#pending((when) => ({ what: "rate", when, samples, deadlines }));
  }

  /**
   * The job's reference run, for `verify` of several schedules. @throws RemoteError where it fails
   */
  reference(): Promise<ReferenceRun> {
    const { devices, hosts } = this.#stage;
    return runReference(this.#job, devices * Math.max(1, hosts));
  }

  /**
   * Trains the job undisturbed and disturbed, and compares.
   * @throws PromiseBrokenError where they differ, or the faulted run did not come to its end
   * @throws InvalidOptionError where there is no such fault
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
    if ("seed" in plan) return drawFor(this.#job, reference, { ...plan, stage: this.#stage });
    return checkSchedule({ version: 1, stage: this.#stage, faults: plan.faults });
  }

  #pending(fault: (when: MomentOptions) => FaultOptions): Pending {
    return { at: (when) => this.fault(fault(when)) };
  }
}

/** Actors with a thread of their own; `host` and `root` are processes, and the others actors. */
const threaded = /^(device|reader|tier|bridge|writer):\d+$|^prepare$/;

/** The place that a short name means; a full one (`actor:device:1`) is what it says. */
function strikable(name: string): string {
  if (/^(thread|actor|process):|^\*$/.test(name)) return name;
  if (threaded.test(name)) return `thread:${name}`;
  if (name === "root" || name.startsWith("host:")) return `process:${name}`;
  return `actor:${name.includes(":") ? name : `${name}:0`}`;
}

function framesOf({ frames, subject = ">", from = "*", to = "*" }: FrameOptions) {
  return { frames, subject, from: strikable(from), to: strikable(to) };
}
