// The record of a run: its job and later requests, its progress, and its events for its owner.
// Plain data outside every actor, so that a restarted actor finds it unchanged.

import type { RunContents } from "../../../src/data/contents.ts";
import type { ErrorRecord } from "../../../src/errors/errors.ts";
import { type JobSpec, jobTextOf } from "../../../src/job/job.ts";
import { withoutOwnCosts } from "../../../src/job/job-files.ts";
import { stepBefore } from "../../../src/job/warm-start.ts";
import type { ShardPin } from "../../../src/planner/pins.ts";
import { type PlannedCut, type Schedule, scheduleOf } from "../../../src/training/loop/schedule.ts";
import type { PlacedRun } from "../../../src/training/planning/run-plan.ts";
import type { JournalEntry } from "../../../storage/cluster/run-journal.ts";
import type { Incident } from "../../runtime/incident.ts";
import type { Wait } from "../../runtime/wait-graph.ts";
import { IncidentLog } from "./incident-log.ts";
import type { IncidentAction, IncidentCause } from "./incident-record.ts";
import type { MeasuredSoFar } from "./measured-plans.ts";
import { ReaderRequests } from "./reader-requests.ts";
import type { EventBody, RunEvent, RunStatus } from "./run-events.ts";
import { beginnings, eventsMax } from "./run-events.ts";
import type { RunResult } from "./run-result.ts";
import type { Scaling, ShardPlaces } from "./shard-places.ts";
import type { DeviceName } from "./straggler-watch.ts";

/** Publishes an event of a run, which belongs to a tenant or to the operator. */
export type PublishEvent = (event: RunEvent, tenant: string | undefined) => void;

/** Persists the entries of runs for the next leader. An event is kept before it is published. */
export interface RunKeeper {
  keep(entry: JournalEntry<RunEvent>): void;
  /** Resolves once all entries kept so far are persisted. */
  kept(): Promise<void>;
  /** The run was evicted from the registry. */
  forget(run: string): void;
}

/** Numbers that `renumber` skips: more than the published events that a journal may lack. */
const seqsLost = 1000;

/** Fields of `run.recovered` without its incidents. */
export type Recovered = Omit<EventBody & { type: "run.recovered" }, "type" | "incidents">;

/** Identity of a run: its id, job, tenant and key. */
export interface RunIdentity {
  readonly run: string;
  readonly job: JobSpec;
  readonly tenant?: string | undefined;
  readonly key?: string | undefined;
}

export class RunRecord {
  readonly run: string;
  readonly job: JobSpec;
  /** The tenant that owns the run; undefined: the cluster's operator. */
  readonly tenant: string | undefined;
  /** The idempotency key of its submission, unique per tenant. */
  readonly key: string | undefined;
  isCancelRequested = false;
  isPauseRequested = false;
  preemptedBy: string | undefined; // The run that preempts this run.
  isCheckpointRequested = false; // After the current step.
  readonly roomAwaited = new Set<number>(); // Devices whose checkpoints wait for a full disk.
  /** A change of devices in progress, until the first step with the new devices. */
  scaling: Scaling | undefined;
  idleOf: number | undefined; // Offered devices in its last alert DEVICES_IDLE.
  /** Replay only: cuts instead of those of the job; the last one ends the run. */
  cuts: readonly PlannedCut[] | undefined;
  /** Replay only: the directory of the replayed run, and the contents of its data, if recorded. */
  replayed: { readonly directory: string; readonly contents: RunContents | undefined } | undefined;
  /** Relative speeds of stragglers, from which their share of the slices follows. */
  readonly speeds = new Map<DeviceName, number>();
  /** The plan of the last generation, and the hosts that it was made for. */
  placed: PlacedRun | undefined;
  /** Measurements of the run's plans, and the duration of its last planned change. */
  measured: MeasuredSoFar = { plans: [], changeSeconds: undefined };
  readonly readers: ReaderRequests;
  shards: ShardPlaces | undefined; // Of the newest generation that this leader assembled.
  result: RunResult | undefined;
  error: ErrorRecord | undefined;
  readonly incidents = new IncidentLog();
  /** Waits of the threads of its hosts, by the last heartbeats (wait-graph.ts). */
  threadWaits: readonly Wait[] = [];
  #status: RunStatus = "queued";
  #schedule: Schedule | undefined;
  #step: number | undefined;
  /** The last reported step, and the number of steps of the job. */
  progress: { readonly step: number; readonly steps: number } | undefined;
  readonly #events: RunEvent[] = [];
  #nextSeq = 0;
  #savedStep = 0;
  #generation = 0;
  #devicesRequested: number | undefined;
  #pins: readonly ShardPin[] = [];
  #jobText: string | undefined;
  readonly #onRequest = new Set<() => void>();
  readonly #onEvent = new Set<(event: RunEvent) => void>();
  readonly #publish: PublishEvent;
  readonly #keeper: Pick<RunKeeper, "keep">;
  readonly #onChange: (record: RunRecord, before: RunStatus) => void;

  constructor(
    { run, job, tenant, key }: RunIdentity,
    publish: PublishEvent,
    keeper: Pick<RunKeeper, "keep">,
    onChange: (record: RunRecord, before: RunStatus) => void = () => {},
  ) {
    this.run = run;
    this.job = job;
    this.tenant = tenant;
    this.key = key;
    this.#publish = publish;
    this.#keeper = keeper;
    this.#onChange = onChange;
    const keep = (readerLimit: number) => keeper.keep({ kind: "request", run, readerLimit });
    this.readers = new ReaderRequests(keep, () => this.#notifyRequest());
  }

  get status(): RunStatus {
    return this.#status;
  }

  set status(status: RunStatus) {
    const before = this.#status;
    this.#status = status;
    if (status !== before) this.#onChange(this, before);
  }

  /**
   * The job as canonical text: equal text means the same job. The learned costs that its submission
   * found are left out: a repeated submission may find others.
   */
  get jobText(): string {
    this.#jobText ??= jobTextOf(withoutOwnCosts(this.job));
    return this.#jobText;
  }

  /** Appends an event: keeps it, updates the record, publishes it and calls the listeners. */
  append(generation: number, body: EventBody): void {
    const event: RunEvent = { ...body, seq: this.#nextSeq, run: this.run, generation };
    this.#keeper.keep({ kind: "event", run: this.run, event });
    this.#note(event);
    this.#publish(event, this.tenant);
    for (const listen of [...this.#onEvent]) listen(event);
  }

  /**
   * Records a failure in a generation (0: between two generations). Publishes run.incident, unless
   * the failure is secondary to an open incident.
   */
  fail(generation: number, incident: Incident, at: Date): void {
    if (this.incidents.follow(generation, incident, at)) return;
    this.append(generation, { type: "run.incident", ...this.#causeOf(incident, at) });
  }

  /** Records a failure that was repaired without a restore: run.incident, with its end. */
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

  /** Publishes run.recovered at the first step after a restore; it ends all open incidents. */
  recovered(generation: number, recovered: Recovered, at: Date): void {
    const end = { how: "restored", generation, step: recovered.fromStep } as const;
    const incidents = this.incidents.end(end, at);
    this.append(generation, { type: "run.recovered", ...recovered, incidents });
  }

  #causeOf({ reason, ...where }: Incident, at: Date): IncidentCause {
    const step = where.step ?? this.#step;
    const { stepsPerEpoch = 0, begin = 0 } = this.#schedule ?? {};
    const batch =
      step === undefined || stepsPerEpoch === 0
        ? undefined
        : {
            pass: Math.floor((step - begin) / stepsPerEpoch),
            index: (step - begin) % stepsPerEpoch,
          };
    const when = { incident: this.incidents.next, at: at.toISOString() };
    return { ...when, ...where, error: reason, step, batch };
  }

  /** Restores one journal entry of this run, written by a former leader. */
  restore(entry: Exclude<JournalEntry<RunEvent>, { kind: "run" }>): void {
    if (entry.kind === "request") {
      this.#devicesRequested = entry.devices ?? this.#devicesRequested;
      this.#pins = entry.pins ?? this.#pins;
      this.readers.restore(entry.readerLimit);
      this.isCancelRequested ||= entry.cancel === true;
      this.isPauseRequested = entry.pause ?? this.isPauseRequested;
      this.#onChange(this, this.status);
      return;
    }
    if (beginnings.has(entry.event.type) && this.status === "queued") this.status = "running";
    this.#note(entry.event);
  }

  /**
   * Skips the numbers of events that the former leader may have published without persisting them.
   * Returns the event that says so, to be published once it is kept.
   */
  renumber(): RunEvent {
    const last = this.#nextSeq - 1;
    const first = this.#nextSeq + seqsLost;
    const { run } = this;
    const event: RunEvent = { type: "run.renumbered", last, first, seq: first, run, generation: 0 };
    this.#note(event);
    return event;
  }

  #note(event: RunEvent): void {
    this.#nextSeq = event.seq + 1;
    this.#generation = Math.max(this.#generation, event.generation);
    this.#events.push(event);
    if (this.#events.length > eventsMax) this.#events.shift();
    this.#noteIncidents(event);
    switch (event.type) {
      case "run.started":
        this.progress = { step: event.fromStep, steps: event.steps };
        return;
      case "run.progress":
        this.progress = { step: event.step, steps: event.steps };
        return;
      case "run.checkpointed":
        this.#savedStep = event.step;
        return;
      case "run.paused":
        this.status = "paused";
        return;
      case "run.preempted":
      case "run.resumed":
        this.status = "queued";
        return;
      case "run.finished":
        this.result = event.result;
        this.#noteLast(event.result.step);
        this.status = event.result.status === "cancelled" ? "cancelled" : "finished";
        return;
      case "run.failed":
        this.error = event.error;
        this.status = event.error.code === "RUN_CANCELLED" ? "cancelled" : "failed";
        return;
      default:
    }
  }

  /** Sets the progress to the last step: a run resubmitted after it finished reports no steps. */
  #noteLast(step: number): void {
    const steps = this.progress?.steps ?? this.#schedule?.steps;
    if (steps !== undefined) this.progress = { step, steps };
  }

  #noteIncidents(event: RunEvent): void {
    const { generation } = event;
    if (event.type === "run.started") this.#step = event.fromStep;
    if (event.type === "run.progress") this.#step = event.step;
    if (event.type === "run.prepared") {
      const { batchSize, passes } = this.job.data;
      const begin = stepBefore(this.job);
      this.#schedule = scheduleOf({ samples: event.samples, batchSize, passes, begin });
    }
    if (event.type === "run.incident") {
      const { type: _type, seq: _seq, run: _run, generation: _generation, ...cause } = event;
      const { end, actions = [], ...first } = cause;
      this.incidents.begin(generation, first);
      const ended = { ...first, generation, followed: [], actions, end };
      if (end !== undefined) this.incidents.take([ended]);
    }
    if (event.type === "run.recovered") this.incidents.take(event.incidents);
    if (event.type === "run.failed") this.incidents.giveUp(generation);
  }

  /** The journal entries of this run: pending requests, then events. */
  *entries(): Generator<Exclude<JournalEntry<RunEvent>, { kind: "run" }>> {
    const { run } = this;
    const devices = this.#devicesRequested;
    if (devices !== undefined) yield { kind: "request", run, devices };
    if (this.#pins.length > 0) yield { kind: "request", run, pins: this.#pins };
    const readerLimit = this.readers.limit;
    if (readerLimit > 0) yield { kind: "request", run, readerLimit };
    if (this.isCancelRequested) yield { kind: "request", run, cancel: true };
    if (this.isPauseRequested) yield { kind: "request", run, pause: true };
    for (const event of this.#events) yield { kind: "event", run, event };
  }

  /** Devices requested after submission; undefined: as in the job. */
  get devicesRequested(): number | undefined {
    return this.#devicesRequested;
  }

  /** The newest generation with an event; 0: none. */
  get generation(): number {
    return this.#generation;
  }

  /** Step of the last published checkpoint; 0: none. */
  get savedStep(): number {
    return this.#savedStep;
  }

  /** Whether the run must save a checkpoint after its step and then release its devices. */
  get isYieldRequested(): boolean {
    return this.isPauseRequested || this.preemptedBy !== undefined;
  }

  /** Requests the cancellation of the run. */
  cancel(): void {
    this.#keeper.keep({ kind: "request", run: this.run, cancel: true });
    this.isCancelRequested = true;
    this.#onChange(this, this.status);
  }

  /** Requests a pause: the run releases its devices until it is resumed. */
  pause(): void {
    this.#keeper.keep({ kind: "request", run: this.run, pause: true });
    this.isPauseRequested = true;
    this.#onChange(this, this.status);
  }

  /** Lifts a pause; the run keeps its former place in the queue. */
  resume(): void {
    this.#keeper.keep({ kind: "request", run: this.run, pause: false });
    this.isPauseRequested = false;
    this.#onChange(this, this.status);
    if (this.status === "paused") this.append(0, { type: "run.resumed" });
  }

  /** Requests a checkpoint after the current step. */
  requestCheckpoint(): void {
    this.isCheckpointRequested = true;
    this.#notifyRequest();
  }

  /** Requests another number of devices. */
  scale(devices: number): void {
    this.#keeper.keep({ kind: "request", run: this.run, devices });
    this.#devicesRequested = devices;
    this.#notifyRequest();
  }

  /** Parts of tables pinned to devices. */
  get pins(): readonly ShardPin[] {
    return this.#pins;
  }

  set pins(pins: readonly ShardPin[]) {
    this.#keeper.keep({ kind: "request", run: this.run, pins });
    this.#pins = pins;
    this.#notifyRequest();
  }

  /** Sets the shard placement of a new generation. */
  place(shards: ShardPlaces | undefined): void {
    this.shards = shards;
    this.#notifyRequest();
  }

  /** Calls `listen` on every request for devices, pins, readers or a checkpoint. */
  onRequest(listen: () => void): () => void {
    this.#onRequest.add(listen);
    return () => this.#onRequest.delete(listen);
  }

  /** Calls `listen` for every new event. The returned function removes the listener. */
  onEvent(listen: (event: RunEvent) => void): () => void {
    this.#onEvent.add(listen);
    return () => this.#onEvent.delete(listen);
  }

  #notifyRequest(): void {
    for (const listen of [...this.#onRequest]) listen();
  }

  /** Number of its events that are kept. */
  get eventsKept(): number {
    return this.#events.length;
  }

  /** Drops all but its last `most` events. */
  keepEvents(most: number): void {
    this.#events.splice(0, this.#events.length - most);
  }

  /** The events from `seq` on that are still kept, at most `most` of them. */
  since(seq: number, most = 500): RunEvent[] {
    const first = this.#events.findIndex((event) => event.seq >= seq);
    return first < 0 ? [] : this.#events.slice(first, first + most);
  }

  /** Whether nothing more will happen. */
  get isOver(): boolean {
    return this.status === "finished" || this.status === "failed" || this.status === "cancelled";
  }
}
