// The process that exports a model, and prints the duration and its peak resident set.

import { rmSync } from "node:fs";
import { exportModel } from "../../packages/formats/exports/export-model.ts";

const [, , directory = "", file = ""] = process.argv;
const startMs = performance.now();
const { bytes, dataFile, inputs } = await exportModel(directory, file);
const seconds = (performance.now() - startMs) / 1000;
const peakMiB = process.resourceUsage().maxRSS / 1024;
console.log(JSON.stringify({ bytes, seconds, peakMiB }));
for (const one of [file, dataFile, inputs?.file]) if (one !== undefined) rmSync(one);
