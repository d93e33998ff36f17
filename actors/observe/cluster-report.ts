// The complete report of a cluster (inspection.ts).

import type { StepTimes } from "../../src/training/meters/step-meter.ts";
import type { PlanReport } from "../../src/training/planning/plan-report.ts";
import type { MirrorReport } from "../jobs/mirror/run-mirror.ts";
import type { IncidentRecord } from "../run/state/incident-record.ts";
import type { RunEvent, RunStatus } from "../run/state/run-events.ts";
import type { WaitsFor } from "../runtime/wait-graph.ts";
import type { ProcessReport } from "./process-report.ts";

/** A run that is not over, according to its last events. */
export interface RunReport {
  readonly run: string;
  readonly name: string;
  readonly tenant?: string | undefined;
  readonly status: RunStatus;
  readonly generation: number;
  readonly step: number;
  /** 0: its data is not prepared yet. */
  readonly steps: number;
  readonly devices: number;
  /** Placement of the tables in the last generation, and the predictions for it. */
  readonly plan?: PlanReport | undefined;
  readonly loss: number | null;
  /** 0 while it makes no steps. */
  readonly samplesPerSecond: number;
  /** Why a running run makes no steps now; left out: it makes steps, or is not running. */
  readonly standstill?: string | undefined;
  /** Time breakdown of the last steps; left out while it makes none. */
  readonly times?: StepTimes | undefined;
  /** As of `run.progress`. */
  readonly secondsLeft?: number | undefined;
  readonly pushLag?: Extract<RunEvent, { type: "run.progress" }>["pushLag"];
  /** Warnings, newest last. */
  readonly alerts: readonly string[];
  /** Which actors wait for which, and which do not respond. */
  readonly waitsFor: WaitsFor;
}

/** An incident of a run, with its end unless it lasts. */
export interface IncidentReport extends IncidentRecord {
  readonly run: string;
}

export interface ClusterReport {
  readonly cluster: string;
  readonly runs: readonly RunReport[];
  readonly incidents: readonly IncidentReport[];
  /** The leader's report first, then the reports of the hosts that answered. */
  readonly processes: readonly ProcessReport[];
  /** Hosts that did not answer. */
  readonly unresponsive: readonly number[];
  /** Counters of the copies in JetStream; null: there are none. */
  readonly mirror: MirrorReport | null;
}
