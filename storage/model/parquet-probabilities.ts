// Writes predictions as Parquet.

import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import type { DiskFile } from "../../src/ports/disk.ts";
import type { ProbabilityWriter } from "./predict-report.ts";

/** Writes a column `row` and one for each of `names` to `target`, as one row group a batch. */
export function parquetWriter(target: DiskFile, names: readonly string[]): ProbabilityWriter {
  const bytes = new ByteWriter();
  let at = 0;
  const flush = () => {
    const own = bytes.getBytes();
    target.write(own, at);
    at += own.length;
    bytes.index = 0;
  };
  const writer = new ParquetWriter({
    writer: Object.assign(bytes, { flush, finish: flush }),
    schema: [
      { name: "root", num_children: 1 + names.length },
      { name: "row", type: "INT64", repetition_type: "REQUIRED" },
      ...names.map((name) => {
        return { name, type: "FLOAT", repetition_type: "OPTIONAL" } as const;
      }),
    ],
    createdBy: "osiris",
  });
  return {
    write(firstRow, tasks) {
      const rows = tasks[0]?.length ?? 0;
      const places = Array.from({ length: rows }, (_, row) => BigInt(firstRow + row));
      void writer.write({
        rowGroupSize: Math.max(1, rows),
        columnData: [
          { name: "row", data: places },
          ...names.map((name, i) => ({ name, data: [...(tasks[i] ?? [])] })),
        ],
      });
    },
    finish: () => void writer.finish(),
  };
}
