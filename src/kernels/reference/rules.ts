// The update rules, one row at a time; a dense tensor is treated as one long row.
//
// All parameters of a rule are rounded before use, and every operation rounds once.

import {
  type AdagradRule,
  type AdamRule,
  type FtrlRule,
  type MomentumRule,
  quantumColumns,
  type RowRule,
  type SgdRule,
} from "../contract/kernels.ts";
import type { Values } from "./memory.ts";
import type { Round } from "./round.ts";

/** The memory of a row: arrays and offsets of weights, state and gradient, and its columns. */
export interface RowAt {
  readonly weights: Values;
  readonly weightsAt: number;
  readonly state: Values;
  readonly stateAt: number;
  /** Second moments, one per column or one per row, or FTRL's n; unused by other rules. */
  readonly second: Values;
  readonly secondAt: number;
  readonly gradient: Values;
  readonly gradientAt: number;
  readonly columns: number;
}

/**
 * A row's gradient, clipped by the rule. A NaN or an infinity becomes NaN, so that the check for
 * finite rows still detects it.
 */
export function clipped(round: Round, gradient: Values, { clip }: RowRule): Values {
  if (clip === undefined) return gradient;
  const most = round(clip);
  return gradient.map((g) => Math.min(most, Math.max(-most, g)) + (g - g));
}

/** The gradient of column c, with l2 included. */
function gradientAt(round: Round, row: RowAt, l2: number, c: number): number {
  const g = row.gradient[row.gradientAt + c]!;
  return l2 > 0 ? round.fused(g, round(l2), row.weights[row.weightsAt + c]!) : g;
}

/** A vector over the columns of a row, as a function of the column. */
type Columns = (column: number) => number;

/** The sum of squares over the 32 columns from `quantum * 32` on, as a tree. */
function squaresOf(round: Round, values: Columns, columns: number, quantum: number): number {
  const lanes = new Float64Array(quantumColumns);
  const first = quantum * quantumColumns;
  for (let lane = 0; lane < quantumColumns && first + lane < columns; lane++) {
    const value = values(first + lane);
    lanes[lane] = round(value * value);
  }
  for (let half = quantumColumns / 2; half >= 1; half /= 2) {
    for (let lane = 0; lane < half; lane++) lanes[lane] = round(lanes[lane]! + lanes[lane + half]!);
  }
  return lanes[0]!;
}

/** The sum of squares of the row's gradient over the columns of one quantum, as a tree. */
export function quantumSquares(round: Round, row: RowAt, l2: number, quantum: number): number {
  return squaresOf(round, (c) => gradientAt(round, row, l2, c), row.columns, quantum);
}

function meanOfSquares(round: Round, row: RowAt, l2: number): number {
  let sum = 0;
  for (let quantum = 0; quantum * quantumColumns < row.columns; quantum++) {
    sum = round(sum + quantumSquares(round, row, l2, quantum));
  }
  return round(sum / row.columns);
}

/** The length of a vector: its quanta's sums of squares, added in order in float64. */
function norm(round: Round, values: Columns, columns: number): number {
  let sum = 0;
  for (let quantum = 0; quantum * quantumColumns < columns; quantum++) {
    sum += squaresOf(round, values, columns, quantum);
  }
  return round(Math.sqrt(sum));
}

/** Whole-row values from the exchange, for a row of which this device has only some columns. */
export interface Known {
  /** Mean of squares. */
  readonly mean?: number | undefined;
  readonly trust?: number | undefined;
}

/** Updates the weights and the state of one row. */
export function applyRule(round: Round, row: RowAt, rule: RowRule, known: Known = {}): void {
  switch (rule.kind) {
    case "sgd":
      applySgd(round, row, rule);
      break;
    case "momentum":
      applyMomentum(round, row, rule);
      break;
    case "adagrad":
      applyAdagrad(round, row, rule);
      break;
    case "rowWiseAdagrad":
      applyRowWiseAdagrad(round, row, rule, known.mean);
      break;
    case "adam":
    case "partialRowWiseAdam":
      applyAdam(round, row, rule, known.mean);
      break;
    case "lamb":
    case "partialRowWiseLamb":
      applyLamb(round, row, rule, known);
      break;
    case "ftrl":
      applyFtrl(round, row, rule);
      break;
    default:
      rule satisfies never;
  }
}

/** Applies a change to each column: w = (1 - rate*decay)*w - factor*change. */
function take(
  round: Round,
  row: RowAt,
  rule: { learningRate: number; decay: number },
  factor: number,
  change: Columns,
): void {
  const { weights, weightsAt } = row;
  const kept = round(1 - rule.learningRate * rule.decay);
  for (let c = 0; c < row.columns; c++) {
    const step = change(c);
    weights[weightsAt + c] = round.fused(round(kept * weights[weightsAt + c]!), -factor, step);
  }
}

function applySgd(round: Round, row: RowAt, rule: SgdRule): void {
  take(round, row, rule, round(rule.learningRate), (c) => gradientAt(round, row, rule.l2, c));
}

function applyMomentum(round: Round, row: RowAt, rule: MomentumRule): void {
  const { state, stateAt } = row;
  const momentum = round(rule.momentum);
  take(round, row, rule, round(rule.learningRate), (c) => {
    const g = gradientAt(round, row, rule.l2, c);
    state[stateAt + c] = round.fused(g, momentum, state[stateAt + c]!);
    return state[stateAt + c]!;
  });
}

function applyAdagrad(round: Round, row: RowAt, rule: AdagradRule): void {
  const { state, stateAt } = row;
  const [rate, epsilon] = [round(rule.learningRate), round(rule.epsilon)];
  take(round, row, rule, 1, (c) => {
    const g = gradientAt(round, row, rule.l2, c);
    const acc = round.fused(state[stateAt + c]!, g, g);
    state[stateAt + c] = acc;
    return round(round(rate * g) / round(round(Math.sqrt(acc)) + epsilon));
  });
}

function applyRowWiseAdagrad(
  round: Round,
  row: RowAt,
  rule: AdagradRule,
  mean = meanOfSquares(round, row, rule.l2),
): void {
  const { state, stateAt } = row;
  const acc = round(state[stateAt]! + mean);
  state[stateAt] = acc;
  const root = round(round(Math.sqrt(acc)) + round(rule.epsilon));
  const rate = round(round(rule.learningRate) / root);
  take(round, row, rule, rate, (c) => gradientAt(round, row, rule.l2, c));
}

/** Updates both moments. Returns factor * m / (sqrt(v / correction2) + epsilon) for each column. */
function adamDirection(
  round: Round,
  row: RowAt,
  rule: AdamRule,
  factor: number,
  mean: number | undefined,
): Columns {
  const { state, stateAt, second, secondAt } = row;
  const root2 = round(Math.sqrt(rule.correction2));
  const [beta1, beta2, epsilon] = [round(rule.beta1), round(rule.beta2), round(rule.epsilon)];
  const [rest1, rest2] = [round(1 - rule.beta1), round(1 - rule.beta2)];
  const isPartial = rule.kind === "partialRowWiseAdam" || rule.kind === "partialRowWiseLamb";
  const rootOf = (v: number) => round(round(round(Math.sqrt(v)) / root2) + epsilon);
  if (isPartial) {
    const square = mean ?? meanOfSquares(round, row, rule.l2);
    second[secondAt] = round.fused(round(beta2 * second[secondAt]!), rest2, square);
  }
  return (c) => {
    const g = gradientAt(round, row, rule.l2, c);
    const m = round.fused(round(beta1 * state[stateAt + c]!), rest1, g);
    state[stateAt + c] = m;
    const at = isPartial ? secondAt : secondAt + c;
    if (!isPartial) second[at] = round.fused(round(beta2 * second[at]!), round(rest2 * g), g);
    return round(round(factor * m) / rootOf(second[at]!));
  };
}

function applyAdam(round: Round, row: RowAt, rule: AdamRule, mean: number | undefined): void {
  const rate = round(rule.learningRate / rule.correction1);
  take(round, row, rule, 1, adamDirection(round, row, rule, rate, mean));
}

/** The update of weights: Adam's direction + decay * w. Updates the moments. */
function lambDirection(round: Round, row: RowAt, rule: AdamRule, mean?: number): Float64Array {
  const { weights, weightsAt, columns } = row;
  const direction = adamDirection(round, row, rule, round(1 / rule.correction1), mean);
  const decay = round(rule.decay);
  return Float64Array.from({ length: columns }, (_, c) =>
    round.fused(direction(c), decay, weights[weightsAt + c]!),
  );
}

/** For each quantum, the sums of squares of the weights and of their update. */
export function quantumNorms(round: Round, row: RowAt, rule: AdamRule, mean?: number): number[] {
  const { weights, weightsAt, columns } = row;
  const u = lambDirection(round, row, rule, mean);
  const quanta = Array.from({ length: Math.ceil(columns / quantumColumns) }, (_, q) => q);
  return quanta.flatMap((quantum) => [
    squaresOf(round, (c) => weights[weightsAt + c]!, columns, quantum),
    squaresOf(round, (c) => u[c]!, columns, quantum),
  ]);
}

function applyLamb(round: Round, row: RowAt, rule: AdamRule, known: Known): void {
  const { weights, weightsAt, columns } = row;
  const u = lambDirection(round, row, rule, known.mean);
  const trust = known.trust ?? trustOf(round, row, u);
  const rate = round(round(rule.learningRate) * trust);
  for (let c = 0; c < columns; c++) {
    weights[weightsAt + c] = round.fused(weights[weightsAt + c]!, -rate, u[c]!);
  }
}

function trustOf(round: Round, { weights, weightsAt, columns }: RowAt, u: Float64Array): number {
  const length = norm(round, (c) => weights[weightsAt + c]!, columns);
  const uLength = norm(round, (c) => u[c]!, columns);
  // If one of them is 0 (zero weights, zero gradients), the ratio is undefined: use 1.
  return length > 0 && uLength > 0 ? round(length / uLength) : 1;
}

function applyFtrl(round: Round, row: RowAt, rule: FtrlRule): void {
  const { weights, weightsAt, state, stateAt, second, secondAt } = row;
  const [rate, beta] = [round(rule.learningRate), round(rule.beta)];
  const [lambda1, lambda2] = [round(rule.lambda1), round(rule.lambda2)];
  for (let c = 0; c < row.columns; c++) {
    const g = gradientAt(round, row, rule.l2, c);
    const before = round(Math.sqrt(second[secondAt + c]!));
    const n = round.fused(second[secondAt + c]!, g, g);
    const after = round(Math.sqrt(n));
    const slope = round(round(after - before) / rate);
    const z = round.fused(round(state[stateAt + c]! + g), -slope, weights[weightsAt + c]!);
    second[secondAt + c] = n;
    state[stateAt + c] = z;
    const below = positive(round(round(0 - z) - lambda1));
    const above = positive(round(z - lambda1));
    const scale = round(round(round(beta + after) / rate) + lambda2);
    weights[weightsAt + c] = round(round(below - above) / scale);
  }
}

/** 0 for negative numbers; NaN stays NaN. */
function positive(value: number): number {
  return Math.max(value, 0);
}
