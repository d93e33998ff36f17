// Five small jobs for the planner's predictions: on real files where their directory is there, else
// on generated samples of the same shape.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { criteo } from "../../src/data/sources.ts";
import type { JobOptions } from "../../src/job/job.ts";

/** What trains all of them. */
const optimizer = { dense: { kind: "adagrad" }, sparse: { kind: "rowWiseAdagrad" } } as const;
/** More epochs than are ever trained. */
const epochs = 100_000;

export const smallJobNames = ["criteo", "frappe", "movielens", "clicks", "bags"] as const;

/** The jobs, with caches in `home`; `data`: the directory of the real files. */
export function smallJobs(home: string, data: string): Record<string, JobOptions> {
  const cache = join(home, "cache");
  const found = (file: string) => (existsSync(join(data, file)) ? join(data, file) : undefined);
  const checkpoint = { directory: join(home, "none") };
  const generated = (samples: number, dense: number, batchSize: number, idsPerBag = 1) =>
    ({ kind: "synthetic", samples, dense, batchSize, idsPerBag, cache, epochs }) as const;
  const tablesOf = (names: readonly string[], rows: number, dim: number) =>
    names.map((name) => ({ name, rows, dim }));
  const text = { kind: "csv", label: "label", cache, epochs } as const;
  const idsOf = (columns: readonly string[]) =>
    columns.map((column) => ({ column, ids: "integer" as const }));

  const criteoFile = found("criteo/criteo_kaggle_first10000_full39.tsv.gz");
  const frappeFile = found("frappe/train.csv.gz");
  const context = ["daytime", "weekday", "isweekend", "homework", "cost", "weather"];
  const frappe = ["user", "item", ...context, "country", "city"];
  const ratings = found("session/ml100k_u.data.gz");
  return {
    criteo: {
      model: {
        ...{ kind: "dlrm", dense: 13, tables: criteo.tables({ dim: 16, rows: 10_000 }) },
        ...{ bottom: [64, 32, 16], top: [64, 32, 1] },
      },
      data:
        criteoFile === undefined
          ? generated(10_000, 13, 256)
          : criteo.tsv(criteoFile, { batchSize: 256, cache, epochs }),
      ...{ optimizer, checkpoint },
    },
    frappe: {
      model: { kind: "dlrm", dense: 0, tables: tablesOf(frappe, 5400, 16), top: [64, 1] },
      data:
        frappeFile === undefined
          ? generated(200_000, 0, 512)
          : { ...text, paths: [frappeFile], categorical: idsOf(frappe), batchSize: 512 },
      ...{ optimizer, checkpoint },
    },
    movielens: {
      model: { kind: "dlrm", tables: tablesOf(["user", "item"], 2000, 32), top: [64, 32, 1] },
      data:
        ratings === undefined
          ? generated(100_000, 0, 256)
          : {
              ...{ ...text, paths: [ratingsAsCsv(ratings, home)], batchSize: 256 },
              categorical: idsOf(["user", "item"]),
            },
      ...{ optimizer, checkpoint },
    },
    clicks: {
      model: {
        ...{ kind: "dlrm", dense: 13, tables: tablesOf(["user", "item", "page"], 20_000, 16) },
        ...{ bottom: [64, 16], top: [64, 1] },
      },
      data: generated(100_000, 13, 512),
      ...{ optimizer, checkpoint },
    },
    bags: {
      model: {
        ...{ kind: "dlrm", dense: 8, tables: tablesOf([..."abcdefgh"], 50_000, 64) },
        ...{ bottom: [256, 64], top: [256, 128, 1] },
      },
      data: generated(20_000, 8, 1024, 10),
      ...{ optimizer, checkpoint },
    },
  };
}

/** MovieLens as a CSV in `home`: a rating of 4 or 5 is a click. */
function ratingsAsCsv(path: string, home: string): string {
  const lines = gunzipSync(readFileSync(path)).toString().trim().split("\n");
  const rows = lines.map((line) => {
    const [user = "", item = "", rating = ""] = line.split("\t");
    return `${Number(rating) >= 4 ? 1 : 0},${user},${item}`;
  });
  const csv = join(home, "ratings.csv");
  writeFileSync(csv, `label,user,item\n${rows.join("\n")}\n`);
  return csv;
}
