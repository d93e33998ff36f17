// Five small jobs for the planner's predictions: those of the tutorial, and one with wide layers.
// On real files where their directory exists, else on generated samples of the same shape.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { criteo } from "../../src/data/sources.ts";
import type { JobOptions } from "../../src/job/job.ts";

/** More epochs than any measurement trains. */
const epochs = 100_000;

export const smallJobNames = ["criteo", "avazu", "frappe", "movielens", "wide"] as const;

const genres =
  "unknown Action Adventure Animation Childrens Comedy Crime Documentary Drama Fantasy Noir " +
  "Horror Musical Mystery Romance SciFi Thriller War Western";

/** The jobs, with caches in `home`; `data`: the directory of the real files. */
export function smallJobs(home: string, data: string): Record<string, JobOptions> {
  const cache = join(home, "cache");
  const found = (file: string) => (existsSync(join(data, file)) ? join(data, file) : undefined);
  const checkpoint = { directory: join(home, "none") };
  const generated = (samples: number, dense: number, batchSize: number, idsPerBag = 1) =>
    ({ kind: "synthetic", samples, dense, batchSize, idsPerBag, cache, epochs }) as const;
  const tablesOf = (names: readonly string[], rows: number, dim: number) =>
    names.map((name) => ({ name, rows, dim }));
  const criteoOf = (file: string, batchSize: number) => {
    const path = found(`criteo/${file}`);
    if (path === undefined) return generated(10_000, 13, batchSize);
    return criteo.tsv(path, { batchSize, cache, epochs });
  };
  const avazu = [..."ABCDEFGHIJKL"];
  return {
    criteo: {
      model: {
        ...{ kind: "dlrm", dense: 13, tables: criteo.tables({ dim: 8, rows: 20_000 }) },
        ...{ bottom: [32, 8], top: [32, 1] },
      },
      data: criteoOf("criteo_kaggle_first10000_full39.tsv.gz", 128),
      checkpoint,
    },
    avazu: {
      model: { kind: "dlrm", dense: 0, tables: tablesOf(avazu, 20_000, 8), top: [32, 1] },
      data: generated(100_000, 0, 128),
      checkpoint,
    },
    frappe: { ...frappe(found("frappe/train.csv.gz"), cache), checkpoint },
    movielens: { ...movielens(data, home), checkpoint },
    wide: {
      model: {
        ...{ kind: "dlrm", dense: 13, tables: criteo.tables({ dim: 64, rows: 20_000 }) },
        ...{ bottom: [512, 256, 64], top: [512, 256, 1] },
      },
      data: criteoOf("criteo1tb_day0_first10000_full39.tsv.gz", 1024),
      checkpoint,
    },
  };
}

/** Frappe: ids, with a separate range for each column. */
function frappe(path: string | undefined, cache: string): Pick<JobOptions, "model" | "data"> {
  const columns: [string, number, number][] = [
    ["user", 957, 0],
    ["item", 4082, 957],
    ["daytime", 500, 5039],
    ["weather", 500, 5060],
    ["country", 500, 5069],
    ["city", 500, 5149],
  ];
  const tables = columns.map(([name, rows]) => ({ name, rows, dim: 16 }));
  const model = { kind: "dlrm", dense: 0, tables, top: [64, 1] } as const;
  const common = { batchSize: 1024, cache, epochs };
  if (path === undefined) {
    return { model, data: { kind: "synthetic", samples: 200_000, dense: 0, ...common } };
  }
  const categorical = columns.map(([column, , offset]) => {
    return { column, ids: "integer", offset } as const;
  });
  return { model, data: { kind: "csv", paths: [path], label: "label", categorical, ...common } };
}

/** MovieLens 100k with all genres of a movie in one bag. */
function movielens(data: string, home: string): Pick<JobOptions, "model" | "data"> {
  const names = ["user", "movie", "gender", "occupation"];
  const tables = [
    ...names.map((name) => ({ name, rows: 4000, dim: 8 })),
    { name: "genres", rows: 100, dim: 8, pooling: "mean" as const },
  ];
  const model = { kind: "dlrm", dense: 1, tables, bottom: [8], top: [32, 1] } as const;
  const common = { batchSize: 256, cache: join(home, "cache"), epochs };
  const folder = join(data, "session");
  if (!existsSync(join(folder, "ml100k_u.data.gz"))) {
    const perFeature = { genres: { idsPerBag: { min: 1, max: 4 } } };
    return {
      model,
      data: { kind: "synthetic", samples: 100_000, dense: 1, perFeature, ...common },
    };
  }
  const categorical = [...names, { column: "genres", separator: "|" }];
  const paths = [ratingsAsCsv(folder, home)];
  return {
    model,
    data: { kind: "csv", paths, label: "liked", dense: ["age"], categorical, ...common },
  };
}

/** The ratings as a CSV in `home`: a rating of 4 or 5 is a like. */
function ratingsAsCsv(folder: string, home: string): string {
  const linesOf = (file: string) =>
    gunzipSync(readFileSync(join(folder, file)))
      .toString("latin1")
      .trim()
      .split("\n");
  const fieldsBy = (file: string) =>
    new Map(
      linesOf(file)
        .map((line) => line.split("|"))
        .map((fields) => [fields[0], fields]),
    );
  const [users, movies] = [fieldsBy("ml100k_u.user.gz"), fieldsBy("ml100k_u.item.gz")];
  const rows = linesOf("ml100k_u.data.gz").map((line) => {
    const [user = "", movie = "", rating = ""] = line.split("\t");
    const [, age, gender, occupation] = users.get(user) ?? [];
    const flags = movies.get(movie)?.slice(5) ?? [];
    const own = genres.split(" ").filter((_, genre) => flags[genre] === "1");
    const fields = [user, movie, age, gender, occupation, own.join("|")];
    return `${Number(rating) >= 4 ? 1 : 0},${fields.join(",")}`;
  });
  const csv = join(home, "ratings.csv");
  writeFileSync(csv, `liked,user,movie,age,gender,occupation,genres\n${rows.join("\n")}\n`);
  return csv;
}
