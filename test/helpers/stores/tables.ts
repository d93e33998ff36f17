// A trained checkpoint with tables of every kind, and the contents of their row files.

import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { formatOf } from "../../../packages/formats/tables/export-table.ts";
import type { JobOptions } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../../data/data-files.ts";
import { startTrained } from "../devices/trained.ts";

/** The column count of all tables. */
export const dim = 40;
export const endings = ["safetensors", "csv", "parquet"] as const;

/** Tables with every precision and sharding. */
export const tables = [
  { name: "columns", precision: "float32", sharding: "column-wise" },
  { name: "rows", precision: "float16", sharding: "row-wise" },
  { name: "grid", precision: "bfloat16", sharding: "grid" },
  { name: "whole", precision: "int8", sharding: "table-wise" },
  { name: "copied", precision: "float32", sharding: "data-parallel" },
] as const;

/** A job of one batch on these tables, with the checkpoint directory `name`. */
export function tablesJobOf(
  home: string,
  name: string,
  options: Partial<JobOptions> = {},
): JobOptions {
  return {
    model: {
      kind: "dlrm",
      dense: 3,
      tables: tables.map((table) => ({ ...table, rows: 90, dim, rowBlocks: 4, initScale: 0.2 })),
      bottom: [dim],
      top: [4, 1],
      interaction: "cat",
    },
    data: {
      kind: "synthetic",
      samples: 60,
      dense: 3,
      batchSize: 60,
      zipf: 1.2,
      idsPerBag: { min: 0, max: 2 },
      cache: join(home, "cache"),
    },
    optimizer: { sparse: { kind: "partialRowWiseAdam", learningRate: 0.01 } },
    checkpoint: { directory: join(home, name) },
    ...options,
  };
}

/** Trains a checkpoint on three devices. */
export async function trainedTables(t: ExecutionContext, options: Partial<JobOptions> = {}) {
  const home = startDirectory(t);
  const directory = join(home, "checkpoints");
  const trained = await startTrained(tablesJobOf(home, "checkpoints", options), { devices: 3 });
  await trained.train({ cut: 1 });
  const manifest = await trained.train({ cut: 2 });
  return { home, directory, manifest, trained };
}

/** The contents of a row file, numbers as bits. */
export async function contentOf(path: string) {
  const file = await (await formatOf(path)).read(path, realDisk);
  const content = { ids: [] as number[], vectors: [] as number[], state: [] as number[] };
  const push = (to: number[], values: Float32Array | undefined) => {
    for (const bits of new Uint32Array(Float32Array.from(values ?? []).buffer)) to.push(bits);
  };
  for await (const { ids, vectors, state } of file.chunks()) {
    content.ids.push(...Array.from(ids, Number));
    push(content.vectors, vectors);
    push(content.state, state);
  }
  file.close();
  return content;
}

/** A CSV of rows, each with the same number in all of its columns. */
export function csvOf(rows: readonly (readonly [row: number, value: number])[]): string {
  const header = ["id", ...Array.from({ length: dim }, (_, c) => `v${c}`)].join(",");
  const lines = rows.map(([row, value]) => [row, ...Array(dim).fill(value)].join(","));
  return `${[header, ...lines].join("\n")}\n`;
}
