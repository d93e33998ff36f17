// The final report of a run, and the loss curve in it.

import type {
  CutRecord,
  ExchangeTimes,
  RunResult,
  StepTimes,
  TableTiers,
  TierRates,
} from "../../internal.ts";
import { bytes, count, figure, metric, percent, plural } from "../support/format.ts";
import { figureLines, figuresLine } from "./figures.ts";
import { placedLines } from "./plan-report.ts";

/** The report of a finished run for people, as lines. */
export function reportOf(result: RunResult): string[] {
  return [
    "",
    ...(result.alreadyFinished ? [...finishedLines(result), ""] : []),
    ...lossCurve(result.history),
    "",
    ...(result.auc === undefined ? [] : [...figureLines(result), ...taskLines(result.tasks)]),
    ...(result.evaluations === undefined ? [] : evaluationLines(result.evaluations)),
    ...(result.test === undefined ? [] : testLines("Test", result.test)),
    ...(result.bestTest === undefined ? [] : testLines("Test of the best", result.bestTest)),
    // A run resubmitted after it finished reports no steps.
    ...(result.samplesPerSecond > 0
      ? [`Samples/s            ${count(result.samplesPerSecond)}`]
      : []),
    ...(result.times === undefined ? [] : [`Time of a step       ${timeOf(result.times)}`]),
    ...(result.times?.exchange === undefined
      ? []
      : [`Communication        ${exchangeOf(result.times.exchange)}`]),
    ...(result.times?.warm === undefined
      ? []
      : [`Step once compiled   ${warmTimeOf(result.times.warm)}`]),
    ...placedLines(result.plan).map((line) => `Tables               ${line}`),
    ...(result.times?.tiers === undefined
      ? []
      : [`Rows of a step       ${tiersOf(result.times.tiers, result.stores)}`]),
    ...(result.disk === undefined ? [] : [`Disk of the tiers    ${diskOf(result.disk)}`]),
    ...adviceLines(result.tiers ?? []),
    `Steps                ${count(result.step)}${result.status === "stopped-early" ? " (stopped early: the best)" : ""}`,
    ...(result.repairedIds.length > 0
      ? [`Repaired ids         ${repairedCounts(result.repairedIds)}`]
      : []),
    ...(result.staleness === undefined
      ? []
      : [`Rows read late       ${staleCounts(result.staleness)}`]),
    ...(result.asynchronous === undefined
      ? []
      : [`Asynchronous         ${lossesOf(result.asynchronous)}`]),
    ...(result.dynamicIds ?? []).map((table) => `Dynamic ids          ${idCounts(table)}`),
    `Digest               ${result.digest}`,
    `Checkpoint           ${result.directory}`,
    ...result.warnings.map(({ message }) => `Warning              ${message}`),
  ];
}

/** A line with the metrics of each of several tasks. */
export function taskLines(tasks: RunResult["tasks"]): string[] {
  const all = Object.entries(tasks ?? {});
  // Where a label may be missing, the tasks have different numbers of rows.
  const isAlike = new Set(all.map(([, { samples }]) => samples)).size <= 1;
  return all.map(([name, found]) => {
    const rows = isAlike ? "" : ` (${count(found.samples)} rows with the label)`;
    return `${`Task ${name}`.padEnd(20)} ${figuresLine(found, ", ", true)}${rows}`;
  });
}

/** Lines for a job whose run had already finished. */
function finishedLines({ directory, step }: RunResult): string[] {
  return [
    `Already finished, from ${directory} (step ${count(step)}): nothing was trained.`,
    "More `data.epochs` train on; another `checkpoint.directory` starts over.",
  ];
}

const metricNames = {
  auc: "AUC",
  gauc: "GAUC",
  logLoss: "log loss",
  normalizedEntropy: "normalized entropy",
  mse: "MSE",
  rmse: "RMSE",
  mae: "MAE",
  r2: "R²",
} as const;

/** Lines for the last and the best evaluation, and whether the best model is kept. */
function evaluationLines({ last, best }: NonNullable<RunResult["evaluations"]>): string[] {
  const { metric: name, task, step, evaluation, manifest } = best;
  const figureOf = ({ evaluation: of }: typeof last) => {
    const own = task === undefined ? of : (of.tasks?.[task] ?? of);
    const whose = task === undefined ? "" : ` of ${task}`;
    return `${metricNames[name]}${whose} ${metric(own[name])}`;
  };
  const kept =
    manifest === undefined
      ? `not kept: \`evaluation.keepBest: ${name}\` keeps it`
      : "kept: `--manifest best` of eval, predict and table takes it";
  return [
    `Last evaluation      step ${count(last.step)}: ${figureOf(last)}`,
    `Best evaluation      step ${count(step)}: ${figureOf({ step, evaluation })}` +
      (step === last.step ? "" : ` (${kept})`),
  ];
}

/** The metrics of a test for each of several tasks, and the step of the tested model. */
function testLines(name: string, { step, metrics }: NonNullable<RunResult["test"]>): string[] {
  const of = `(step ${count(step)}, ${count(metrics.samples)} samples)`;
  const tasks = Object.entries(metrics.tasks ?? {});
  if (tasks.length === 0) return [`${name.padEnd(20)} ${figuresLine(metrics)} ${of}`];
  return tasks.map(([task, found], i) => {
    const head = i === 0 ? name : "";
    return `${head.padEnd(20)} ${task}: ${figuresLine(found)}${i === 0 ? ` ${of}` : ""}`;
  });
}

const shareNames: Readonly<Record<keyof StepTimes["shares"], string>> = {
  computing: "computing",
  sendingIds: "sending ids",
  batch: "waiting for batches",
  ids: "for ids",
  partials: "for partial sums",
  pooled: "for vectors",
  rows: "for distinct rows",
  dPooled: "for gradients of vectors",
  dPartials: "for gradients of partial sums",
  dRows: "for gradients of rows",
  rowSums: "for row sums",
  gradients: "for dense gradients",
  losses: "for losses",
  tiers: "for rows of lower tiers",
  checkpoint: "taking checkpoints",
};

/** The duration of a step, and the parts that took at least 5 % of it, in the step's order. */
export function timeOf({ stepMs, shares, dedupeFactor }: StepTimes): string {
  const parts = (Object.keys(shareNames) as (keyof typeof shareNames)[])
    .filter((name) => shares[name] >= 0.05)
    .map((name) => `${Math.round(100 * shares[name])} % ${shareNames[name]}`);
  const lists =
    dedupeFactor === undefined ? "" : `; lists deduplicated ${dedupeFactor.toFixed(2)} times`;
  return `${figure(stepMs)} ms: ${parts.join(", ")}${lists}`;
}

/** Shares of a step: waits for the exchange (exposed), and exchange during work (hidden). */
export function exchangeOf({ exposed, inFlight, hidden, hiddenBy }: ExchangeTimes): string {
  const flying = inFlight > 0 ? ` (${percent(inFlight)} with bytes in flight)` : "";
  const most = Object.entries(hiddenBy)
    .filter(([, share]) => share >= 0.05)
    .map(([name, share]) => `${percent(share)} ${shareNames[name as keyof typeof shareNames]}`);
  const parts = most.length === 0 ? "" : ` (by channel ${most.join(", ")})`;
  return `exposed ${percent(exposed)} of a step${flying}, hidden ${percent(hidden)}${parts}`;
}

/** The duration of a step once its programs were compiled, which `osiris plan` predicts. */
function warmTimeOf({
  steps,
  stepMs,
}: {
  readonly steps: number;
  readonly stepMs: number;
}): string {
  return `${figure(stepMs)} ms, without checkpoints: the last ${count(Math.round(steps))} steps`;
}

/** The shares of a step's rows of cached tables by tier, and the stores of rows on SSD. */
export function tiersOf(
  { rows, hbm, ddr, ssd }: TierRates,
  stores: readonly string[] = [],
): string {
  const places = `${percent(hbm)} from HBM, ${percent(ddr)} from DDR, ${percent(ssd)} from SSD`;
  const store = stores.length === 0 ? "" : ` (${stores.join(", ")})`;
  return `${count(Math.round(rows))}: ${places}${store}`;
}

/** How long the disk of the tiers was full, and how long slow. */
function diskOf({ pausedSeconds, slowSeconds }: NonNullable<RunResult["disk"]>): string {
  return `full for ${pausedSeconds.toFixed(1)} s, slow for ${slowSeconds.toFixed(1)} s`;
}

/** Most cached tables in the report, which lists tables that gain most from more memory. */
const advisedMax = 12;

/** For each cached table, the shares of rows by tier now and with one more GiB on every device. */
export function adviceLines(tables: readonly TableTiers[]): string[] {
  if (tables.length === 0) return [];
  const gainOf = ({ accesses, now, moreHbm, moreDdr }: TableTiers) =>
    accesses * Math.max(moreHbm.hbm - now.hbm, now.ssd - moreDdr.ssd);
  const listed = [...tables].sort((a, b) => gainOf(b) - gainOf(a)).slice(0, advisedMax);
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => (i === 0 ? `  ${cell.padEnd(19)}` : cell.padStart(12))).join("");
  const lines = listed.map(({ table, now, moreHbm, moreDdr }) => {
    const hbm = [bytes(now.hbmBytes), percent(now.hbm), percent(moreHbm.hbm)];
    return line([table, ...hbm, bytes(now.ddrBytes), percent(now.ssd), percent(moreDdr.ssd)]);
  });
  const rest = tables.length - listed.length;
  return [
    "Cached tables: rows expected from HBM, and from SSD or initialised; now, and with 1 GiB more of it",
    line(["", "HBM", "from it", "+ 1 GiB", "DDR", "from SSD", "+ 1 GiB"]),
    ...lines,
    ...(rest > 0 ? [`  ${plural(rest, "more table")}, which would gain less`] : []),
  ];
}

/** Ids that were clamped or hashed, table by table. */
export function repairedCounts(tables: RunResult["repairedIds"]): string {
  return tables.map(({ table, ids }) => `${count(ids)} of \`${table}\``).join(", ");
}

/** Counts of a table's dynamic ids and of its rows in use. */
function idCounts(of: NonNullable<RunResult["dynamicIds"]>[number]): string {
  return (
    `\`${of.table}\`: ${count(of.admitted)} admitted, ${count(of.evicted)} evicted, ` +
    `${count(of.dropped)} lookups dropped; ${count(of.rowsUsed)} of ${count(of.rows)} rows in use`
  );
}

/** Rows read while an update of them was pending, by table, and the steps that read none. */
function staleCounts({ tables, freshSteps }: NonNullable<RunResult["staleness"]>): string {
  const late = tables.map(({ table, rows }) => `${count(rows)} of \`${table}\``).join(", ");
  return `${late}; ${count(freshSteps)} steps read only fresh rows`;
}

function lossesOf(done: NonNullable<RunResult["asynchronous"]>): string {
  const { samples, updates, restarts } = done;
  const { trainer, rows, center } = restarts;
  const killed = `restarts: ${trainer} of trainers, ${rows} of row servers, ${center} of the center`;
  return `${plural(samples, "sample")} trained, ${plural(updates, "update")} lost; ${killed}`;
}

const curveLinesMax = 12;
const curveWidth = 32;

/**
 * The training loss as bars from 0 to the largest one, which the head names, with the AUC, or RMSE,
 * where the run evaluated.
 */
export function lossCurve(history: readonly CutRecord[]): string[] {
  const points = thinned(history.filter((point) => point.step > 0));
  if (points.length === 0) return [];
  const most = Math.max(...points.map((point) => point.trainLoss));
  const hasFigure = points.some((point) => point.evaluation !== undefined);
  const isNumber = points.some((point) => point.evaluation?.rmse !== undefined);
  const figureName = isNumber ? "    RMSE" : "     AUC";
  const end = metric(most);
  const scale = `0${end.padStart(curveWidth - 1)}`;
  const head = `${"step".padStart(9)}    loss${hasFigure ? figureName : ""}  ${scale}`;
  const lines = points.map(({ step, trainLoss, evaluation }) => {
    const bar = "█".repeat(Math.round(curveWidth * Math.max(0, most > 0 ? trainLoss / most : 0)));
    const found = evaluation === undefined ? "" : metric(evaluation.rmse ?? evaluation.auc);
    const cell = hasFigure ? `  ${found.padStart(6)}` : "";
    return `${count(step).padStart(9)}  ${metric(trainLoss)}${cell}  ${bar}`;
  });
  return [head, ...lines];
}

/** At most `curveLinesMax` points, the last one included; of more points, only evaluated ones. */
function thinned(points: readonly CutRecord[]): readonly CutRecord[] {
  if (points.length <= curveLinesMax) return points;
  const evaluated = points.filter((point) => point.evaluation !== undefined);
  const chosen = evaluated.length > 1 ? evaluated : points;
  if (chosen.length <= curveLinesMax) return chosen;
  return Array.from({ length: curveLinesMax }, (_, line) => {
    const at = Math.round(((line + 1) * chosen.length) / curveLinesMax) - 1;
    return chosen[at];
  }).filter((point) => point !== undefined);
}
