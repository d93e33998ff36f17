// Custom models for tests: modules in a directory that is removed with the test.

import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { JobOptions } from "../../../index.ts";

/** The model of examples/two-towers.ts. */
export const twoTowers = {
  kind: "custom",
  path: resolve("examples/two-towers.ts"),
  options: { user: ["a", "b"], item: ["c"], widths: [16, 8], dropout: 0.1 },
  dense: 4,
  tables: [
    { name: "a", rows: 200, dim: 8 },
    { name: "b", rows: 200, dim: 4 },
    { name: "c", rows: 200, dim: 12 },
  ],
} as const satisfies JobOptions["model"];

/** Writes a module with the usual imports before `code`; returns its path. */
export function moduleOf(directory: string, code: string, name = "model.ts"): string {
  const path = join(directory, name);
  const imports = 'import { blocks, defineModel } from "osiris-train";\n';
  writeFileSync(path, `${imports}${code}\n`);
  return path;
}
