// Small jobs for the tests of commands.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { stringify } from "yaml";
import type { JobOptions } from "../../index.ts";
import { startDirectory } from "../data/data-files.ts";

/** A directory for this test only, with a job in `job.json`. */
export function directoryWith(t: ExecutionContext, job: object): string {
  const directory = startDirectory(t);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  return directory;
}

/** A job that takes a few seconds at most; its checkpoint directory is `name`. */
export function jobOf(name: string, samples = 3000): JobOptions {
  return {
    model: {
      kind: "dlrm",
      dense: 4,
      tables: [
        { name: "A", rows: 200, dim: 8 },
        { name: "B", rows: 200, dim: 8 },
      ],
      bottom: [16, 8],
      top: [16, 1],
    },
    data: { kind: "synthetic", samples, dense: 4, batchSize: 64, cache: "cache" },
    evaluation: { fraction: 0.1 },
    checkpoint: { directory: name, everySteps: 40 },
  };
}

/** Writes the same job in every kind of file; returns the files' names. */
export function writeEveryKind(directory: string): string[] {
  const files: Record<string, string> = {
    "a.yaml": stringify(jobOf("checkpoints-yaml")),
    "b.json": JSON.stringify(jobOf("checkpoints-json")),
    "c.mjs": moduleOf("export default", "checkpoints-mjs", ""),
    "d.ts": moduleOf("export const job: JobOptions =", "checkpoints-ts", ", type JobOptions"),
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
  return Object.keys(files);
}

function moduleOf(exported: string, checkpoints: string, imported: string): string {
  const { model: _model, data: _data, ...rest } = jobOf(checkpoints);
  return `import { dlrm, synthetic${imported} } from "osiris-train";
${exported} {
  model: dlrm({
    dense: 4,
    tables: ["A", "B"].map((name) => ({ name, rows: 200, dim: 8 })),
    bottom: [16, 8],
    top: [16, 1],
  }),
  data: synthetic({ samples: 3000, dense: 4, batchSize: 64, cache: "cache" }),
  ...${JSON.stringify(rest)},
};
`;
}
