// How a run's tables are placed, in a line or two.

import type { PlanReport } from "../../index.ts";
import { bytes, shortTime } from "../support/format.ts";

/** How the tables are placed, and what is predicted; "" where each lies as it is written. */
export function planLine(plan: PlanReport | undefined): string {
  if (plan === undefined) return "";
  const { by, note, schemes = {}, stepSeconds = 0, imbalance = 1, memoryBytes = [] } = plan;
  if (by === "as-written") return note === undefined ? "" : `  ! ${note}`;
  const most = memoryBytes.reduce((all, own) => Math.max(all, own), 0);
  const cut = Object.entries(schemes).map(([scheme, tables]) => `${tables} ${scheme}`);
  const what =
    `  tables by ${by === "plan" ? "the job's plan" : "a plan for these devices"}: ` +
    `${cut.join(", ") || "none"}; predicted: a step ${shortTime(stepSeconds)}, the busiest device ` +
    `${imbalance.toFixed(2)} x the mean, ${bytes(most)} a device at most`;
  return note === undefined ? what : `${what}\n  ! ${note}`;
}
