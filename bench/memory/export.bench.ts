// Question: how much memory does the export of a large model take, in a process of its own? Most
// rows are stored, in three precisions, in the tiles of several devices; one table was never
// trained. Limit: 2 GiB for the whole process.

import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Option } from "commander";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, notNegative, together } from "../bench.ts";
import type { BenchRow } from "../row.ts";
import { drawCheckpoint } from "./drawn-checkpoint.ts";

const limitMiB = 2048;
const endings = ["osiris", "safetensors", "onnx"] as const;

interface ExportBenchOptions {
  readonly gib: number;
  readonly directory: string;
}

export const exportBench: Bench<ExportBenchOptions> = {
  question: "largest resident set of an export, which writes each row of a model to one file",
  options: [
    new Option("--gib <size>", "size of the tables as float32").argParser(notNegative).default(0.5),
    new Option("--directory <path>", "where the checkpoint and one file have room").default(
      tmpdir(),
    ),
  ],
  full: { gib: 24 },
  measurements({ gib, directory }) {
    const names = endings.map((ending) => `export.${ending}`);
    return [together(names, 5 + 40 * gib, () => exportRows(directory, gib))];
  },
};

async function exportRows(parent: string, gib: number): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-bench-", parent);
  const program = fileURLToPath(new URL("./export-program.js", import.meta.url));
  const checkpoint = join(home.path, "checkpoints");
  const stored = await drawCheckpoint(checkpoint, gib * 2 ** 30);
  return endings.map((ending) => {
    const file = join(home.path, `model.${ending}`);
    const text = execFileSync(process.execPath, [program, checkpoint, file], {
      encoding: "utf8",
    });
    const { bytes, seconds, peakMiB } = JSON.parse(text) as Record<string, number>;
    const sizes = `${gigabytes(bytes)} of ${gigabytes(stored)} stored, in ${seconds?.toFixed(0)} s`;
    return rowOf(`export.${ending}`, peakMiB ?? Number.NaN, `2 GiB; ${sizes}`);
  });
}

function rowOf(name: string, figure: number, limitIs: string): BenchRow {
  const about = { unit: "MiB", limit: limitMiB, limitIs, ratio: figure / limitMiB };
  return { name, figure, ...about, spread: [figure, figure] };
}

function gigabytes(bytes = Number.NaN): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
