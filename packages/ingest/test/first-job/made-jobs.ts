// Small files of text, and the first jobs that are made of them.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { JobOptions } from "../../../../internal.ts";
import { firstJob } from "../../first-job/write-first-job.ts";
import { assignRoles, profileColumns, type RoleOptions } from "../../index.ts";

/** A file of text, and its first job. */
export async function jobOf(
  directory: string,
  text: string,
  options: RoleOptions & { readonly positive?: string; readonly name?: string } = {},
): Promise<JobOptions> {
  const path = join(directory, options.name ?? "data.csv");
  writeFileSync(path, text);
  const data = await profileColumns([path]);
  return parse(firstJob(data, assignRoles(data, options), options)) as JobOptions;
}

/** Lines, by their places. */
export const rowsOf = (count: number, row: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => row(i)).join("\n");
