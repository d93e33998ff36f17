// What a job says about embedding tables and their optimizers, and what of it is checked.

import { z } from "zod";
import type { RowRule } from "../kernels/kernels.ts";

/** One table: all rows of one categorical feature. */
export const tableOptions = z.strictObject({
  /** Name of the feature, and of the column that it comes from. */
  name: z.string().min(1),
  rows: z.int().min(1).max(0x7fff_ffff),
  /** Columns of a row. All tables of a model agree. */
  dim: z.int().min(1).max(4096),
  /** How the rows of a bag become one vector. */
  pooling: z.enum(["sum", "mean"]).default("sum"),
  /** `table`: on one device. `data-parallel`: a copy on every device; for small tables. */
  sharding: z.enum(["table", "data-parallel"]).default("table"),
  /** A fixed part of the arithmetic: a pooled vector is a tree over blocks of rows. */
  rowBlocks: z.literal([1, 2, 4, 8, 16, 32, 64]).default(1),
  /** Weight of the penalty l2/2 * |w|^2 on rows. */
  l2: z.number().min(0).default(0),
  /** Which rows the penalty pulls on: those of the batch, or (data-parallel only) all. */
  l2Scope: z.enum(["touched", "table"]).default("touched"),
  /** Rows are born uniform in ±initScale. 0 means 1/sqrt(rows). */
  initScale: z.number().min(0).default(0),
});

export type TableOptions = z.input<typeof tableOptions>;
export type TableSpec = z.output<typeof tableOptions>;

const rate = z.number().positive();

/** How rows take their gradients. Exact: a row's gradients are summed, then it is updated once. */
export const sparseOptimizerOptions = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("sgd"), learningRate: rate.default(0.01) }),
  z.strictObject({
    kind: z.literal("adagrad"),
    learningRate: rate.default(0.01),
    epsilon: rate.default(1e-8),
    initialAccumulator: z.number().min(0).default(0),
  }),
  z.strictObject({
    kind: z.literal("rowWiseAdagrad"),
    learningRate: rate.default(0.01),
    epsilon: rate.default(1e-8),
    initialAccumulator: z.number().min(0).default(0),
  }),
  z.strictObject({
    kind: z.literal("adam"),
    learningRate: rate.default(0.001),
    beta1: z.number().min(0).max(0.999999).default(0.9),
    beta2: z.number().min(0).max(0.999999).default(0.999),
    epsilon: rate.default(1e-8),
  }),
]);

export type SparseOptimizerOptions = z.input<typeof sparseOptimizerOptions>;
export type SparseOptimizerSpec = z.output<typeof sparseOptimizerOptions>;

/** The rule of one table at one step; `step` counts from 0. */
export function rowRuleOf(optimizer: SparseOptimizerSpec, l2: number, step: number): RowRule {
  switch (optimizer.kind) {
    case "sgd":
      return { kind: "sgd", learningRate: optimizer.learningRate, l2 };
    case "adagrad":
    case "rowWiseAdagrad":
      return {
        kind: optimizer.kind,
        learningRate: optimizer.learningRate,
        epsilon: optimizer.epsilon,
        l2,
      };
    case "adam":
      return {
        kind: "adam",
        learningRate: optimizer.learningRate,
        beta1: optimizer.beta1,
        beta2: optimizer.beta2,
        epsilon: optimizer.epsilon,
        l2,
        correction1: 1 - power(optimizer.beta1, step + 1),
        correction2: 1 - power(optimizer.beta2, step + 1),
      };
    default:
      return optimizer satisfies never;
  }
}

/** base^exponent by repeated squaring: the same bits wherever it runs, unlike Math.pow. */
export function power(base: number, exponent: number): number {
  let result = 1;
  let square = base;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result *= square;
    square *= square;
  }
  return result;
}
