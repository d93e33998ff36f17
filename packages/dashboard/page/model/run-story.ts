// The state and history of one run, derived from its events in bounded memory: curves of loss and
// metrics, the stages of a step's time, incidents, warnings, the plan, and recomputed steps.
//
// Invariants
//   R1. An event counts once: events whose number is not above the last one are skipped.
//   R2. However much a run reports, a story keeps at most `keptMax` of each kind of line.

import { count } from "../../../../cli/support/format.ts";
import type { IncidentRecord, StepTimes } from "../../../../internal.ts";
import type { KeptRun, RunEvent, RunSummary, TimedEvent } from "../../server/page-api.ts";
import type { ShownIncident } from "./incident-phases.ts";
import type { Evaluated } from "./metric-curves.ts";
import { type Replay, ReplayCheck } from "./replay.ts";
import { Series } from "./series.ts";

type EventOf<Type extends RunEvent["type"]> = Extract<RunEvent, { readonly type: Type }>;

/** R2 */
const keptMax = 500;

/** A failure or change at a step, marked in curves because it may explain them. */
export interface StoryMark {
  readonly step: number;
  readonly text: string;
  readonly isFailure: boolean;
}

/** A line in the list of events. */
export interface StoryLine {
  readonly seq: number;
  readonly atMs: number | undefined;
  readonly level: "info" | "warn" | "error";
  readonly text: string;
}

export class RunStory {
  readonly run: string;
  name = "";
  state = "queued";
  #seq = -1;
  generation = 0;
  step = 0;
  steps = 0;
  samplesPerSecond = 0;
  started: EventOf<"run.started"> | undefined;
  prepared: EventOf<"run.prepared"> | undefined;
  progress: EventOf<"run.progress"> | undefined;
  finished: EventOf<"run.finished"> | undefined;
  failed: EventOf<"run.failed"> | undefined;
  kept: KeptRun | undefined;
  tiers: EventOf<"run.checkpointed">["tiers"];
  /** The job's options; undefined: not requested, or not known to the cluster. */
  options: RunSummary["options"];
  /** (step, loss), as computed the first time. */
  readonly loss = new Series();
  /** (step, loss) of recomputed steps whose loss differs. */
  readonly different = new Series();
  readonly evaluations: Evaluated[] = [];
  /** (step, milliseconds of each group of stages). */
  readonly stages = new Series();
  /** (step, learning rate of the dense layers, of the tables). */
  readonly rates = new Series();
  /** (step, samples a second). */
  readonly speed = new Series();
  /** (step, share of the step in which its devices waited for their batch). */
  readonly stalls = new Series();
  readonly checkpoints: EventOf<"run.checkpointed">[] = [];
  readonly stragglers: EventOf<"run.straggler">[] = [];
  readonly lines: StoryLine[] = [];
  readonly #changes: StoryMark[] = [];
  readonly #check = new ReplayCheck();
  readonly #incidents = new Map<number, ShownIncident>();

  constructor(run: string) {
    this.run = run;
  }

  /** `800 of 1,758`; the steps of the whole run are unknown for a run that is only on disk. */
  get reached(): string {
    return this.steps === 0 ? count(this.step) : `${count(this.step)} of ${count(this.steps)}`;
  }

  /** The stretches of steps that were computed again, oldest first. */
  get replays(): readonly Replay[] {
    return this.#check.found;
  }

  /** Failures and changes of devices, by step, to mark in curves. */
  get marks(): readonly StoryMark[] {
    const failures = this.incidents.map(({ record: { offender, step, end } }) => ({
      step: step ?? end?.step ?? 0,
      text: `${offender} ${offender.startsWith("host:") ? "lost" : "failed"}`,
      isFailure: true,
    }));
    return [...failures, ...this.#changes].sort((a, b) => a.step - b.step);
  }

  get incidents(): readonly ShownIncident[] {
    return [...this.#incidents.values()];
  }

  take({ event, atMs }: TimedEvent): void {
    if (event.seq <= this.#seq) return; // R1
    this.#seq = event.seq;
    this.generation = Math.max(this.generation, event.generation);
    this.#note(event, atMs);
    const line = lineOf(event);
    if (line === undefined) return;
    this.lines.push({ seq: event.seq, atMs, ...line });
    if (this.lines.length > keptMax) this.lines.shift();
  }

  /** Takes the record of a checkpoint directory, for a run that no cluster remembers. */
  takeKept(kept: KeptRun): void {
    this.kept = kept;
    this.state = `kept at step ${count(kept.step)}`;
    this.step = kept.step;
    this.generation = kept.generation;
    for (const { step, loss, ...metrics } of kept.history) {
      this.loss.add([step, loss]);
      if (metrics.auc === undefined && metrics.rmse === undefined) continue;
      this.evaluations.push({ step, metrics });
    }
    for (const [seq, { at, level, text }] of kept.lines.slice(-keptMax).entries()) {
      const shown = level === "error" || level === "fatal" ? "error" : "warn";
      this.lines.push({ seq, atMs: Date.parse(at), level: shown, text });
    }
  }

  #note(event: RunEvent, atMs: number | undefined): void {
    switch (event.type) {
      case "run.queued":
        this.name = event.name;
        return;
      case "run.prepared":
        this.prepared = event;
        return;
      case "run.started":
        this.started = event;
        this.state = "running";
        this.step = event.fromStep;
        this.steps = event.steps;
        this.#check.begin(event.fromStep);
        return;
      case "run.progress":
        this.#noteProgress(event, atMs);
        return;
      case "run.evaluated":
        this.#check.note("evaluation", event.step, event.metrics);
        bounded(this.evaluations, { step: event.step, metrics: event.metrics });
        return;
      case "run.checkpointed":
        this.#check.note("checkpoint", event.step, event.digest);
        bounded(this.checkpoints, event);
        this.tiers = event.tiers ?? this.tiers;
        return;
      case "run.incident":
        this.#begin(event);
        return;
      case "run.recovered":
        for (const record of event.incidents) this.#incidents.set(record.incident, { record });
        this.state = "running";
        return;
      case "run.straggler":
        bounded(this.stragglers, event);
        return;
      case "run.scaled":
      case "run.moved":
      case "run.adapted":
        bounded(this.#changes, { step: event.step, text: changeOf(event), isFailure: false });
        return;
      case "run.finished":
        this.finished = event;
        this.tiers = event.result.tiers ?? this.tiers;
        this.state = event.result.status;
        this.samplesPerSecond = 0;
        this.step = event.result.step;
        for (const record of event.result.incidents) this.#keep(record);
        return;
      case "run.failed":
        this.failed = event;
        this.state = event.error.code === "RUN_CANCELLED" ? "cancelled" : "failed";
        this.samplesPerSecond = 0;
        return;
      default:
        this.#noteState(event);
    }
  }

  #noteState({ type }: RunEvent): void {
    if (type === "run.paused") this.state = "paused";
    if (type === "run.preempted" || type === "run.resumed") this.state = "queued";
    if (type === "run.waiting" || type === "run.preparing") this.state = "running";
    if (type !== "run.renumbered") return;
    this.samplesPerSecond = 0;
  }

  #noteProgress(event: EventOf<"run.progress">, atMs: number | undefined): void {
    const { step, steps, loss, losses = [], samplesPerSecond, times } = event;
    for (const entry of losses) {
      if (entry.step !== step) this.#noteLoss(entry.step, entry.loss);
    }
    if (!this.#noteLoss(step, loss).isAgain) this.loss.add([step, loss]);
    const { learningRates: rates } = event;
    if (rates !== undefined) this.rates.add([step, rates.dense, rates.sparse]);
    this.progress = event;
    this.step = step;
    this.steps = steps;
    this.samplesPerSecond = samplesPerSecond;
    this.state = "running";
    this.speed.add([step, samplesPerSecond]);
    if (times !== undefined) {
      const shares = stageSharesOf(times.shares);
      this.stages.add([step, ...stageGroups.map((_, at) => times.stepMs * (shares[at] ?? 0))]);
      this.stalls.add([step, times.shares.batch]);
    }
    for (const [incident, shown] of this.#incidents) {
      const { record, caughtUpAtMs } = shown;
      if (caughtUpAtMs !== undefined || record.end?.how !== "restored") continue;
      if (atMs === undefined || step < (record.step ?? 0)) continue;
      this.#incidents.set(incident, { record, caughtUpAtMs: atMs });
    }
  }

  #noteLoss(step: number, loss: number) {
    const noted = this.#check.note("loss", step, loss);
    if (noted.isDifferent) this.different.add([step, loss]);
    return noted;
  }

  #begin(event: EventOf<"run.incident">): void {
    const { type: _type, seq: _seq, run: _run, actions = [], ...cause } = event;
    this.#keep({ ...cause, actions, followed: [] });
    if (event.end === undefined) {
      this.state = "recovering";
      this.samplesPerSecond = 0;
    }
  }

  #keep(record: IncidentRecord): void {
    const before = this.#incidents.get(record.incident);
    this.#incidents.set(record.incident, { ...before, record });
    const [oldest] = this.#incidents.keys();
    if (this.#incidents.size > keptMax && oldest !== undefined) this.#incidents.delete(oldest);
  }
}

/** The text of a change's mark in a chart. */
function changeOf(event: EventOf<"run.scaled" | "run.moved" | "run.adapted">): string {
  if (event.type === "run.adapted") return "tables placed anew";
  if (event.type === "run.moved") return `${event.shards.length} shards moved`;
  return event.from === event.to ? "work redistributed" : `${event.from} to ${event.to} devices`;
}

function bounded<Line>(lines: Line[], line: Line): void {
  lines.push(line);
  if (lines.length > keptMax) lines.shift();
}

/** The line of an event for people; undefined for events that the figures show. */
function lineOf(event: RunEvent): Pick<StoryLine, "level" | "text"> | undefined {
  switch (event.type) {
    case "run.incident":
      return { level: "warn", text: `${event.offender} failed: ${event.error.message}` };
    case "run.recovered":
      return { level: "info", text: `recovered: continues from step ${count(event.fromStep)}` };
    case "run.alert":
    case "run.tier":
      return { level: "warn", text: event.message };
    case "run.link": {
      const { direct, broker } = event;
      const text = `links between hosts: ${direct} direct, ${broker} over the broker`;
      return { level: broker === 0 ? "info" : "warn", text };
    }
    case "run.straggler": {
      const times = `${event.factor.toFixed(1)} times as long as the others`;
      return { level: "warn", text: `device:${event.device} computes ${times}` };
    }
    case "run.draining":
      return { level: "warn", text: `host:${event.host} leaves: ${event.reason}` };
    case "run.scaled": {
      const { from, to } = event;
      const text =
        from === to ? `work redistributed among ${to} devices` : `${from} to ${to} devices`;
      return { level: "info", text };
    }
    case "run.paused":
      return { level: "info", text: `paused at step ${count(event.step)}` };
    case "run.resumed":
      return { level: "info", text: "resumed" };
    case "run.preempted":
      return { level: "info", text: `made room for ${event.by}` };
    case "run.started":
      return { level: "info", text: `generation ${event.generation} on ${event.devices} devices` };
    case "run.finished":
      return { level: "info", text: `${event.result.status} at step ${count(event.result.step)}` };
    case "run.failed":
      return { level: "error", text: event.error.message };
    default:
      return undefined;
  }
}

/** `2026-11-28 09:05:03` */
export function momentText(date: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":")}`;
}

type Part = keyof StepTimes["shares"];

/** Every part of a step is in one group. */
export const stageGroups: readonly { readonly name: string; readonly parts: readonly Part[] }[] = [
  { name: "computing", parts: ["computing"] },
  { name: "batch", parts: ["batch"] },
  { name: "ids", parts: ["sendingIds", "ids"] },
  { name: "vectors", parts: ["partials", "pooled", "rows"] },
  { name: "gradients", parts: ["dPooled", "dPartials", "dRows", "rowSums", "gradients", "losses"] },
  { name: "tiers", parts: ["tiers"] },
  { name: "checkpoint", parts: ["checkpoint"] },
];

/** The share of each group, in the order of `stageGroups`. */
export function stageSharesOf(shares: Readonly<Partial<Record<Part, number>>>): number[] {
  return stageGroups.map(({ parts }) => parts.reduce((sum, part) => sum + (shares[part] ?? 0), 0));
}
