// Writes predictions as an Arrow file.

import {
  Float32,
  Int64,
  makeData,
  RecordBatch,
  RecordBatchFileWriter,
  Utf8,
  vectorFromArray,
} from "apache-arrow";
import type { DiskFile } from "../../../internal.ts";
import type { ProbabilityWriter, WrittenColumns } from "./predict-report.ts";

/** Writes a column `row`, kept columns and predictions; each batch becomes a record batch. */
export function arrowWriter(target: DiskFile, { kept, names }: WrittenColumns): ProbabilityWriter {
  const writer = new RecordBatchFileWriter();
  let at = 0;
  const written = drain();
  async function drain(): Promise<void> {
    for await (const bytes of writer) {
      target.write(bytes, at);
      at += bytes.length;
    }
  }

  let isEmpty = true;
  const write: ProbabilityWriter["write"] = (rows, keptValues, values) => {
    const places = BigInt64Array.from(rows, BigInt);
    const dataOf = <Type extends Float32 | Utf8>(own: readonly unknown[], type: Type) => {
      return vectorFromArray([...own], type).data[0] ?? makeData({ type, length: 0 } as never);
    };
    const columns = [
      ...kept.map((name, i) => [name, dataOf(keptValues[i] ?? [], new Utf8())] as const),
      ...names.map((name, i) => [name, dataOf(values[i] ?? [], new Float32())] as const),
    ];
    const row = makeData({ type: new Int64(), data: places });
    writer.write(new RecordBatch({ row, ...Object.fromEntries(columns) }));
    isEmpty = false;
  };
  return {
    write,
    async finish() {
      if (isEmpty) write([], [], []);
      writer.finish();
      await written;
    },
  };
}
