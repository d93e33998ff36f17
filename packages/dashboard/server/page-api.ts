// The API between the dashboard's server and its page: types that both are compiled against. All
// figures come from events, requests and inspection; the dashboard computes none.
//
//   GET  /api/stream                  server-sent events: hello · events · report
//   GET  /api/runs                    RunLine[], including finished runs
//   GET  /api/runs/RUN/events         RunHistory
//   GET  /api/runs/RUN                RunSummary
//   GET  /api/shards                  ShardReport[]
//   GET  /api/tiers                   TierReport[]
//   GET  /api/actor?host=H&actor=A&run=R    ActorDetail
//   POST /api/jobs/METHOD             a request to the job service, if `control` is allowed
//   POST /api/faults                  makes an actor throw, if `faults` are allowed

import type {
  ActorOverview,
  ActorReport,
  ColumnSlices,
  HistoryPoint,
  OverviewReport,
  ProcessOverview,
  ReceivedMessage,
  RunEvent,
  RunLine,
  RunSummary,
  StepTimes,
  Wait,
} from "../../../internal.ts";

export type { ActorOverview, OverviewReport, ProcessOverview, RunEvent, RunLine, RunSummary };

/** The actions that a page may be allowed to do. */
export const pageActions = ["control", "faults"] as const;
export type PageAction = (typeof pageActions)[number];

/** Requests to the job service that a page may pass on. */
export const pageMethods = ["submit", "pause", "resume", "cancel", "scale", "checkpoint"] as const;
export type PageMethod = (typeof pageMethods)[number];

/**
 * An event with its time of receipt in milliseconds since 1970; undefined: the dashboard missed it.
 */
export interface TimedEvent {
  readonly event: RunEvent;
  readonly atMs?: number | undefined;
}

/** The first message of a stream: `hello`. */
export interface Hello {
  /** Id of this server process: another value means that event numbers have restarted. */
  readonly epoch: string;
  readonly cluster: string;
  readonly version: string;
  /** The tenant of the page; null: the operator. */
  readonly tenant: string | null;
  readonly allow: readonly PageAction[];
  /**
   * Whether events may be missing since the last connection: histories must then be requested
   * again.
   */
  readonly isGap: boolean;
}

/** The message `report`: the parts of the overview that have changed since the previous message. */
export type ReportChanges = Partial<OverviewReport>;

/** The stored events of a run. */
export interface RunHistory {
  readonly events: readonly TimedEvent[];
  /** Number of progress events that were omitted, to keep the history small. */
  readonly thinned: number;
}

export interface ActorDetail extends Omit<ActorReport, "children"> {
  readonly host: number | null;
  readonly children: number;
  /** Waits in which the actor waits or is waited for. */
  readonly waits: readonly Wait[];
  /** Its last received messages, newest first; empty for an actor without a mailbox. */
  readonly messages: readonly ReceivedMessage[];
}

/** The data inside a report file. */
export interface ReportData {
  readonly run: string;
  /** Name of the job. */
  readonly name: string;
  /** Time of the report, as ISO 8601. */
  readonly madeAt: string;
  /** Events of a run that a cluster remembers; otherwise empty. */
  readonly events: readonly TimedEvent[];
  /** The run's remains on disk, if no cluster remembers it. */
  readonly kept?: KeptRun | undefined;
  /** The job, option by option. */
  readonly options?: RunSummary["options"];
  /** Metrics of the model by the values of columns, if requested. */
  readonly slices?: readonly ColumnSlices[] | undefined;
  /** Names and values that describe software and hardware. */
  readonly environment: readonly (readonly [name: string, value: string])[];
}

/** A run according to its checkpoint directory. */
export interface KeptRun {
  readonly directory: string;
  readonly step: number;
  /** Digest of the newest checkpoint. */
  readonly digest: string;
  readonly arithmetic: string;
  readonly generation: number;
  readonly history: readonly HistoryPoint[];
  /** Time breakdown of all its steps; undefined: its log does not contain it. */
  readonly times?: StepTimes | undefined;
  /** The warnings and errors of its log. */
  readonly lines: readonly { readonly at: string; readonly level: string; readonly text: string }[];
}
