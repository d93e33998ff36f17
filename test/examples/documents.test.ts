// The programs and jobs in the documents: each program compiles strictly, like a user's, against
// the declarations of the built package; each job is valid.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import test from "ava";
import { parse } from "yaml";
import { resolveServer } from "../../packages/serve/server/models/server-options.ts";
import { resolveJob } from "../../src/job/job.ts";
import { startDirectory } from "../data/data-files.ts";
import { packageTypes, testIf } from "../helpers/needs.ts";
import { listTree, textOf } from "../helpers/tree.ts";

/** The options of a job, or of a part of one, that this test reads. */
interface Job extends Readonly<Record<string, unknown>> {
  readonly sweep?: unknown;
  readonly data?: object;
  readonly model?: {
    readonly tasks?: unknown;
    readonly top?: readonly number[];
    readonly tables?: readonly { readonly name: string; readonly dim: number }[];
  };
}

interface Example {
  readonly language: string;
  readonly text: string;
  readonly place: string;
}

const documents = listTree().filter((path) =>
  /^(README|docs\/.*|packages\/\w+\/docs\/.*)\.md$/.test(path),
);
const examples = documents.flatMap((path) => examplesOf(path, textOf(path)));
const jobPlace = examples.find(({ text }) => text.includes("export const job:"))?.place;

/** The compiler options that docs/jobs.md tells a user's project to have. */
const compilerOptionsText =
  examples.find(({ text }) => text.includes('"esnext.disposable"'))?.text ?? "{}";

/** The examples of a document: its code blocks with a language. */
function examplesOf(path: string, text: string): Example[] {
  return [...text.matchAll(/^```(\w+)\n(.*?)^```/gms)].map((found) => {
    const [, language = "", code = ""] = found;
    const line = text.slice(0, found.index).split("\n").length;
    return { language, text: code, place: `${path}:${line}` };
  });
}

/** The compiler's messages about programs, which have file names; "" without an error. */
function compile(programs: ReadonlyMap<string, string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "osiris-test-"));
  const compilerOptions = {
    ...JSON.parse(compilerOptionsText),
    typeRoots: [resolve("node_modules/@types")],
    noEmit: true,
  };
  const files = [...programs.keys()];
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(resolve("."), join(folder, "node_modules/osiris-train"));
  for (const [name, text] of programs) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const compiler = [resolve("node_modules/typescript/bin/tsc"), "-p", folder, "--checkers", "1"];
  return new Promise((done) => {
    execFile(process.execPath, compiler, { cwd: folder }, (error, said) => {
      rmSync(folder, { recursive: true });
      done(error === null ? "" : said || error.message);
    });
  });
}

/** A program in CommonJS: types and values have the same names as in ES modules. */
const required = [
  'import osiris = require("osiris-train");',
  'import { type ClusterOptions, sgd } from "osiris-train";',
  "const options: ClusterOptions = { devices: 2 };",
  "export const cluster: Promise<osiris.Cluster> = osiris.Cluster.start(options);",
  "export const same: typeof sgd = osiris.sgd;\n",
].join("\n");

testIf(packageTypes).serial(
  "every program in the documents compiles strictly against the built package",
  async (t) => {
    t.timeout(600_000);
    const programs = new Map<string, string>();
    for (const { language, text, place } of examples) {
      if (language !== "ts" && language !== "js") continue;
      // The documents' other programs import the job of docs/jobs.md from `job.ts`.
      const name = place === jobPlace ? "job.ts" : `${place.replace(/\W/g, "-")}.ts`;
      programs.set(name, text);
    }
    t.true(programs.has("job.ts"));
    t.true(programs.size >= 9, `${programs.size} programs`);
    programs.set("required.cts", required);
    // One program that must not compile, to check that this test notices errors.
    programs.set("wrong.ts", 'import { dlrm } from "osiris-train";\ndlrm({ tables: 7 });\n');
    const complaints = (await compile(programs)).trimEnd().split("\n");
    t.deepEqual(
      complaints.filter((line) => !line.startsWith("wrong.ts") && !line.startsWith(" ")),
      [],
    );
    t.regex(complaints[0] ?? "", /^wrong\.ts.*error TS2322/);
  },
);

test.serial(
  "the job of docs/jobs.md trains, and the program of docs/models.md predicts with its model",
  async (t) => {
    t.timeout(600_000);
    const cwd = startDirectory(t);
    const lines = Array.from({ length: 2000 }, (_, i) => {
      const age = i % 7 === 0 ? "" : 20 + (i % 50);
      return `${Number(i % 3 === 0)},${age},${i % 90}.5,u${i % 40},i${i % 11}`;
    });
    const text = `clicked,age,price,user,item\n${lines.join("\n")}\n`;
    writeFileSync(join(cwd, "clicks.csv.gz"), gzipSync(text));
    const of = (document: string, language: string) =>
      examples.find((one) => one.place.startsWith(document) && one.language === language)?.text ??
      "";
    writeFileSync(join(cwd, "job.yaml"), of("docs/jobs.md", "yaml"));
    const front = pathToFileURL(resolve("dist/index.js")).href;
    const program = of("docs/models.md", "js").replace("osiris-train", front);
    writeFileSync(join(cwd, "predict.mjs"), program);
    const run = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd });
    await run(resolve("dist/cli/main.js"), "train", "job.yaml", "--devices", "1");
    const { stdout } = await run("predict.mjs");
    t.regex(stdout, /^\d+ sha256:\w{64} \S+\n\[ '0\.\d+', '0\.\d+', '0\.\d+' \]\n/);
    t.regex(stdout, /\n0\.\d+ 0\.\d+\n2000 0 0\.\d+\n$/);
  },
);

test("every job in the documents is valid, and every part of a job is valid within a job", (t) => {
  const isJob = ({ language, text }: Example) =>
    language === "yaml" && !/^# (tenants|serving)/.test(text);
  const jobs = examples
    .filter(isJob)
    .map(({ place, text }) => ({ place, job: parse(text) as Job }));
  const whole = jobs.find(({ place }) => place.startsWith("docs/jobs.md"))?.job ?? {};
  t.true(jobs.length >= 5, `${jobs.length} jobs`);
  for (const { place, job } of jobs) {
    if (job.sweep !== undefined) continue; // See test/job/job-table.test.ts.
    t.notThrows(() => resolveJob(completed(job, whole) as never), place);
  }
});

test("every file of model server options in the documents is valid", (t) => {
  const files = examples.filter(({ text }) => text.startsWith("# serving"));
  t.true(files.length > 0);
  for (const { place, text } of files) t.notThrows(() => resolveServer(parse(text)), place);
});

test("this test notices an invalid part of a job", (t) => {
  const whole = { data: { kind: "synthetic", samples: 10, batchSize: 2 }, model: { top: [1] } };
  const wrong = { evaluation: { everyStep: 5 } };
  t.throws(() => resolveJob(completed(wrong, whole) as never), { code: "INVALID_OPTION" });
});

/** Completes a part of a job: missing options, also those of the model, come from `whole`. */
function completed(job: Job, whole: Job): Job {
  if (job.model === undefined) return { ...whole, ...job };
  if (job.model.top !== undefined || job.model.tasks !== undefined) return job;
  const [table] = job.model.tables ?? [];
  const model = { ...whole.model, ...job.model, bottom: [table?.dim ?? 1] };
  return { ...whole, ...job, model, data: { ...whole.data, ...job.data } };
}
