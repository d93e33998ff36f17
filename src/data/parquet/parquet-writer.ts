// Writes Parquet files through a file of a disk, one row group at a time; hyparquet-writer encodes
// the pages.

import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import type { DiskFile } from "../../ports/disk.ts";

/** The schema, and how it is written: the codec, statistics, key-value metadata. */
export type ParquetOptions = Omit<
  ConstructorParameters<typeof ParquetWriter>[0],
  "writer" | "createdBy"
>;

/**
 * A writer of row groups into `file`, from its first byte on. Each row group is in the file when
 * `write` returns. The caller closes the file.
 */
export function parquetWriter(file: DiskFile, options: ParquetOptions): ParquetWriter {
  const bytes = new ByteWriter();
  let at = 0;
  const flush = () => {
    const own = bytes.getBytes();
    file.write(own, at);
    at += own.length;
    bytes.index = 0;
  };
  const writer = Object.assign(bytes, { flush, finish: flush });
  return new ParquetWriter({ ...options, writer, createdBy: "osiris" });
}
