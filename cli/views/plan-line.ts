// How a run's tables are placed, in a line or two.

import type { PlanReport } from "../../internal.ts";
import { bytes, shortTime } from "../support/format.ts";

/** Placement, prediction and note of a plan; "" for tables "as-written" without a note. */
export function planLine(plan: PlanReport | undefined): string {
  if (plan === undefined) return "";
  const { by, note } = plan;
  const noted = note === undefined ? [] : [`  ! ${note}`];
  return [...(by === "as-written" ? [] : [`  tables by ${placesOf(plan)}`]), ...noted].join("\n");
}

/** The same for the report of a run, with the statistics and constants of the plan. */
export function placedLines(plan: PlanReport | undefined): string[] {
  if (plan === undefined) return [];
  const { by, note, constants = "", statistics = false } = plan;
  const ids = statistics ? "ids as counted in the data" : "ids as assumed, not counted";
  const made = by === "as-written" ? [] : [`by ${placesOf(plan)}; from: ${ids}, ${constants}`];
  return [...made, ...(note === undefined ? [] : [note])];
}

function placesOf({ by, schemes = {}, stepSeconds, imbalance = 1, memoryBytes = [] }: PlanReport) {
  const most = memoryBytes.reduce((all, own) => Math.max(all, own), 0);
  const cut = Object.entries(schemes).map(([scheme, tables]) => `${tables} ${scheme}`);
  const step = stepSeconds === undefined ? "" : `a step ${shortTime(stepSeconds)}, `;
  return (
    `${by === "plan" ? "the job's plan" : "a plan for these devices"}: ` +
    `${cut.join(", ") || "none"}; predicted: ${step}the busiest device ` +
    `${imbalance.toFixed(2)} x the mean, ${bytes(most)} a device at most`
  );
}
