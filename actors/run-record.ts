// The record of a run: what was asked, how far it is, and what happened, as events for its owner.
// It is plain data outside every actor, so that whoever restarts finds it where it was.

import type { ErrorRecord } from "../src/errors.ts";
import type { JobSpec } from "../src/job.ts";
import type { JournalEntry } from "../storage/run-journal.ts";
import type { EventBody, RunEvent, RunResult, RunStatus } from "./run-events.ts";
import type { DeviceName } from "./straggler-watch.ts";

/** Tells the world an event of a run, which is a tenant's or nobody's. */
export type PublishEvent = (event: RunEvent, tenant: string | undefined) => void;

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
  /** Whose it is; undefined: of whoever runs the cluster. */
  readonly tenant: string | undefined;
  status: RunStatus = "queued";
  isCancelAsked = false;
  /** A change of its devices that has begun, until the first step with others. */
  scaling: Scaling | undefined;
  /** How fast devices are that were found slow, beside the others: their share of the slices. */
  readonly speeds = new Map<DeviceName, number>();
  result: RunResult | undefined;
  error: ErrorRecord | undefined;
  readonly #events: RunEvent[] = [];
  #nextSeq = 0;
  #devicesAsked: number | undefined;
  readonly #onScale = new Set<() => void>();
  readonly #publish: PublishEvent;
  readonly #keep: (entry: JournalEntry<RunEvent>) => void;

  constructor(
    { run, job, tenant }: Pick<RunRecord, "run" | "job"> & { readonly tenant?: string | undefined },
    publish: PublishEvent,
    keep: (entry: JournalEntry<RunEvent>) => void = () => {},
  ) {
    this.run = run;
    this.job = job;
    this.tenant = tenant;
    this.#publish = publish;
    this.#keep = keep;
  }

  /** Adds what happened, and tells whoever follows. */
  append(generation: number, body: EventBody): void {
    const event: RunEvent = { ...body, seq: this.#nextSeq, run: this.run, generation };
    this.#keep({ kind: "event", run: this.run, event });
    this.#note(event);
    this.#publish(event, this.tenant);
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
    if (event.type === "run.finished") {
      this.result = event.result;
      this.status = event.result.status === "cancelled" ? "cancelled" : "finished";
    }
    if (event.type === "run.failed") {
      this.error = event.error;
      this.status = event.error.code === "RUN_CANCELLED" ? "cancelled" : "failed";
    }
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
