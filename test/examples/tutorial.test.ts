// docs/tutorial.md as it stands: every job of the page goes from `train` to `predict` by the page's
// own commands, on real data where there are some.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { RandomStream } from "../../src/ports/random.ts";
import { directoryOf } from "../cli/jobs.ts";
import { dataFile, dataHome, testAll, testIf } from "../helpers/needs.ts";
import { runCli } from "../helpers/processes/cli.ts";
import { textOf } from "../helpers/tree.ts";

const page = textOf("docs/tutorial.md");
const cli = join(import.meta.dirname, "..", "..", "cli", "main.js");

/** Lines of a file for training, and lines for the day after, both with the header. */
interface Days {
  readonly header: readonly string[];
  readonly lines: readonly string[];
}

/** The jobs of the page by name. */
const jobs = new Map(
  [...page.matchAll(/^```yaml\n(name: ([^\n]+)\n.*?)^```/gms)].map(([, text = "", name = ""]) => {
    return [name, text];
  }),
);

/** The commands of the page that work on `clicks`. */
const commands = [...page.matchAll(/^```sh\n(.*?)^```/gms)]
  .flatMap(([, block = ""]) => block.trimEnd().split("\n"))
  .map((line) =>
    line
      .replace(/ +#.*$/, "")
      .split(" ")
      .slice(1),
  );

function unpacked(file: string, encoding: BufferEncoding = "utf8"): string[] {
  return gunzipSync(readFileSync(join(dataHome, file)))
    .toString(encoding)
    .trimEnd()
    .split("\n");
}

function withHeader([header = "", ...lines]: string[]): Days {
  return { header: [header], lines };
}

/** Clicks as the page has them generated. */
function clicks(home: string): Days {
  const [, block = ""] = /^```bash\n(.*?)^```/ms.exec(page) ?? [];
  const osiris = `osiris() { "${process.execPath}" "${cli}" "$@"; }`;
  execFileSync("sh", ["-ec", `${osiris}\n${block}`], { cwd: home });
  const linesOf = (name: string) => readFileSync(join(home, name), "utf8").trimEnd().split("\n");
  const [header = "", ...first] = linesOf("clicks.csv");
  return { header: [header], lines: [...first, ...linesOf("tomorrow.csv").slice(1)] };
}

/** Lines of Avazu's shape: the file itself is not to be had here. */
function avazu(): Days {
  const stream = new RandomStream(4, 0, 0);
  const names =
    "C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,device_model,device_type,C14,C17,C21";
  const lines = Array.from({ length: 3000 }, (_, id) => {
    const values = names.split(",").map((_, i) => stream.below(5 + 40 * i).toString(16));
    return `${1e9 + id},${stream.below(100) < 17 ? 1 : 0},14102100,${values.join(",")}`;
  });
  return { header: [`id,click,hour,${names}`], lines };
}

/** MovieLens 100k in the order of time: a rating of 4 or more is a like. */
function movielens(): Days {
  const genres =
    "unknown Action Adventure Animation Childrens Comedy Crime Documentary Drama Fantasy Noir " +
    "Horror Musical Mystery Romance SciFi Thriller War Western";
  const fieldsBy = (lines: string[]) =>
    new Map(lines.map((line) => line.split("|")).map((fields) => [fields[0], fields]));
  const users = fieldsBy(unpacked("session/ml100k_u.user.gz"));
  const movies = fieldsBy(unpacked("session/ml100k_u.item.gz", "latin1"));
  const lines = unpacked("session/ml100k_u.data.gz")
    .map((line) => line.split("\t"))
    .sort((one, other) => Number(one[3]) - Number(other[3]))
    .slice(0, 20_000)
    .map(([user, movie, rating, time]) => {
      const [, age, gender, occupation] = users.get(user) ?? [];
      const flags = movies.get(movie)?.slice(5) ?? [];
      const own = genres.split(" ").filter((_, i) => flags[i] === "1");
      const liked = Number(rating) >= 4 ? 1 : 0;
      return [liked, user, movie, age, gender, occupation, own.join("|"), time];
    })
    .map((fields) => fields.join(","));
  return { header: ["liked,user,movie,age,gender,occupation,genres,time"], lines };
}

function frappe(home: string): Days {
  const [header = "", ...lines] = unpacked("frappe/train.csv.gz");
  const valid = unpacked("frappe/valid.csv.gz").slice(0, 5001);
  writeFileSync(join(home, "frappe-valid.csv"), `${valid.join("\n")}\n`);
  return { header: [header], lines: lines.slice(0, 30_000) };
}

/** Each job's data: its file, what it is made of, and an AUC that a model must reach. */
const shapes: Readonly<
  Record<string, { file: string; needs?: string; days: (home: string) => Days; auc: number }>
> = {
  clicks: { file: "clicks.csv", days: clicks, auc: 0.6 },
  criteo: {
    file: "criteo.tsv",
    needs: "criteo/criteo_kaggle_first10000_full39.tsv.gz",
    days: () => ({ header: [], lines: unpacked("criteo/criteo_kaggle_first10000_full39.tsv.gz") }),
    auc: 0.65,
  },
  "criteo-csv": {
    file: "criteo.csv",
    needs: "criteo/criteo_kaggle_4584_full39.csv.gz",
    days: () => withHeader(unpacked("criteo/criteo_kaggle_4584_full39.csv.gz")),
    auc: 0.6,
  },
  avazu: { file: "avazu.csv", days: avazu, auc: 0 },
  frappe: { file: "frappe.csv", needs: "frappe/train.csv.gz", days: frappe, auc: 0.75 },
  movielens: {
    file: "movielens.csv",
    needs: "session/ml100k_u.data.gz",
    days: movielens,
    auc: 0.6,
  },
};

/** Runs one command of the page for a job; returns what it printed. */
async function run(
  t: ExecutionContext,
  command: readonly string[],
  { name, home }: { readonly name: string; readonly home: string },
) {
  const args = command.map((word) => word.replaceAll("clicks", name));
  const { code, stdout, stderr } = await runCli(args, home);
  t.is(code, 0, `${args.join(" ")}: ${stderr}${stdout}`);
  return stdout;
}

test("the page has six kinds of data, and commands from a check to a prediction", (t) => {
  t.deepEqual([...jobs.keys()].sort(), Object.keys(shapes).sort());
  t.deepEqual(
    commands.map(([command]) => command),
    ["train", "train", "eval", "predict", "train"],
  );
  const [, shown = ""] = /^```\n(clicked,.*)$/m.exec(page) ?? [];
  t.is(
    shown,
    clicks(directoryOf(t)).header[0] ?? "",
    "the file that is shown is the one generated",
  );
});

for (const [name, { file, needs, days, auc }] of Object.entries(shapes)) {
  // One kind on every change; test/examples/documents.test.ts checks the jobs of the others.
  const isUsual = name === "clicks";
  const all = [...(isUsual ? [] : [testAll]), ...(needs === undefined ? [] : [dataFile(needs)])];
  testIf(...all).serial(
    `${name}: from train to predict, and on to the next day, by the page alone`,
    async (t) => {
      const home = directoryOf(t);
      const { header, lines } = days(home);
      const split = Math.floor(lines.length * 0.9);
      const write = (path: string, some: readonly string[]) =>
        writeFileSync(join(home, path), `${[...header, ...some].join("\n")}\n`);
      write(file, lines.slice(0, split));
      write("tomorrow.csv", lines.slice(split));
      writeFileSync(join(home, `${name}.yaml`), jobs.get(name) ?? "");
      for (const command of commands) {
        const said = await run(t, command, { name, home });
        if (command.includes("--dry-run")) t.regex(said, /The job fits; nothing was started/);
        if (command[0] !== "eval") continue;
        const found = Number(/^AUC +([\d.]+)/m.exec(said)?.[1]);
        t.true(found >= auc, `${name}: AUC ${found}`);
      }
      const scored = readFileSync(join(home, "scored.csv"), "latin1").trimEnd().split("\n");
      t.is(scored.length, lines.length - split + header.length);
      const last = (line: string) =>
        Number(line.slice(Math.max(...[",", "\t"].map((one) => line.lastIndexOf(one))) + 1));
      for (const line of scored.slice(header.length)) {
        t.true(last(line) > 0 && last(line) < 1, line);
      }
    },
  );
}
