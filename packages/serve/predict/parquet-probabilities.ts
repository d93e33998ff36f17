// Writes predictions as Parquet.

import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import type { DiskFile } from "../../../internal.ts";
import type { ProbabilityWriter, WrittenColumns } from "./predict-report.ts";

/** Writes a column `row`, kept columns and predictions; each batch becomes a row group. */
export function parquetWriter(
  target: DiskFile,
  { kept, names }: WrittenColumns,
): ProbabilityWriter {
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
      { name: "root", num_children: 1 + kept.length + names.length },
      { name: "row", type: "INT64", repetition_type: "REQUIRED" },
      ...kept.map((name) => {
        const text = { type: "BYTE_ARRAY", converted_type: "UTF8" } as const;
        return { name, ...text, repetition_type: "OPTIONAL" } as const;
      }),
      ...names.map((name) => {
        return { name, type: "FLOAT", repetition_type: "OPTIONAL" } as const;
      }),
    ],
    createdBy: "osiris",
  });
  return {
    write(rows, keptValues, values) {
      void writer.write({
        rowGroupSize: Math.max(1, rows.length),
        columnData: [
          { name: "row", data: rows.map(BigInt) },
          ...kept.map((name, i) => ({ name, data: [...(keptValues[i] ?? [])] })),
          ...names.map((name, i) => ({ name, data: [...(values[i] ?? [])] })),
        ],
      });
    },
    finish: () => void writer.finish(),
  };
}
