// A small CSV of clicks, for jobs on files: its contents follow from a seed.

import { writeFileSync } from "node:fs";
import type { JobOptions } from "../../../index.ts";
import { RandomStream } from "../../../src/ports/random.ts";

/** Writes `lines` lines of clicks; the same seed gives the same file. Returns its path. */
export function writeClicks(path: string, lines: number, seed: number): string {
  const stream = new RandomStream(seed, 0, 0);
  const rows = Array.from({ length: lines }, () => {
    const [user, item, price] = [stream.below(50), stream.below(20), stream.below(100)];
    const isClicked = stream.below(60) < 10 + (user % 5) * 5 + (item % 3) * 5;
    return `${isClicked ? 1 : 0},${user},${item},${price}`;
  });
  writeFileSync(path, ["clicked,user,item,price", ...rows, ""].join("\n"));
  return path;
}

/** Warnings without that of the small tables of `clicksModel`, in which users share rows. */
export function otherWarnings<One extends { readonly code: string }>(all: readonly One[]): One[] {
  return all.filter(({ code }) => code !== "VALUES_SHARE_ROWS");
}

/** The model of these clicks. */
export const clicksModel: JobOptions["model"] = {
  kind: "dlrm",
  dense: 1,
  tables: ["user", "item"].map((name) => ({ name, rows: 100, dim: 4 })),
  bottom: [4],
  top: [8, 1],
};

/** The data section of a job on these files; `cache`: their cache directory. */
export function clicksData(paths: readonly string[], cache: string) {
  return {
    kind: "csv" as const,
    paths: [...paths],
    label: "clicked",
    dense: [{ column: "price", log: true }],
    categorical: ["user", "item"],
    batchSize: 50,
    cache,
  };
}
