// The report of `osiris demo`.

import type { RunResult, StepTimes } from "../../internal.ts";
import { count, duration, metric, shortTime } from "../support/format.ts";
import { lossCurve } from "./report.ts";

/** Both runs, and the kill in the second. */
export interface DemoReport {
  /** The undisturbed run. */
  readonly calm: RunResult;
  /** The run with the kill. */
  readonly broken: RunResult;
  /** Milliseconds of a step of the first run, checkpoints left out, one interval after another. */
  readonly stepsMs: readonly number[];
  readonly killed: string;
  /** The step after which the actor was killed; undefined where the run ended before. */
  readonly killedAtStep: number | undefined;
  readonly recoverySeconds: number | undefined;
  /** Best reachable AUC, where the data was generated. */
  readonly bestAuc: number | undefined;
  /** Duration of the whole demonstration. */
  readonly seconds: number;
}

/** Milliseconds of a step, less the share of checkpoints. */
export function stepMsOf(times: StepTimes | undefined): number[] {
  return times === undefined ? [] : [times.stepMs * (1 - times.shares.checkpoint)];
}

/** Whether both models have the same bits. */
export function isEqual({ calm, broken }: DemoReport): boolean {
  return calm.digest === broken.digest;
}

/** The report for machines: one object. */
export function demoRecord(report: DemoReport) {
  const { calm, broken, killed, killedAtStep, recoverySeconds, bestAuc, seconds } = report;
  return {
    report: "demo",
    auc: broken.auc ?? null,
    bestAuc: bestAuc ?? null,
    normalizedEntropy: broken.normalizedEntropy ?? null,
    // Of the undisturbed run: the killed run's speed counts only the steps after its restore.
    samplesPerSecond: calm.samplesPerSecond,
    step: {
      predictedMs: calm.plan?.stepSeconds === undefined ? null : 1000 * calm.plan.stepSeconds,
      measuredMs: medianOf(report.stepsMs) ?? null,
    },
    killed,
    killedAtStep: killedAtStep ?? null,
    recoverySeconds: recoverySeconds ?? null,
    digest: broken.digest,
    undisturbedDigest: calm.digest,
    equal: isEqual(report),
    arithmetic: broken.arithmetic,
    seconds,
  };
}

/** The report for people, as lines. */
export function demoLines(report: DemoReport): string[] {
  const { calm, broken, killed, killedAtStep, recoverySeconds, bestAuc, seconds } = report;
  const best = bestAuc === undefined ? "" : `   (best reachable: ${metric(bestAuc)})`;
  const recovery =
    recoverySeconds === undefined
      ? "no restore was needed: another thread took over"
      : `recovered in ${duration(recoverySeconds)}, and trained to the end`;
  const what =
    killedAtStep === undefined
      ? `nothing: ${killed} had finished its work by half of the steps; more data keep it busy`
      : `${killed}, after step ${count(killedAtStep)} of ${count(broken.step)}; ${recovery}`;
  return [
    "",
    "Loss of the run that was disturbed",
    ...lossCurve(broken.history),
    "",
    `AUC                  ${metric(broken.auc)}${best}`,
    `Normalized entropy   ${metric(broken.normalizedEntropy)}`,
    `Samples/s            ${count(calm.samplesPerSecond)}   (${calm.arithmetic})`,
    ...stepLines(report),
    `Killed               ${what}`,
    "",
    `Model, undisturbed   ${calm.digest}`,
    `Model, killed        ${broken.digest}`,
    "",
    verdict(report),
    `Took ${duration(seconds)}.`,
  ];
}

function stepLines({ calm, stepsMs }: DemoReport): string[] {
  const median = medianOf(stepsMs);
  if (median === undefined) return [];
  const { stepSeconds } = calm.plan ?? {};
  const predicted = stepSeconds === undefined ? "" : `predicted ${shortTime(stepSeconds)}, `;
  return [`Step                 ${predicted}measured ${shortTime(median / 1000)} (the median)`];
}

/** The median; undefined without values. */
function medianOf(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

function verdict(report: DemoReport): string {
  if (!isEqual(report)) {
    return "NOT EQUAL: the models differ. This is a bug in Osiris; please report it.";
  }
  const how = report.killedAtStep === undefined ? ", but NOTHING WAS KILLED" : "";
  return `Equal: the same model, bit for bit${how}.`;
}
