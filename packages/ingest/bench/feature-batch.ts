// A job's batch, and its construction from flat maps: decoded columns, which are a few typed arrays
// for each feature. R = rows of a batch, D = dense features of a job, N = ids of a feature.

import { createHash, type Hash } from "node:crypto";
import type { RowBatch } from "../../../src/data/columnar/column.ts";
import type { Feature, Logged } from "./features.ts";

/** The features that a job reads, by kind. */
export interface JobFeatures {
  readonly numbers: readonly Feature[];
  readonly lists: readonly Feature[];
}

/** Rows in the form that a trainer needs. A value that was not logged is 0, or an empty list. */
export interface FeatureBatch {
  readonly rows: number;
  /** (R, D) */
  readonly dense: Float32Array;
  /** For each feature: offsets (R + 1), ids (N). */
  readonly lists: readonly { readonly offsets: Int32Array; readonly ids: BigInt64Array }[];
}

/** The features that the measured job reads. */
export function featuresOfJob({ features, job }: Logged): JobFeatures {
  const wanted = job.flatMap((key) => features[key] ?? []);
  return {
    numbers: wanted.filter(({ values }) => values.kind === "number"),
    lists: wanted.filter(({ values }) => values.kind === "list"),
  };
}

/** Makes a batch from columns, without an object for each row. */
export function batchOfColumns(batch: RowBatch, { numbers, lists }: JobFeatures): FeatureBatch {
  const { rows } = batch;
  const width = numbers.length;
  const dense = new Float32Array(rows * width);
  for (const [place, { name }] of numbers.entries()) {
    const column = batch.columns.get(name);
    if (column?.form !== "numbers") throw new TypeError(`Expected numbers in ${name}`);
    const { values } = column;
    for (let row = 0, at = place; row < rows; row++, at += width) {
      const value = values[row] ?? 0;
      dense[at] = Number.isNaN(value) ? 0 : value;
    }
  }
  return {
    rows,
    dense,
    lists: lists.map(({ name }) => {
      const column = batch.columns.get(name);
      if (column?.form !== "ids") throw new TypeError(`Expected ids in ${name}`);
      const offsets = column.offsets.slice(0, rows + 1);
      return { offsets, ids: column.ids.slice(0, offsets[rows]) };
    }),
  };
}

/** The digest of batches, which does not depend on their sizes. */
export class BatchDigest {
  readonly #dense = createHash("sha256");
  readonly #lists: { readonly lengths: Hash; readonly ids: Hash }[];

  constructor({ lists }: JobFeatures) {
    this.#lists = lists.map(() => ({ lengths: createHash("sha256"), ids: createHash("sha256") }));
  }

  add({ rows, dense, lists }: FeatureBatch): void {
    this.#dense.update(dense);
    for (const [i, { offsets, ids }] of lists.entries()) {
      const lengths = Int32Array.from({ length: rows }, (_, row) => {
        return (offsets[row + 1] ?? 0) - (offsets[row] ?? 0);
      });
      this.#lists[i]?.lengths.update(lengths);
      this.#lists[i]?.ids.update(ids);
    }
  }

  /** The digest in hex. */
  digest(): string {
    const all = createHash("sha256").update(this.#dense.digest());
    for (const { lengths, ids } of this.#lists) all.update(lengths.digest()).update(ids.digest());
    return all.digest("hex");
  }
}
