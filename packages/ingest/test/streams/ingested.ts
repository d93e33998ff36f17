// Runs ingestions in tests, and reads the rows and the hashes of the files that they write.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tableFilesOf } from "../../../../src/data/files.ts";
import { type Disk, realDisk } from "../../../../src/ports/disk.ts";
import type { StreamSource } from "../../../../src/wire/jetstream/stream-reader.ts";
import { type IngestReport, type IngestRunOptions, ingestStreams } from "../../streams/ingest.ts";
import type { IngestJoinOptions } from "../../streams/ingest-options.ts";
import { openParquetTable } from "../../warehouse/parquet-table.ts";
import { allFiles } from "../warehouse/tables.ts";

/** Ingests streams named `features` and `events`. */
export function ingestInto(
  out: string,
  source: StreamSource,
  options: Partial<IngestJoinOptions> = {},
  run: IngestRunOptions = {},
): Promise<IngestReport> {
  return ingestStreams(source, { features: "features", events: "events", out, ...options }, run);
}

/**
 * The real disk without syncs, so that a test of thousands of files does not wait: these tests cut
 * no power.
 */
export const quickDisk: Disk = {
  ...realDisk,
  open: (path, mode) => ({ ...realDisk.open(path, mode), sync() {} }),
  syncDirectory() {},
};

/** The hash of each file below a directory, hidden files included. */
export function hashesOf(directory: string): Record<string, string> {
  const hashes = allFiles(directory).map((name) => {
    const bytes = readFileSync(join(directory, name));
    return [name, createHash("sha256").update(bytes).digest("hex").slice(0, 16)];
  });
  return Object.fromEntries(hashes);
}

/** The rows of a table as JSON values, ordered by sequence. */
export async function rowsOf(directory: string): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  for (const path of filesOf(directory)) {
    const source = await openParquetTable([path]);
    for await (const { rows: count, columns } of source.chunks()) {
      for (let i = 0; i < count; i++) {
        rows.push(
          Object.fromEntries([...columns].map(([name, values]) => [name, shown(values[i])])),
        );
      }
    }
  }
  return rows.sort((a, b) => Number(a.sequence) - Number(b.sequence));
}

function filesOf(directory: string): string[] {
  const isTable = allFiles(directory).some((name) => name.endsWith(".parquet"));
  return isTable ? tableFilesOf([directory]) : [];
}

function shown(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
  if (Array.isArray(value)) return value.map(shown);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, own]) => [name, shown(own)]));
  }
  return value ?? null;
}
