// Figures of trials: detection time, recovery time and lost work.

import type { FaultKind } from "../faults/schedule.ts";
import type { Trial } from "./trial.ts";
import type { Recovery } from "./verdict.ts";

/** Distribution of a duration, in seconds. */
export interface Spread {
  readonly count: number;
  readonly median: number;
  readonly most: number;
}

/** Cost of losing one kind of actor. */
export interface LossFigures {
  /** `device`, `reader`, `host`, `training`, `leader` … */
  readonly lost: string;
  /** From the injection to the incident; undefined where the injection is unknown. */
  readonly detected: Spread | undefined;
  /** From the incident to the first step after the restore. */
  readonly recovered: Spread | undefined;
}

/** Figures over several trials. */
export interface ChaosFigures {
  readonly trials: number;
  readonly equal: number;
  /** Faults injected, by kind. */
  readonly injections: Readonly<Partial<Record<FaultKind, number>>>;
  readonly planned: number;
  readonly losses: readonly LossFigures[];
  /** Repeated steps, which were not yet in a checkpoint. */
  readonly redoneSteps: number;
  readonly committedStepsLost: number;
  /** Sample counts over all epochs of all finished trials. */
  readonly samplesTwice: number;
  readonly samplesNever: number;
  /** Share of the faulted runs' training time that their reference runs needed. */
  readonly goodput: number;
}

export function figuresOf(trials: readonly Trial[]): ChaosFigures {
  const injections: Partial<Record<FaultKind, number>> = {};
  for (const { schedule, faults } of trials) {
    for (const [i, { injected }] of faults.entries()) {
      const what = schedule.faults[i]?.what;
      if (injected && what !== undefined) injections[what] = (injections[what] ?? 0) + 1;
    }
  }
  const epochs = trials.flatMap(({ ledger }) => ledger);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const training = sum(trials.map(({ trainingSeconds }) => trainingSeconds));
  const useful = sum(trials.map(({ trainingSeconds, goodput }) => trainingSeconds * goodput));
  return {
    trials: trials.length,
    equal: trials.filter(({ verdict }) => verdict === "equal").length,
    injections,
    planned: sum(trials.map(({ faults }) => faults.length)),
    losses: lossesOf(trials.flatMap(({ recoveries }) => recoveries)),
    redoneSteps: sum(trials.flatMap(({ recoveries }) => recoveries.map((one) => one.redoneSteps))),
    committedStepsLost: sum(trials.map((trial) => trial.committedStepsLost)),
    samplesTwice: sum(epochs.map(({ twice }) => twice)),
    samplesNever: sum(epochs.map(({ never }) => never)),
    goodput: training === 0 ? 1 : useful / training,
  };
}

function lossesOf(recoveries: readonly Recovery[]): LossFigures[] {
  const kinds = new Map<string, Recovery[]>();
  for (const one of recoveries) {
    const lost = one.offender.split(":")[0] ?? "";
    kinds.set(lost, [...(kinds.get(lost) ?? []), one]);
  }
  return [...kinds].sort().map(([lost, all]) => ({
    lost,
    detected: spreadOf(all.map(({ detectedSeconds }) => detectedSeconds)),
    recovered: spreadOf(all.map(({ recoverySeconds }) => recoverySeconds)),
  }));
}

function spreadOf(values: readonly (number | undefined)[]): Spread | undefined {
  const sorted = values.filter((one): one is number => one !== undefined).sort((a, b) => a - b);
  const [median, most] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted.at(-1)];
  if (median === undefined || most === undefined) return undefined;
  return { count: sorted.length, median, most };
}
