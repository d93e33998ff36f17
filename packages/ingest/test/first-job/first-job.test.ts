// First jobs for real data of ten shapes, each of which trains unchanged; the roles of ambiguous
// columns; and data for which no job can be made.

import { mkdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { tableFromArrays, tableToIPC } from "apache-arrow";
import test, { type ExecutionContext } from "ava";
import { parse } from "yaml";
import { InputUnusableError, InvalidOptionError, type JobOptions } from "../../../../internal.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { dataFile, dataHome, testIf } from "../../../../test/helpers/needs.ts";
import { thinned } from "../../../../test/helpers/thinned.ts";
import { firstJob } from "../../first-job/write-first-job.ts";
import {
  assignRoles,
  type ColumnRole,
  profileColumns,
  type RoleOptions,
  writeWarehouse,
} from "../../index.ts";
import { jobOf, rowsOf } from "./made-jobs.ts";

/** The first `most` lines of a packed file. */
async function linesOf(name: string, most: number): Promise<string[]> {
  const bytes = gunzipSync(await readFile(join(dataHome, name)));
  return bytes.toString("latin1").trimEnd().split("\n").slice(0, most);
}

interface Rating {
  readonly user: string;
  readonly film: string;
  readonly rating: number;
  readonly at: number;
  readonly genres: readonly string[];
}

async function ratings(most: number): Promise<Rating[]> {
  const films = new Map(
    (await linesOf("session/ml100k_u.item.gz", 2000)).map((line) => {
      const fields = line.split("|");
      const genres = fields.slice(5).flatMap((is, i) => (is.trim() === "1" ? [`genre${i}`] : []));
      return [fields[0] ?? "", genres];
    }),
  );
  return (await linesOf("session/ml100k_u.data.gz", most)).map((line) => {
    const [user = "", film = "", rating = "", at = ""] = line.trim().split("\t");
    return { user, film, rating: Number(rating), at: Number(at), genres: films.get(film) ?? [] };
  });
}

interface Shape {
  readonly roles?: RoleOptions;
  /** Writes the files; returns the path for `osiris init`. */
  make(directory: string): Promise<string>;
  /** The roles that some columns must get. */
  readonly expected: Readonly<Record<string, ColumnRole>>;
}

const asIt = (name: string) => async () => join(dataHome, name);
const isoOf = ({ at }: Rating) => new Date(1000 * at).toISOString();

/** Ratings as JSON, with their genres as a list. */
async function likes(directory: string): Promise<string> {
  const path = join(directory, "likes.jsonl");
  const rows = (await ratings(3000)).map((one) => {
    const { user, film, genres, rating } = one;
    return JSON.stringify({ liked: rating >= 4, user: `u${user}`, film, genres, at: isoOf(one) });
  });
  writeFileSync(path, `${rows.join("\n")}\n`);
  return path;
}

const shapes: Readonly<Record<string, Shape>> = {
  "packed CSV of ids alone": {
    make: asIt("frappe/test.csv.gz"),
    expected: { label: "label", user: "categorical", item: "categorical", weather: "categorical" },
  },
  "Criteo's logs, without a header": {
    make: asIt("criteo/criteo_kaggle_first10000_full39.tsv.gz"),
    expected: { label: "label", I5: "dense", C3: "categorical" },
  },
  "the same with a header, as CSV": {
    make: asIt("criteo/criteo_kaggle_4584_full39.csv.gz"),
    expected: { Label: "label", Id: "ignored", I5: "dense", C3: "categorical" },
  },
  "impressions with times and a column without a name": {
    make: asIt("session/obd_random_men.csv.gz"),
    expected: {
      ...{
        click: "label",
        timestamp: "time",
        item_id: "categorical",
        user_feature_0: "categorical",
      },
      ...{ propensity_score: "ignored", "": "ignored" },
    },
  },
  "TSV with a label that is a number": {
    roles: { label: "rating" },
    async make(directory) {
      const path = join(directory, "ratings.tsv");
      const rows = (await ratings(3000)).map(({ user, film, rating, at }) =>
        [user, film, rating, at].join("\t"),
      );
      writeFileSync(path, ["user_id\tfilm_id\trating\ttime", ...rows, ""].join("\n"));
      return path;
    },
    expected: { user_id: "categorical", film_id: "categorical", rating: "label", time: "time" },
  },
  "JSON Lines with a list and ISO times": {
    make: likes,
    expected: { liked: "label", user: "categorical", genres: "categorical", at: "time" },
  },
  "packed JSON Lines with weights by id": {
    async make(directory) {
      const path = join(directory, "weights.jsonl.gz");
      const rows = (await ratings(2000)).map(({ user, genres, rating }) => {
        const weights = Object.fromEntries(genres.map((genre, i) => [genre, 1 / (i + 1)]));
        return JSON.stringify({ user: `u${user}`, genres: weights, label: rating >= 4 ? 1 : 0 });
      });
      writeFileSync(path, gzipSync(rows.join("\n")));
      return path;
    },
    expected: { user: "categorical", genres: "categorical", label: "label" },
  },
  "CSV with ids in one text, and yes and no": {
    async make(directory) {
      const path = join(directory, "genres.csv");
      const rows = (await ratings(3000)).map(({ user, genres, rating, at }) =>
        [`u${user}`, genres.join("|"), at / 7, rating >= 4 ? "yes" : "no"].join(","),
      );
      writeFileSync(path, ["visitor,genres,weight,liked", ...rows, ""].join("\n"));
      return path;
    },
    expected: { visitor: "categorical", genres: "categorical", weight: "ignored", liked: "label" },
  },
  "a table of Parquet files, with lists": {
    async make(directory) {
      const out = join(directory, "table");
      await writeWarehouse([await likes(directory)], out, { groupRows: 1024 });
      return out;
    },
    expected: { liked: "label", user: "categorical", genres: "categorical", at: "time" },
  },
  "an Arrow file": {
    async make(directory) {
      const rows = (await linesOf("frappe/test.csv.gz", 3001)).slice(1);
      const columns = ["label", "user", "item"] as const;
      const values = columns.map((_, i) =>
        Int32Array.from(rows, (row) => Number(row.split(",")[i])),
      );
      const named = Object.fromEntries(
        columns.map((name, i) => [name, values[i] ?? new Int32Array()]),
      );
      const path = join(directory, "clicks.arrow");
      writeFileSync(path, tableToIPC(tableFromArrays<Record<string, Int32Array>>(named), "file"));
      return path;
    },
    expected: { label: "label", user: "categorical", item: "categorical" },
  },
};

/** The first job of a shape; checks that the columns get the expected roles. */
async function jobOfShape(
  t: ExecutionContext,
  directory: string,
  { title, roles, make, expected }: Shape & { readonly title: string },
): Promise<JobOptions> {
  const data = await profileColumns([await make(directory)]);
  const assigned = assignRoles(data, roles);
  const found = new Map(assigned.map(({ profile, role }) => [profile.name, role]));
  for (const [name, role] of Object.entries(expected)) {
    t.is(found.get(name), role, `${title}: ${name}`);
  }
  return parse(firstJob(data, assigned)) as JobOptions;
}

const realFiles = ["frappe/test.csv.gz", "session/ml100k_u.data.gz"].map(dataFile);

testIf(...realFiles)("first jobs of real files with different shapes are valid", async (t) => {
  const home = startDirectory(t);
  const some = thinned("shapes of a first job", [...Object.entries(shapes).entries()]);
  for (const [i, [title, shape]] of some) {
    const directory = join(home, `${i}`);
    mkdirSync(directory);
    const job = await jobOfShape(t, directory, { title, ...shape });
    t.notThrows(() => resolveJob(job), title);
  }
});

test("columns get roles by their values", async (t) => {
  const directory = startDirectory(t);
  const text = rowsOf(400, (i) =>
    [i % 2, i, 7, i % 9, ((i * i) % 400) + 1000, i / 3, `t${i % 50}`, "2026-01-02", ""].join(","),
  );
  const header = "click,row,same,few,filled,price,word,day,empty";
  writeFileSync(join(directory, "a.csv"), `${header}\n${text}\n`);
  const data = await profileColumns([join(directory, "a.csv")]);
  t.like(data, { kind: "csv", rows: 400, isWhole: true });
  const roles = assignRoles(data).map(({ profile, role }) => `${profile.name} ${role}`);
  t.deepEqual(roles, [
    ...["click label", "row ignored", "same ignored", "few categorical", "filled dense"],
    ...["price dense", "word categorical", "day ignored", "empty ignored"],
  ]);
  const named = assignRoles(data, { time: "row", ignored: ["word"] });
  t.deepEqual(
    named.filter(({ why }) => why === "as asked").map(({ profile }) => profile.name),
    ["row", "word"],
  );
});

test("a sample of the data estimates the number of distinct values in all of it", async (t) => {
  const directory = startDirectory(t);
  const path = join(directory, "a.csv");
  // 2,000 ids, each about equally frequent.
  const stream = new RandomStream(1, purposes.sampleOrder);
  writeFileSync(path, `label,id\n${rowsOf(20_000, (i) => `${i % 2},u${stream.below(2000)}`)}\n`);
  const part = await profileColumns([path], { rowsMax: 1500 });
  t.like(part, { rows: 1500, isWhole: false });
  const [, ids] = part.columns;
  t.true((ids?.distinct ?? 0) > 1500 && (ids?.distinct ?? 0) < 3000, `${ids?.distinct}`);
  const whole = await profileColumns([path]);
  t.is(whole.columns[1]?.distinct, 2000);
});

test("labels: two classes by name, numbers, and a positive class that must be named", async (t) => {
  const directory = startDirectory(t);
  const labelled = (values: readonly string[], name = "label") =>
    `${name},item_id\n${rowsOf(300, (i) => `${values[i % values.length]},${i % 7}`)}\n`;
  t.is((await jobOf(directory, labelled(["0", "1"]))).loss, undefined);
  t.like(await jobOf(directory, labelled(["no", "yes"])), { data: { positive: "yes" } });
  t.like(await jobOf(directory, labelled(["1", "2", "3.5"])), { loss: { kind: "mse" } });
  t.like(await jobOf(directory, labelled(["a", "b"]), { positive: "b" }), {
    data: { positive: "b" },
  });
  const refused = (text: string, options: Parameters<typeof jobOf>[2], why: RegExp) =>
    t.throwsAsync(jobOf(directory, text, options), { message: why });
  await refused(labelled(["a", "b"]), {}, /has the values a, b: say with `--positive` which/);
  await refused(labelled(["a", "b"]), { positive: "c" }, /`positive` to be one of the values of/);
  await refused(labelled(["0", "", "1"]), {}, /`label` of .*data.csv has no value in 100 rows/);
});

test("data that allow no first job are refused, with a remedy in the message", async (t) => {
  const directory = startDirectory(t);
  const refused = async (text: string, options: Parameters<typeof jobOf>[2], why: RegExp) => {
    const error = await t.throwsAsync(jobOf(directory, text, options));
    t.true(error instanceof InputUnusableError || error instanceof InvalidOptionError);
    t.regex(error?.message ?? "", why);
  };
  const rows = rowsOf(300, (i) => `${i % 2},${i % 2},${i % 5}`);
  await refused(`a,b,c\n${rows}\n`, {}, /which column of .* \(a, b\): name it with `--label`/);
  await refused(`a,b,c\n${rows}\n`, { label: "d" }, /`label` to be one of the columns a, b, c/);
  await refused(`a,b,c\n${rows}\n`, { label: "a", ignored: ["x"] }, /`ignore` to be one of/);
  await refused(`1,0,5\n${rows}\n`, {}, /looks like a row \(1, 0, 5\), expected the names/);
  await refused("a,b,c\n", {}, /Expected rows in .*data.csv, got none/);
  await refused(`label\n${rowsOf(200, (i) => `${i % 2}`)}\n`, {}, /a column of .* beside `label`/);
  await refused("x", { name: "data.xyz" }, /Expected a file ending in \.csv/);
});
