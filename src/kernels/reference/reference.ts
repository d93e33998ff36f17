// The reference kernels: the definition of the arithmetic, in readable loops. They run on any
// machine. The native kernels are their fast version, with the same names and the same bracketing.

import type { Kernels } from "../contract/kernels.ts";
import { createRowCache, freeSpares, releaseRows } from "../contract/row-cache.ts";
import { average, clipNorm, clipValues, swap } from "./beside-updates.ts";
import { withBfloat16 } from "./bfloat16.ts";
import { createBlocks } from "./blocks.ts";
import { placeRows } from "./cache.ts";
import { createDense } from "./dense.ts";
import { createEmbedding } from "./embedding.ts";
import { createExchange } from "./exchange.ts";
import { loss } from "./loss.ts";
import { createMemory, type Values } from "./memory.ts";
import { createRecords } from "./records.ts";
import { double, single } from "./round.ts";
import { rowMeans, rowTrust } from "./row-sums.ts";
import { keepRows } from "./undo.ts";

/**
 * The reference kernels. `float32` rounds like a machine with fused multiply-adds; `float64` runs
 * the same loops without rounding, to check gradients by finite differences. Views stay float32.
 */
export function createReference(precision: "float32" | "float64" = "float32"): Kernels {
  const isDouble = precision === "float64";
  const round = isDouble ? double : single;
  const allocate = (length: number): Values =>
    isDouble ? new Float64Array(length) : new Float32Array(length);
  return {
    arithmetic: isDouble ? "reference-3-float64" : "reference-3",
    set: "reference",
    recorded(work) {
      work(); // Checked kernels record (table/recording.ts); these repeat nothing.
      return undefined;
    },
    ...createMemory(allocate),
    ...withBfloat16(createDense(round), round),
    ...createBlocks(round),
    loss,
    clipNorm,
    clipValues,
    average,
    swap,
    ...createEmbedding(round, allocate),
    rowMeans,
    rowTrust,
    ...createExchange(round),
    rowCache: (spec) => createRowCache(spec),
    placeRows,
    releaseRows,
    freeSpares,
    ...createRecords(round),
    keepRows,
  };
}
