// Frappe (Baltrunas et al., 2015), one line an app use: its samples, batches of them, and the score
// of a model on them.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { LocalBatch } from "../../src/exchange/batch-ring.ts";
import { type ModelSpec, modelOptions } from "../../src/model/options.ts";
import type { RandomStream } from "../../src/ports/random.ts";
import { evaluate, type Metrics } from "../../src/training/loop/metrics.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import { forwardStep } from "../../src/training/step/step.ts";

/** Samples by column, with ids that count the column's values in the training samples from 1. */
export interface Samples {
  readonly rows: readonly number[];
  readonly train: Labelled;
  readonly test: Labelled;
}

export interface Labelled {
  readonly labels: Float32Array;
  /** Column after column. */
  readonly ids: readonly Int32Array[];
}

/** Frappe's training and test samples. */
export function readFrappe(folder: string): Samples {
  const linesOf = (name: string) =>
    gunzipSync(readFileSync(join(folder, name)))
      .toString()
      .trimEnd()
      .split("\n")
      .slice(1);
  const [train, test] = ["train.csv.gz", "test.csv.gz"].map((name) => {
    return linesOf(name).map((line) => line.trimEnd().split(","));
  });
  if (train === undefined || test === undefined) throw new Error("There are no samples");
  const columns = (train[0]?.length ?? 1) - 1;
  const known = Array.from({ length: columns }, () => new Map<string, number>());
  for (const fields of train) {
    for (const [c, ids] of known.entries()) {
      const value = fields[c + 1] ?? "";
      if (!ids.has(value)) ids.set(value, ids.size + 1);
    }
  }
  const labelled = (all: readonly string[][]): Labelled => ({
    labels: Float32Array.from(all, ([label]) => Number(label)),
    ids: known.map((ids, c) => Int32Array.from(all, (one) => ids.get(one[c + 1] ?? "") ?? 0)),
  });
  const rows = known.map((ids) => ids.size + 1);
  return { rows, train: labelled(train), test: labelled(test) };
}

/** A model without dense features: the vectors of all columns side by side, and layers. */
export function frappeModel(rows: readonly number[], top: readonly number[]): ModelSpec {
  const tables = rows.map((count, i) => {
    return { name: `T${i}`, rows: count, dim: 16, initScale: 0.05 };
  });
  const layers = { interaction: "cat", bottom: [], top };
  return modelOptions.parse({ kind: "dlrm", dense: 0, tables, ...layers });
}

/** Puts samples into a random order (Fisher and Yates). */
export function shuffle(order: Int32Array, stream: RandomStream): void {
  for (let last = order.length - 1; last > 0; last--) {
    const other = stream.below(last + 1);
    [order[last], order[other]] = [order[other] ?? 0, order[last] ?? 0];
  }
}

/** The batch of the samples `picked`. */
export function batchOf({ labels, ids }: Labelled, picked: Int32Array): LocalBatch {
  const samples = picked.length;
  const batch = { ticket: 0, samples, batchSamples: samples, dense: new Float32Array(0) };
  const own = new Int32Array(samples * ids.length);
  for (const [c, column] of ids.entries()) {
    own.set(
      Int32Array.from(picked, (sample) => column[sample] ?? 0),
      c * samples,
    );
  }
  const lengths = new Int32Array(own.length).fill(1);
  const picks = Float32Array.from(picked, (sample) => labels[sample] ?? 0);
  return { ...batch, labels: picks, lengths, ids: own, idCount: own.length };
}

/** The metrics of a model on labelled samples. */
export async function scoreOf(
  device: DeviceState,
  test: Labelled,
  batchSize: number,
): Promise<Metrics> {
  const logits = new Float32Array(test.labels.length);
  for (let first = 0; first < logits.length; first += batchSize) {
    const count = Math.min(batchSize, logits.length - first);
    const picked = Int32Array.from({ length: count }, (_, i) => first + i);
    logits.set(device.kernels.read(await forwardStep(device, batchOf(test, picked))), first);
  }
  return evaluate(logits, test.labels);
}
