// A data set of clicks for tests: Parquet files that are the same wherever they are made.

import { parquetWriteBuffer } from "hyparquet-writer";

/** A file of `rows` rows in row groups of 128; a quarter of the labels is 1. */
export function clickFile(seed: number, rows: number): Uint8Array {
  const at = Array.from({ length: rows }, (_, row) => row * 7919 + seed * 104_729);
  const of = (data: number[], name: string) => ({ name, data, type: "INT32" as const });
  const columnData = [
    of(
      at.map((one) => Number((one * 31) % 97 < 24)),
      "label",
    ),
    of(
      at.map((one) => (one * 13) % 101),
      "price",
    ),
    of(
      at.map((one) => one % 193),
      "user",
    ),
    of(
      at.map((one) => (one >> 3) % 157),
      "item",
    ),
    of(
      at.map((one) => one % 1009),
      "other",
    ), // Not read by the job.
  ];
  return new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize: 128 }));
}
