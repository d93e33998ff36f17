// Output of a chaos run: the schedule before anything happens, then the injected faults, then the
// verdict.

import { sentenceOf } from "../../chaos/faults/schedule.ts";
import type { ChaosFigures, LossFigures, Schedule, Spread, Trial } from "../../internal.ts";
import { count, duration, plural } from "../support/format.ts";

/** The schedule for people, then as JSON, which `--schedule` carries out again. */
export function scheduleLines(schedule: Schedule): string[] {
  const { seed, environment, faults } = schedule;
  const from = seed === null ? "Schedule" : `Seed ${seed}`;
  const hosts = environment.hosts === 0 ? "" : ` on each of ${plural(environment.hosts, "host")}`;
  return [
    "",
    `${from}: ${plural(faults.length, "fault")}; ${plural(environment.devices, "device")}${hosts}`,
    ...faults.map((fault, i) => `  ${i}  ${sentenceOf(fault)}`),
    `  ${JSON.stringify(schedule)}`,
  ];
}

/** The injected faults, the recoveries and the verdict of a trial. */
export function trialLines(trial: Trial): string[] {
  const { faults, recoveries, schedule } = trial;
  const injected = faults.map(({ injected, step, generation, hits, whyNot }, i) => {
    if (!injected) return `  ${i}  did not happen: ${whyNot}`;
    const times = hits === undefined ? "" : `; hits: ${hits}`;
    return `  ${i}  injected at step ${step} of generation ${generation}${times}`;
  });
  const lost = recoveries.map(({ offender, code, recoverySeconds, redoneSteps }) => {
    const again =
      recoverySeconds === undefined ? "" : `, going on after ${duration(recoverySeconds)}`;
    const steps = redoneSteps === 0 ? "" : `, ${plural(redoneSteps, "step")} done again`;
    return `  ! ${offender}: ${code}${again}${steps}`;
  });
  const times = `${duration(trial.trainingSeconds)}, goodput ${(100 * trial.goodput).toFixed(0)} %`;
  const submissions =
    trial.submissions > 1 ? `, submitted ${plural(trial.submissions, "time")}` : "";
  return [
    ...(schedule.faults.length === 0 ? [] : ["What was injected"]),
    ...injected,
    ...lost,
    `${plural(trial.generations, "generation")}${submissions}, ${times}`,
    verdictLine(trial),
  ];
}

/** The verdict in one line, with the differences where the runs differ. */
export function verdictLine({ verdict, differences, digest, ledger }: Trial): string {
  if (verdict !== "equal") return `${verdict.toUpperCase()}: ${differences.join("; ")}`;
  const samples = ledger.reduce((sum, { once }) => sum + once, 0);
  return `Equal: ${digest}, and ${count(samples)} samples trained once`;
}

/** The smallest schedule that fails, with the commands that carry it out again. */
export function shrunkLines(schedule: Schedule, job: string): string[] {
  const file = `chaos-${schedule.seed ?? "least"}.json`;
  return [
    `Smallest failing part: ${plural(schedule.faults.length, "fault")}`,
    ...schedule.faults.map((fault) => `  ${sentenceOf(fault)}`),
    "Run it again:",
    `  echo '${JSON.stringify(schedule)}' > ${file}`,
    `  osiris chaos ${job} --schedule ${file}`,
  ];
}

/** A trial for machines: one object. */
export function trialRecord(trial: Trial) {
  const { schedule, faults, verdict, differences, digest, referenceDigest, ledger, recoveries } =
    trial;
  return {
    report: "trial",
    seed: schedule.seed,
    ...{ verdict, differences, digest, referenceDigest, schedule, faults, ledger, recoveries },
    generations: trial.generations,
    goodput: trial.goodput,
    seconds: trial.seconds,
  };
}

/** Bounds in seconds: detection of a dead thread or process, and the first step after a restore. */
const bounds = { detected: 1, recovered: 5 } as const;

/** The table of figures of all trials. */
export function figureLines(figures: ChaosFigures): string[] {
  const { trials, equal, injections, planned, losses } = figures;
  const injected = Object.values(injections).reduce((sum, value) => sum + value, 0);
  const kinds = Object.entries(injections).map(([kind, times]) => `${kind} ${times}`);
  const rows: [string, string][] = [
    ["runs equal to their reference run", `${equal} of ${trials}`],
    ["faults injected", `${injected} of ${planned}`],
    ["committed steps lost", count(figures.committedStepsLost)],
    ["steps done again (in no checkpoint)", count(figures.redoneSteps)],
    ["samples trained twice", count(figures.samplesTwice)],
    ["samples trained never", count(figures.samplesNever)],
    ["goodput", `${(100 * figures.goodput).toFixed(1)} %`],
  ];
  return [
    "",
    `${"what".padEnd(38)}figure`,
    ...rows.map(([what, figure]) => `${what.padEnd(38)}${figure}`),
    ...(kinds.length === 0 ? [] : [`injected: ${kinds.join(", ")}`]),
    "",
    `${"lost".padEnd(14)}${"noticed (median, most)".padEnd(26)}first step again (median, most)`,
    ...losses.map(lossLine),
  ];
}

function lossLine({ lost, detected, recovered }: LossFigures): string {
  const noticed = spread(detected, bounds.detected).padEnd(26);
  return `${lost.padEnd(14)}${noticed}${spread(recovered, bounds.recovered)}`;
}

function spread(of: Spread | undefined, bound: number): string {
  if (of === undefined) return "-";
  const over = of.most > bound ? ` > ${bound} s` : "";
  return `${duration(of.median)}, ${duration(of.most)} of ${of.count}${over}`;
}
