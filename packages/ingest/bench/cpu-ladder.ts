// The processor part of the bench (ladder.bench.ts): reads a job's batches from a file with the
// Parquet reader, on a real core.

import type { RowBatch } from "../../../src/data/columnar/column.ts";
import { readFooter } from "../../../src/data/parquet/footer.ts";
import { readParquet } from "../../../src/data/parquet/read-parquet.ts";
import { columnNames, shapeOf } from "../../../src/data/parquet/shapes.ts";
import { openRanges } from "../../../src/data/tables/byte-ranges.ts";
import { batchOfColumns, type FeatureBatch, type JobFeatures } from "./feature-batch.ts";
import { batchOfRows, rowsOfColumns, rowsOfMaps } from "./row-objects.ts";

/** The steps of the bench: each reads a layout, and makes batches from it, in a different way. */
export const cpuSteps = ["map", "flattened", "flatMaps"] as const;
export type CpuStep = (typeof cpuSteps)[number];

/**
 * Reads a file, and passes each batch of the job to `take`. The file has the map layout for the
 * step `map`, else one column for each feature.
 */
export async function readOnCpu(
  step: CpuStep,
  path: string,
  job: JobFeatures,
  take: (batch: FeatureBatch) => void,
): Promise<void> {
  const batchOf = (batch: RowBatch): FeatureBatch => {
    switch (step) {
      case "map":
        return batchOfRows(rowsOfMaps(batch), job);
      case "flattened":
        return batchOfRows(rowsOfColumns(batch, job), job);
      case "flatMaps":
        return batchOfColumns(batch, job);
      default:
        return step satisfies never;
    }
  };
  const file = await openRanges(path);
  try {
    const footer = await readFooter(file);
    const ofJob = [...job.numbers, ...job.lists].map(({ name }) => name);
    const names = step === "map" ? columnNames(footer.schema) : ofJob;
    const wanted = names.flatMap((name) => {
      const shape = shapeOf(footer.schema, name);
      return shape === undefined ? [] : [{ shape, isId: shape.list !== "none" }];
    });
    for await (const batch of readParquet(file, footer, wanted)) take(batchOf(batch));
  } finally {
    await file.close();
  }
}
