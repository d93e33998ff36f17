// Question: do the largest sizes that the options allow train, and how much memory does the process
// take? One small job a size, in a process of its own; docs/limits.md has the rows.

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Option } from "commander";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, single } from "../bench.ts";
import type { BenchRow } from "../row.ts";

interface SizesBenchOptions {
  readonly directory: string;
}

/** A size, the devices, and the job's options beside the usual ones. */
interface Size {
  readonly size: number;
  readonly devices?: number;
  readonly seconds: number;
  readonly model?: object;
  readonly data?: object;
  readonly job?: object;
  readonly table?: object;
}

const [rowsMax, samplesMax] = [2 ** 31 - 1, 2 ** 32 - 1];
const cached = { rows: rowsMax, tier: "cached" };

const sizes: Readonly<Record<string, Size>> = {
  rows: { size: rowsMax, seconds: 3, table: cached },
  columns: { size: 4096, seconds: 3, table: { dim: 4096 } },
  bag: { size: 65_535, seconds: 3, data: { batchSize: 8, idsPerBag: 65_535 } },
  batch: { size: 2 ** 20, seconds: 20, data: { batchSize: 2 ** 20 } },
  dense: {
    ...{ size: 65_536, seconds: 5 },
    ...{ model: { dense: 65_536 }, data: { dense: 65_536, batchSize: 8 } },
  },
  width: {
    ...{ size: 65_536, seconds: 5 },
    ...{ model: { top: [65_536, 1] }, data: { batchSize: 8 } },
  },
  samples: {
    ...{ size: samplesMax, seconds: 5 },
    data: { samples: samplesMax, streamed: true, splitSamples: 1_048_576 },
  },
  devices: {
    ...{ size: 32, devices: 32, seconds: 60 },
    ...{ job: { slices: 32 }, data: { batchSize: 128 } },
  },
  files: { size: 10_000, seconds: 30 },
};

export const sizesBench: Bench<SizesBenchOptions> = {
  question: "whether the largest sizes of options train, and the memory of the process",
  options: [new Option("--directory <path>", "where files have room").default(tmpdir())],
  measurements({ directory }) {
    return Object.entries(sizes).map(([name, size]) => {
      return single(nameOf(name, size), size.seconds, () =>
        sizeRow(nameOf(name, size), size, directory),
      );
    });
  },
};

/** The name of a row, with its size: `sizes.bag.65535`. */
function nameOf(name: string, { size }: Size): string {
  return `sizes.${name}.${size}`;
}

function sizeRow(name: string, size: Size, parent: string): BenchRow {
  using home = temporaryHome("osiris-bench-", parent);
  const program = fileURLToPath(new URL("./sizes-program.js", import.meta.url));
  const { devices = 1 } = size;
  const job = JSON.stringify(jobOf(name, size, home.path));
  const settings = { input: job, encoding: "utf8" } as const;
  const text = execFileSync(process.execPath, [program, `${devices}`], settings);
  const { peakMiB = Number.NaN } = JSON.parse(text) as { readonly peakMiB?: number };
  return { name, figure: peakMiB, unit: "MiB", spread: [peakMiB, peakMiB] };
}

function jobOf(name: string, { model, data, job, table, size }: Size, directory: string): object {
  const batchSize = 64;
  const whole = { batchSize, ...data };
  const generated = {
    ...{ kind: "synthetic", dense: 1, samples: 3 * whole.batchSize },
    ...{ cache: join(directory, "cache"), ...whole },
  };
  const dim = 4;
  const first = { name: "T0", rows: 1000, dim, ...table };
  return {
    model: {
      ...{ kind: "dlrm", dense: 1, tables: [first, { ...first, name: "T1", rows: 1000 }] },
      ...{ bottom: [first.dim], top: [1], ...model },
    },
    data: name.startsWith("sizes.files") ? filesOf(directory, size) : generated,
    checkpoint: { directory: join(directory, "checkpoints") },
    ...job,
  };
}

/** Data of this many CSV files of one line each. */
function filesOf(directory: string, files: number): object {
  mkdirSync(join(directory, "files"));
  const paths = Array.from({ length: files }, (_, file) => {
    const path = join(directory, "files", `${file}.csv`);
    writeFileSync(path, `label,d0,T0,T1\n${file % 2},0.5,${file % 1000},${file % 7}\n`);
    return path;
  });
  const columns = { label: "label", dense: ["d0"], categorical: ["T0", "T1"] };
  return { kind: "csv", paths, batchSize: 1024, cache: join(directory, "cache"), ...columns };
}
