// Models that PyTorch made (test/fixtures/pytorch), and its computed results.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import { loadModel } from "../../../storage/model/load-model.ts";

const home = "test/fixtures/pytorch";

/** The path of a file that PyTorch wrote. */
export function pytorchFile(name: string): string {
  return join(home, name);
}

interface Expected {
  readonly models: Readonly<Record<string, { readonly logits: number[]; continued: number[] }>>;
  readonly views: Readonly<Record<string, { readonly shape: number[]; readonly values: number[] }>>;
  readonly test: {
    readonly dense: number[];
    readonly lengths: readonly (readonly number[])[];
    readonly ids: readonly (readonly number[])[];
  };
}

/** The results that PyTorch computed. */
export function expectedOfPyTorch(): Expected {
  return JSON.parse(readFileSync(pytorchFile("expected.json"), "utf8"));
}

/** The samples whose logits PyTorch computed; `order`: of the features. */
function testBatch({ test: { dense, lengths, ids } }: Expected, order: readonly number[]) {
  const inOrder = (lists: typeof ids) => order.flatMap((feature) => lists[feature] ?? []);
  return {
    samples: lengths[0]?.length ?? 0,
    dense: Float32Array.from(dense),
    lengths: Int32Array.from(inOrder(lengths)),
    ids: Int32Array.from(inOrder(ids)),
    highs: undefined,
    weights: undefined,
  } satisfies EncodedBatch;
}

/**
 * The logits that the model in a directory gives to these samples, derived from its probabilities.
 */
export async function logitsOf(directory: string, order = [0, 1, 2]): Promise<number[]> {
  await using model = await loadModel(directory);
  const probabilities = await model.predictBatch(testBatch(expectedOfPyTorch(), order));
  return Array.from(probabilities, (p) => Math.log(p / (1 - p)));
}

/** The largest difference between two lists at one index. */
export function apart(some: readonly number[], others: readonly number[]): number {
  const all = some.map((value, i) => Math.abs(value - (others[i] ?? Number.NaN)));
  return some.length === others.length ? Math.max(...all) : Number.NaN;
}
