// Small text files, and the first jobs made from them.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { JobOptions } from "../../../../internal.ts";
import { firstJob } from "../../first-job/write-first-job.ts";
import { assignRoles, profileColumns, type RoleOptions } from "../../index.ts";

/** Writes a text file; returns its first job. */
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

/** `count` lines, each made from its index. */
export const rowsOf = (count: number, row: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => row(i)).join("\n");
