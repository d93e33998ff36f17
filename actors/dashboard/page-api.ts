// What the dashboard's server tells its page: types that both are compiled against. All figures in
// them are those of events, requests and inspection; nothing here counts by itself.
//
//   GET  /api/stream                  server-sent events: hello · told · report
//   GET  /api/runs                    RunLine[], also those that are over
//   GET  /api/runs/RUN/events         RunHistory
//   GET  /api/runs/RUN                RunSummary
//   GET  /api/shards                  ShardReport[]
//   GET  /api/tiers                   TierReport[]
//   GET  /api/actor?host=H&actor=A&run=R    ActorDetail
//   POST /api/jobs/METHOD             a request to the job service, where `control` is allowed
//   POST /api/faults                  an actor is told to throw, where `faults` are allowed

import type { StepTimes } from "../../src/training/meters/step-meter.ts";
import type { HistoryPoint } from "../../storage/checkpoints/run-history.ts";
import type { ColumnSlices } from "../../storage/model/evaluation/slice-metrics.ts";
import type { RunLine, RunSummary } from "../jobs/job-api.ts";
import type { HeardMessage } from "../observe/heard-messages.ts";
import type { ActorOverview, OverviewReport, ProcessOverview } from "../observe/overview.ts";
import type { ActorReport } from "../observe/process-report.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { Wait } from "../runtime/wait-graph.ts";

export type { ActorOverview, OverviewReport, ProcessOverview, RunEvent, RunLine, RunSummary };

/** What a page may do besides looking. */
export const pageActions = ["control", "faults"] as const;
export type PageAction = (typeof pageActions)[number];

/** Requests to the job service that a page may pass on. */
export const pageMethods = ["submit", "pause", "resume", "cancel", "scale", "checkpoint"] as const;
export type PageMethod = (typeof pageMethods)[number];

/** An event, and when the dashboard heard of it: milliseconds since 1970; undefined: it did not. */
export interface ToldEvent {
  readonly event: RunEvent;
  readonly atMs?: number | undefined;
}

/** The first message of a stream: `hello`. */
export interface Hello {
  /** Of this server's life: another one means that numbers of events begin anew. */
  readonly epoch: string;
  readonly cluster: string;
  readonly version: string;
  /** Whose page it is; null: the operator's. */
  readonly tenant: string | null;
  readonly allow: readonly PageAction[];
  /** Events may be missing since the last connection: histories have to be asked for again. */
  readonly isGap: boolean;
}

/** A message `report`: the parts of the cluster that have changed since the message before. */
export type ReportChanges = Partial<OverviewReport>;

/** What is kept of a run's events. */
export interface RunHistory {
  readonly events: readonly ToldEvent[];
  /** Events of progress that were left out between others, so that the page gets few. */
  readonly thinned: number;
}

/** One actor, looked at. */
export interface ActorDetail extends Omit<ActorReport, "children"> {
  readonly host: number | null;
  readonly children: number;
  /** Waits in which it is one of the two. */
  readonly waits: readonly Wait[];
  /** That it heard last, the newest first; of an actor without a mailbox none. */
  readonly messages: readonly HeardMessage[];
}

/** Of `POST /api/faults`. */
export interface FaultOrder {
  readonly run: string;
  /** `device:1`, `coordinator:0` */
  readonly actor: string;
}

/** What a report file has inside it. */
export interface ReportData {
  readonly run: string;
  /** Of its job. */
  readonly name: string;
  /** ISO 8601. */
  readonly madeAt: string;
  /** Of a run that a cluster remembers; else none. */
  readonly events: readonly ToldEvent[];
  /** Of a run of which there are only its checkpoints. */
  readonly kept?: KeptRun | undefined;
  /** The job, option by option. */
  readonly options?: RunSummary["options"];
  /** Metrics of the model by the values of columns, where they were asked for. */
  readonly slices?: readonly ColumnSlices[] | undefined;
  /** Name and value of what trained it, and on what. */
  readonly environment: readonly (readonly [name: string, value: string])[];
}

/** What a checkpoint directory has of a run. */
export interface KeptRun {
  readonly directory: string;
  readonly step: number;
  /** Of the newest checkpoint. */
  readonly digest: string;
  readonly arithmetic: string;
  readonly generation: number;
  readonly history: readonly HistoryPoint[];
  /** Where the time of its steps went, of all of them; undefined: its log does not tell. */
  readonly times?: StepTimes | undefined;
  /** Of its log: what was more than usual. */
  readonly lines: readonly { readonly at: string; readonly level: string; readonly text: string }[];
}
