// A small model of a click file, and the file's lines as records, for tests of predictions.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { csv } from "../../../src/data/sources.ts";
import type { JobOptions } from "../../../src/job/job.ts";
import { startDirectory } from "../../data/data-files.ts";
import { drawModel } from "../stores/drawn-model.ts";

/** The file's lines: a third are clicks; clicks with an even number are also purchases. */
export const clicks = Array.from({ length: 60 }, (_, i) => {
  const clicked = i % 3 === 0 ? 1 : 0;
  const bought = clicked === 1 && i % 2 === 0 ? 1 : 0;
  return { clicked, bought, price: `${i % 7}.25`, user: `Zoë ${i % 16}`, at: `n${i}` };
});

const columns = ["clicked", "bought", "price", "user", "at"] as const;

/** Writes the clicks as a CSV file. */
export function writeClicks(path: string): void {
  const lines = clicks.map((click) => columns.map((column) => click[column]).join(","));
  writeFileSync(path, `${[columns.join(","), ...lines].join("\n")}\n`);
}

type Model = JobOptions["model"];

const tables = [{ name: "user", rows: 300, dim: 4, initScale: 1 }];

/** Models of the file. */
export const models = {
  dlrm: { kind: "dlrm", dense: 1, tables, bottom: [4], top: [1], interaction: "cat" },
  dcn: { kind: "dcnV2", dense: 1, tables, crossLayers: 2, top: [5, 1] },
  /** A model of two labels, click and purchase. */
  tasks: {
    ...{ kind: "sharedBottom", dense: 1, tables, shared: [6] },
    tasks: [
      { name: "clicked", tower: [4] },
      { name: "bought", tower: [4] },
    ],
  },
} as const satisfies Readonly<Record<string, Model>>;

/** A job on the file, in `home`. */
export function clicksJob(home: string, model: keyof typeof models = "dlrm"): JobOptions {
  return {
    model: models[model],
    data: csv(join(home, "clicks.csv"), {
      label: model === "tasks" ? ["clicked", "bought"] : "clicked",
      dense: ["price"],
      categorical: ["user"],
      batchSize: 20,
      cache: join(home, "cache"),
    }),
    checkpoint: { directory: join(home, "checkpoints") },
  };
}

/** Writes the file, and a model of it with drawn weights. */
export async function drawClicks(t: ExecutionContext, model?: keyof typeof models) {
  const home = startDirectory(t);
  const path = join(home, "clicks.csv");
  writeClicks(path);
  const job = await drawModel(clicksJob(home, model));
  return { home, path, directory: job.checkpoint.directory, job };
}
