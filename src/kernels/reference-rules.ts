// How weights take their gradient, one row at a time; a dense tensor is one long row.
//
// All numbers of a rule are rounded before they are used, and every operation rounds once, except
// that round(a + b * c) is a fused multiply-add.

import { quantumColumns, type RowRule } from "./kernels.ts";
import type { Values } from "./memory.ts";
import type { Round } from "./reference-dense.ts";

/** Where a row's weights, state and gradient begin, and its columns. */
export interface RowAt {
  readonly weights: Values;
  readonly weightsAt: number;
  readonly state: Values;
  readonly stateAt: number;
  /** Adam's second moments; elsewhere not read. */
  readonly second: Values;
  readonly secondAt: number;
  readonly gradient: Values;
  readonly gradientAt: number;
  readonly columns: number;
}

/** The gradient of column c, with l2 included. */
function gradientAt(round: Round, row: RowAt, l2: number, c: number): number {
  const g = row.gradient[row.gradientAt + c]!;
  return l2 > 0 ? round(g + round(l2) * row.weights[row.weightsAt + c]!) : g;
}

/** The sum of squares of the row's gradient over columns `quantum * 32` and on, as a tree. */
export function quantumSquares(round: Round, row: RowAt, l2: number, quantum: number): number {
  const lanes = new Float64Array(quantumColumns);
  const first = quantum * quantumColumns;
  for (let lane = 0; lane < quantumColumns && first + lane < row.columns; lane++) {
    const g = gradientAt(round, row, l2, first + lane);
    lanes[lane] = round(g * g);
  }
  for (let half = quantumColumns / 2; half >= 1; half /= 2) {
    for (let lane = 0; lane < half; lane++) lanes[lane] = round(lanes[lane]! + lanes[lane + half]!);
  }
  return lanes[0]!;
}

function meanOfSquares(round: Round, row: RowAt, l2: number): number {
  let sum = 0;
  for (let quantum = 0; quantum * quantumColumns < row.columns; quantum++) {
    sum = round(sum + quantumSquares(round, row, l2, quantum));
  }
  return round(sum / row.columns);
}

/** Updates one row. `mean` is its mean of squares where other devices hold part of its columns. */
export function applyRule(round: Round, row: RowAt, rule: RowRule, mean?: number): void {
  switch (rule.kind) {
    case "sgd":
      applySgd(round, row, rule);
      break;
    case "adagrad":
      applyAdagrad(round, row, rule);
      break;
    case "rowWiseAdagrad":
      applyRowWiseAdagrad(round, row, rule, mean ?? meanOfSquares(round, row, rule.l2));
      break;
    case "adam":
      applyAdam(round, row, rule);
      break;
    default:
      rule satisfies never;
  }
}

type RuleOf<Kind extends RowRule["kind"]> = Extract<RowRule, { kind: Kind }>;

function applySgd(round: Round, row: RowAt, rule: RuleOf<"sgd">): void {
  const { weights, weightsAt } = row;
  const rate = round(rule.learningRate);
  for (let c = 0; c < row.columns; c++) {
    const g = gradientAt(round, row, rule.l2, c);
    weights[weightsAt + c] = round(weights[weightsAt + c]! - rate * g);
  }
}

function applyAdagrad(round: Round, row: RowAt, rule: RuleOf<"adagrad">): void {
  const { weights, weightsAt, state, stateAt } = row;
  const [rate, epsilon] = [round(rule.learningRate), round(rule.epsilon)];
  for (let c = 0; c < row.columns; c++) {
    const g = gradientAt(round, row, rule.l2, c);
    const acc = round(state[stateAt + c]! + g * g);
    state[stateAt + c] = acc;
    const change = round(round(rate * g) / round(round(Math.sqrt(acc)) + epsilon));
    weights[weightsAt + c] = round(weights[weightsAt + c]! - change);
  }
}

function applyRowWiseAdagrad(
  round: Round,
  row: RowAt,
  rule: RuleOf<"rowWiseAdagrad">,
  mean: number,
): void {
  const { weights, weightsAt, state, stateAt } = row;
  const acc = round(state[stateAt]! + mean);
  state[stateAt] = acc;
  const root = round(round(Math.sqrt(acc)) + round(rule.epsilon));
  const rate = round(round(rule.learningRate) / root);
  for (let c = 0; c < row.columns; c++) {
    const g = gradientAt(round, row, rule.l2, c);
    weights[weightsAt + c] = round(weights[weightsAt + c]! - rate * g);
  }
}

function applyAdam(round: Round, row: RowAt, rule: RuleOf<"adam">): void {
  const { weights, weightsAt, state, stateAt, second, secondAt } = row;
  const rate = round(rule.learningRate / rule.correction1);
  const root2 = round(Math.sqrt(rule.correction2));
  const [beta1, beta2, epsilon] = [round(rule.beta1), round(rule.beta2), round(rule.epsilon)];
  const [rest1, rest2] = [round(1 - rule.beta1), round(1 - rule.beta2)];
  for (let c = 0; c < row.columns; c++) {
    const g = gradientAt(round, row, rule.l2, c);
    const m = round(round(beta1 * state[stateAt + c]!) + rest1 * g);
    const v = round(round(beta2 * second[secondAt + c]!) + round(rest2 * g) * g);
    state[stateAt + c] = m;
    second[secondAt + c] = v;
    const change = round(round(rate * m) / round(round(round(Math.sqrt(v)) / root2) + epsilon));
    weights[weightsAt + c] = round(weights[weightsAt + c]! - change);
  }
}
