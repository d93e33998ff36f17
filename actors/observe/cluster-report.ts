// The report of a cluster, as inspection answers it whole (inspection.ts).

import type { StepTimes } from "../../src/training/meters/step-meter.ts";
import type { PlanReport } from "../../src/training/planning/run-plan.ts";
import type { MirrorReport } from "../mirror/run-mirror.ts";
import type { IncidentRecord } from "../run/state/incident-record.ts";
import type { RunStatus } from "../run/state/run-events.ts";
import type { WaitsFor } from "../runtime/wait-graph.ts";
import type { ProcessReport } from "./process-report.ts";

/** A run that is not over, as its last events have it. */
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
  /** How the tables of its last generation are placed, and what is predicted of it. */
  readonly plan?: PlanReport | undefined;
  readonly loss: number | null;
  /** 0 while it makes no steps. */
  readonly samplesPerSecond: number;
  /** Why it runs and makes no steps now; left out: it makes some, or does not run. */
  readonly standstill?: string | undefined;
  /** Where the time of its last steps went; left out while it makes none. */
  readonly times?: StepTimes | undefined;
  /** What it was warned of, last things last. */
  readonly alerts: readonly string[];
  /** Who waits for whom in it, and who does not answer. */
  readonly waitsFor: WaitsFor;
}

/** An incident of a run, and its end, unless it lasts. */
export interface IncidentReport extends IncidentRecord {
  readonly run: string;
}

export interface ClusterReport {
  readonly cluster: string;
  readonly runs: readonly RunReport[];
  readonly incidents: readonly IncidentReport[];
  /** The leader's report first, then the reports of the hosts that answered. */
  readonly processes: readonly ProcessReport[];
  /** Hosts that did not. */
  readonly silent: readonly number[];
  /** What became of the copies in JetStream; null: there are none. */
  readonly mirror: MirrorReport | null;
}
