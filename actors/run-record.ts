// The record of a run: what was asked, how far it is, and what happened, as events for its owner.
// It is plain data outside every actor, so that whoever restarts finds it where it was.

import type { ErrorRecord } from "../src/errors.ts";
import type { JobSpec } from "../src/job.ts";
import type { Metrics } from "../src/training/metrics.ts";
import { type Schedule, scheduleOf } from "../src/training/schedule.ts";
import type { StepTimes } from "../src/training/step-meter.ts";
import type { TableTiers } from "../src/training/tier-advice.ts";
import type { JournalEntry } from "../storage/run-journal.ts";
import type { Incident } from "./incident.ts";
import {
  type IncidentAction,
  type IncidentCause,
  type IncidentEnd,
  IncidentLog,
  type IncidentRecord,
} from "./incident-log.ts";
import type { DeviceName } from "./straggler-watch.ts";
import type { Wait } from "./waits.ts";

/** One point of a run's history. */
export interface CutRecord {
  /** Steps done. */
  readonly step: number;
  /** Mean loss of the steps since the point before. */
  readonly trainLoss: number;
  /** Metrics on the held-out samples, where this cut evaluated. */
  readonly evaluation?: Metrics | undefined;
}

/** A table, and how many of its ids lay outside it and were clamped or hashed by its policy. */
export interface RepairedTable {
  readonly table: string;
  readonly ids: number;
}

/** A table with dynamic ids, and what became of them in the steps of a run. */
export interface DynamicTable {
  readonly table: string;
  /** Ids that were given a row, and those that lost theirs; one that came back counts again. */
  readonly admitted: number;
  readonly evicted: number;
  /** Lookups of ids that had no row. */
  readonly dropped: number;
  /** Rows of the table, and how many of them ids have. */
  readonly rows: number;
  readonly rowsUsed: number;
}

/** What the steps of a bounded run read of its stale tables. */
export interface Staleness {
  /** Steps that read them fresh: the first after the start and after each cut and pause. */
  readonly freshSteps: number;
  /** Of each stale table, distinct rows of a step, summed, on which an update was pending. */
  readonly tables: readonly { readonly table: string; readonly rows: number }[];
}

/** What a finished run returns. */
export interface RunResult {
  readonly run: string;
  readonly status: "finished" | "stopped-early" | "cancelled";
  /** The cut of the returned model: the best one, where early stopping asked for it. */
  readonly step: number;
  /** SHA-256 tree hash of the returned model: weights and optimizer state. */
  readonly digest: string;
  readonly auc?: number | undefined;
  readonly logLoss?: number | undefined;
  readonly normalizedEntropy?: number | undefined;
  readonly calibration?: number | undefined;
  readonly history: readonly CutRecord[];
  /** Of all steps of training, each pass counted; tables without any are not in it. */
  readonly repairedIds: readonly RepairedTable[];
  /** What all steps read late; left out where no table has `staleness`. */
  readonly staleness?: Staleness | undefined;
  /** What became of dynamic ids; left out where no table has any. */
  readonly dynamicIds?: readonly DynamicTable[] | undefined;
  /** Checkpoint directory, and the manifest in it that the model is loaded from. */
  readonly directory: string;
  readonly manifest: string;
  /** The last generation: 1 where nothing failed. */
  readonly generation: number;
  readonly samplesPerSecond: number;
  /** Where the time of the last generation's steps went, as far as its hosts have told. */
  readonly times?: StepTimes | undefined;
  /**
   * How long tiers of the last generation waited for room on a full disk, and how long their disk
   * was slow; left out where neither was.
   */
  readonly disk?: { readonly pausedSeconds: number; readonly slowSeconds: number } | undefined;
  /** Of each cached table, in the last generation: its curve, and what more memory would buy. */
  readonly tiers?: readonly TableTiers[] | undefined;
  readonly arithmetic: string;
  /** What failed while it was trained, oldest first, as long as its record remembers. */
  readonly incidents: readonly IncidentRecord[];
}

/** What happened, as whoever tells it says. */
export type EventBody =
  | { readonly type: "run.queued"; readonly name: string }
  /** There are not as many devices yet as it waits for. */
  | { readonly type: "run.waiting"; readonly devices: number; readonly wanted: number }
  | { readonly type: "run.preparing"; readonly fraction: number }
  | {
      readonly type: "run.prepared";
      readonly samples: number;
      readonly heldOut: number;
      readonly steps: number;
      readonly quarantined: number;
      readonly quarantine: readonly { file: string; line: number; reason: string }[];
      readonly bestAuc?: number | undefined;
    }
  | {
      readonly type: "run.started";
      readonly fromStep: number;
      readonly steps: number;
      readonly devices: number;
      /** Whose devices they are, in the order of their ranks. */
      readonly hosts: readonly { readonly host: number; readonly devices: number }[];
      /** Slices of each device, by rank. */
      readonly slices: readonly number[];
      readonly arithmetic: string;
      /** The one sentence where the kernels are slow, and why. */
      readonly notice?: string | undefined;
    }
  | {
      readonly type: "run.progress";
      readonly step: number;
      readonly steps: number;
      readonly loss: number;
      readonly samplesPerSecond: number;
      /** As in the result, up to the last window of steps that ended. */
      readonly repairedIds: readonly RepairedTable[];
      readonly staleness?: Staleness | undefined;
      readonly dynamicIds?: readonly DynamicTable[] | undefined;
      /** Where the time of the steps went since the event before. */
      readonly times?: StepTimes | undefined;
    }
  /** It goes on, but not as it should: what is wrong, and what to do about it. */
  | {
      readonly type: "run.alert";
      readonly code: "PIPELINE_SERIAL";
      readonly step: number;
      readonly message: string;
      /** Of the steps that were judged. */
      readonly times: StepTimes;
    }
  /** What lies below a device's memory is not as it should be, or is again. */
  | {
      readonly type: "run.tier";
      readonly device: number;
      readonly state: "serving" | "paused" | "slow";
      readonly message: string;
    }
  /**
   * Rows of durable tables below a device, when a generation began: how many need not be read from
   * the checkpoint (`found`); and when it ended: how many stay beside it (`kept`). Why there are
   * none.
   */
  | {
      readonly type: "run.durable";
      readonly device: number;
      readonly action: "found" | "kept";
      readonly rows: number;
      readonly reason?: string | undefined;
    }
  | { readonly type: "run.evaluated"; readonly step: number; readonly metrics: Metrics }
  | {
      readonly type: "run.checkpointed";
      readonly step: number;
      readonly digest: string;
      readonly best: boolean;
      readonly bytes: number;
      /** Longest that a device stood still for it, of which it was kept by the one before. */
      readonly stallMs: number;
      readonly waitedMs: number;
      /** As in the result, so far. */
      readonly tiers?: readonly TableTiers[] | undefined;
    }
  /** One for each incident, when it is noticed; `end` where it was mended at once. */
  | ({ readonly type: "run.incident" } & IncidentCause & {
        readonly end?: IncidentEnd | undefined;
        readonly actions?: readonly IncidentAction[] | undefined;
      })
  | {
      readonly type: "run.recovered";
      readonly fromStep: number;
      /** From the incident to the first step after the restore. */
      readonly seconds: number;
      /** What ended with it, each with all that was done about it. */
      readonly incidents: readonly IncidentRecord[];
    }
  /** A device that the others wait for: it computes a step `factor` times as long as they do. */
  | {
      readonly type: "run.straggler";
      readonly device: number;
      readonly host: number;
      readonly factor: number;
    }
  /** It goes on with another number of devices, or with those of other hosts. */
  | {
      readonly type: "run.scaled";
      readonly from: number;
      readonly to: number;
      /** The cut at which it changed. */
      readonly step: number;
      /** From when its devices were told to pause to the first step with the new ones. */
      readonly seconds: number;
    }
  | { readonly type: "run.finished"; readonly result: RunResult }
  | { readonly type: "run.failed"; readonly error: ErrorRecord };

/** What happened to a run. `seq` counts from 0, without gaps as long as its root lives. */
export type RunEvent = EventBody & {
  readonly seq: number;
  readonly run: string;
  readonly generation: number;
};

export type RunStatus = "queued" | "running" | "finished" | "failed" | "cancelled";

/** More events than a root tells of a run before they are on disk. */
const seqsLost = 1000;

/** Events kept for those who come late; older ones are forgotten. */
const eventsMax = 10_000;

/** A change of devices: how many the generation had, and when they were told to pause. */
export interface Scaling {
  readonly generation: number;
  readonly from: number;
  readonly atMs: number;
}

export class RunRecord {
  readonly run: string;
  readonly job: JobSpec;
  status: RunStatus = "queued";
  isCancelAsked = false;
  /** A change of its devices that has begun, until the first step with others. */
  scaling: Scaling | undefined;
  /** How fast devices are that were found slow, beside the others: their share of the slices. */
  readonly speeds = new Map<DeviceName, number>();
  result: RunResult | undefined;
  error: ErrorRecord | undefined;
  /** What failed, and what was done about it. */
  readonly incidents = new IncidentLog();
  /** What the threads of its hosts waited for, by the last heartbeats (waits.ts). */
  threadWaits: readonly Wait[] = [];
  #schedule: Schedule | undefined;
  #step: number | undefined;
  readonly #events: RunEvent[] = [];
  #nextSeq = 0;
  #devicesAsked: number | undefined;
  readonly #onScale = new Set<() => void>();
  readonly #publish: (event: RunEvent) => void;
  readonly #keep: (entry: JournalEntry<RunEvent>) => void;

  constructor(
    run: string,
    job: JobSpec,
    publish: (event: RunEvent) => void,
    keep: (entry: JournalEntry<RunEvent>) => void = () => {},
  ) {
    this.run = run;
    this.job = job;
    this.#publish = publish;
    this.#keep = keep;
  }

  /** Adds what happened, and tells whoever follows. */
  append(generation: number, body: EventBody): void {
    const event: RunEvent = { ...body, seq: this.#nextSeq, run: this.run, generation };
    this.#keep({ kind: "event", run: this.run, event });
    this.#note(event);
    this.#publish(event);
  }

  /**
   * A failure in a generation (0: between two of them): run.incident, unless it follows from one
   * that was told.
   */
  fail(generation: number, incident: Incident, at: Date): void {
    if (this.incidents.follow(generation, incident, at)) return;
    this.append(generation, { type: "run.incident", ...this.#causeOf(incident, at) });
  }

  /** A failure that cost nothing but what `by` did: run.incident, ended with it. */
  mended(
    generation: number,
    incident: Incident,
    action: Omit<IncidentAction, "afterMs">,
    at: Date,
  ): void {
    const cause = this.#causeOf(incident, at);
    const end = { how: "mended" as const, generation, step: cause.step ?? 0, afterMs: 0 };
    const actions = [{ ...action, afterMs: 0 }];
    this.append(generation, { type: "run.incident", ...cause, actions, end });
  }

  /** The first step after a restore: run.recovered, the end of all incidents that lasted. */
  recovered(generation: number, fromStep: number, seconds: number, at: Date): void {
    const incidents = this.incidents.end({ how: "restored", generation, step: fromStep }, at);
    this.append(generation, { type: "run.recovered", fromStep, seconds, incidents });
  }

  #causeOf({ reason, ...where }: Incident, at: Date): IncidentCause {
    const step = where.step ?? this.#step;
    const { stepsPerPass = 0 } = this.#schedule ?? {};
    const batch =
      step === undefined || stepsPerPass === 0
        ? undefined
        : { pass: Math.floor(step / stepsPerPass), index: step % stepsPerPass };
    const when = { incident: this.incidents.next, at: at.toISOString() };
    return { ...when, ...where, error: reason, step, batch };
  }

  /** Takes up what a journal has of it, from a root that is gone. */
  restore(entry: Exclude<JournalEntry<RunEvent>, { kind: "run" }>): void {
    if (entry.kind === "wish") {
      this.#devicesAsked = entry.devices ?? this.#devicesAsked;
      this.isCancelAsked ||= entry.cancel === true;
      return;
    }
    if (entry.event.type !== "run.queued" && this.status === "queued") this.status = "running";
    this.#note(entry.event);
  }

  /** Leaves numbers out that its former root may have told without having kept them. */
  skipNumbers(): void {
    this.#nextSeq += seqsLost;
  }

  #note(event: RunEvent): void {
    this.#nextSeq = event.seq + 1;
    this.#events.push(event);
    if (this.#events.length > eventsMax) this.#events.shift();
    this.#noteIncidents(event);
    if (event.type === "run.finished") {
      this.result = event.result;
      this.status = event.result.status === "cancelled" ? "cancelled" : "finished";
    }
    if (event.type === "run.failed") {
      this.error = event.error;
      this.status = event.error.code === "RUN_CANCELLED" ? "cancelled" : "failed";
    }
  }

  #noteIncidents(event: RunEvent): void {
    const { generation } = event;
    if (event.type === "run.started") this.#step = event.fromStep;
    if (event.type === "run.progress") this.#step = event.step;
    if (event.type === "run.prepared") {
      const { batchSize, passes } = this.job.data;
      this.#schedule = scheduleOf({ samples: event.samples, batchSize, passes });
    }
    if (event.type === "run.incident") {
      const { type: _type, seq: _seq, run: _run, generation: _generation, ...cause } = event;
      const { end, actions = [], ...first } = cause;
      this.incidents.begin(generation, first);
      const ended = { ...first, generation, followed: [], actions, end };
      if (end !== undefined) this.incidents.take([ended]);
    }
    if (event.type === "run.recovered") this.incidents.take(event.incidents);
  }

  /** What a journal must have of it. */
  *entries(): Generator<Exclude<JournalEntry<RunEvent>, { kind: "run" }>> {
    const { run } = this;
    const devices = this.#devicesAsked;
    if (devices !== undefined) yield { kind: "wish", run, devices };
    if (this.isCancelAsked) yield { kind: "wish", run, cancel: true };
    for (const event of this.#events) yield { kind: "event", run, event };
  }

  /** Devices that were asked for since it was submitted; undefined: as its job says. */
  get devicesAsked(): number | undefined {
    return this.#devicesAsked;
  }

  /** Asks for its end. */
  cancel(): void {
    this.#keep({ kind: "wish", run: this.run, cancel: true });
    this.isCancelAsked = true;
  }

  /** Asks for so many devices. */
  scale(devices: number): void {
    this.#keep({ kind: "wish", run: this.run, devices });
    this.#devicesAsked = devices;
    for (const listen of [...this.#onScale]) listen();
  }

  /** Calls `listen` whenever devices are asked for. */
  onScale(listen: () => void): () => void {
    this.#onScale.add(listen);
    return () => this.#onScale.delete(listen);
  }

  /** The events from `seq` on that are still kept, at most `most`. */
  since(seq: number, most = 500): RunEvent[] {
    const first = this.#events.findIndex((event) => event.seq >= seq);
    return first < 0 ? [] : this.#events.slice(first, first + most);
  }

  /** Whether nothing more will happen. */
  get isOver(): boolean {
    return this.status !== "queued" && this.status !== "running";
  }
}
