// Writes predictions as an Arrow file.

import {
  Float32,
  Int64,
  makeData,
  RecordBatch,
  RecordBatchFileWriter,
  vectorFromArray,
} from "apache-arrow";
import type { DiskFile } from "../../src/ports/disk.ts";
import type { ProbabilityWriter } from "./predict-report.ts";

/** Writes a column `row` and one for each of `names` to `target`, as one record batch a batch. */
export function arrowWriter(target: DiskFile, names: readonly string[]): ProbabilityWriter {
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
  const write: ProbabilityWriter["write"] = (firstRow, tasks) => {
    const rows = tasks[0]?.length ?? 0;
    const places = BigInt64Array.from({ length: rows }, (_, row) => BigInt(firstRow + row));
    const columns = names.map((name, i) => {
      const values = vectorFromArray([...(tasks[i] ?? [])], new Float32());
      return [name, values.data[0] ?? makeData({ type: new Float32(), length: 0 })] as const;
    });
    const row = makeData({ type: new Int64(), data: places });
    writer.write(new RecordBatch({ row, ...Object.fromEntries(columns) }));
    isEmpty = false;
  };
  return {
    write,
    async finish() {
      if (isEmpty) write(0, []);
      writer.finish();
      await written;
    },
  };
}
