// osiris init: writes a first job file for the user's data.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import {
  type CommonOptions,
  collected,
  integerFrom,
  withCommon,
} from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { count, plural } from "../../../cli/support/format.ts";
import { checkLines } from "../../../cli/views/check-lines.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { type Check, checkJob, type JobOptions, temporaryHome } from "../../../internal.ts";
import { knownLabel, labelCandidates } from "../first-job/column-roles.ts";
import { firstJobText } from "../first-job/write-first-job.ts";
import { firstProgramText } from "../first-job/write-first-program.ts";
import {
  assignRoles,
  type DataProfile,
  type FirstJob,
  firstJobOf,
  profileColumns,
} from "../index.ts";

interface InitOptions extends CommonOptions {
  readonly out: string;
  readonly label?: string;
  readonly positive?: string;
  readonly time?: string;
  readonly ignore?: readonly string[];
  readonly feature?: readonly string[];
  readonly delimiter?: string;
  readonly rows: number;
  readonly force?: boolean;
}

export function addInit(program: Command): void {
  const command = program
    .command("init")
    .argument(
      "<data...>",
      "files of .csv, .txt, .tsv, .jsonl (perhaps .gz or .zst), .parquet or .arrow",
    )
    .description("profile data files, and write a first job that trains on them")
    .option(
      "-o, --out <FILE>",
      "job file to write; a .ts file is a program that trains the job",
      "job.yaml",
    )
    .option("--label <COLUMN>", "the column to predict")
    .option("--positive <VALUE>", "the value of the label that counts as positive")
    .option("--time <COLUMN>", "column with the time, by which the latest tenth is held out")
    .option("--ignore <COLUMN>", "a column to leave out; may be repeated", collected)
    .option(
      "--feature <COLUMN>",
      "a column to use as a feature even if `init` would ignore it; may be repeated",
      collected,
    )
    .option(
      "--delimiter <CHARACTER>",
      "separator of fields (default: detected from the header)",
      tabbed,
    )
    .option(
      "--rows <COUNT>",
      "number of first rows to profile",
      integerFrom(100, 10_000_000),
      50_000,
    )
    .option("--force", "overwrite an existing job file");
  withCommon(command, [
    "init clicks.csv",
    "init logs/*.jsonl.gz --label clicked --ignore request_id -o clicks.yaml",
    "init clicks.csv --out job.ts",
  ]).action(async (paths: readonly string[], options: InitOptions) => {
    process.exitCode = await runTask(
      "init",
      async ({ signal }) => {
        const { rows: rowsMax, delimiter } = options;
        return writeJob(await profileColumns(paths, { rowsMax, delimiter }, signal), options);
      },
      (code) => code,
      count,
    );
  });
}

/** A character as shells pass it: `\\t` is a tab. */
function tabbed(text: string): string {
  return text === "\\t" || text === "tab" ? "\t" : text;
}

async function writeJob(data: DataProfile, options: InitOptions): Promise<number> {
  const { out, time, positive, ignore: ignored, feature: features, json, force = false } = options;
  if (!force && existsSync(out)) {
    console.error(`${out} exists already: name another file with \`-o\`, or use \`--force\``);
    return exitCodes.wrong;
  }
  const label = knownLabel(data, options) ?? (await askedLabel(data));
  const roles = assignRoles(data, { label, positive, time, ignored, features });
  const isProgram = /\.m?ts$/.test(out);
  const make = (vocabularies: string) =>
    firstJobOf(data, roles, { positive, vocabularies, isTaken: existsSync });
  const made = make(`${out.replace(/\.\w+$/, "")}.vocabularies`);
  const checks = await triedOut(make);
  const columns = roles.map(({ profile, role, why }) => ({ column: profile.name, role, why }));
  const rowsRead = `${data.isWhole ? "" : "the first "}${count(data.rows)} rows`;
  const isFit = checks.every(({ state }) => state !== "fail");
  if (isFit) {
    writeVocabularies(made);
    writeFileSync(out, (isProgram ? firstProgramText : firstJobText)(data, roles, made));
  }
  if (json === true) {
    const notes = checks.filter(({ state }) => state !== "ok");
    const { rows, bad } = data;
    console.log(
      JSON.stringify({ report: "init", job: out, rows, bad, columns, checks: notes, isFit }),
    );
    return isFit ? exitCodes.done : exitCodes.wrong;
  }
  console.log(`${out}: ${plural(columns.length, "column")} of ${rowsRead}`);
  const width = Math.max(...columns.map(({ column }) => column.length));
  for (const { column, role, why } of columns) {
    console.log(`  ${column.padEnd(width)}  ${role.padEnd(11)}  ${why}`);
  }
  for (const line of notesOf(data, made, columns)) console.log(line);
  for (const line of checkLines(checks.filter(({ state }) => state !== "ok"))) console.log(line);
  if (!isFit) {
    console.log(
      `Training would refuse this job, so ${out} was not written: correct the failed checks above`,
    );
    return exitCodes.wrong;
  }
  console.log(`Train it with: ${isProgram ? compiled(out) : `osiris train ${out}`}`);
  return exitCodes.done;
}

/** The checks of a dry run of the job, with its vocabularies in a temporary directory. */
async function triedOut(make: (vocabularies: string) => FirstJob): Promise<readonly Check[]> {
  using home = temporaryHome("osiris-init-");
  const made = make(home.path);
  writeVocabularies(made);
  // The type of a first job is that of its text; `checkJob` validates it against the schema.
  return (await checkJob(made.job as unknown as JobOptions)).checks;
}

function writeVocabularies({ vocabularies }: FirstJob): void {
  for (const { path, bytes } of vocabularies) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }
}

/** Notes on the job for people: bad lines, held-out samples, GAUC. */
function notesOf(
  data: DataProfile,
  { job }: FirstJob,
  columns: readonly { readonly column: string; readonly role: string }[],
): string[] {
  const { split } = job.evaluation as { readonly split?: { readonly column: string } };
  const held =
    split === undefined ? "a tenth at random" : `the latest tenth by \`${split.column}\``;
  const user = columns.find(({ column }) =>
    /^(user|visitor|member|customer)(_?id)?$/i.test(column),
  );
  return [
    ...(data.bad > 0
      ? [`Bad lines: ${count(data.bad)}, left out; the first: ${data.firstBad}`]
      : []),
    `Held out: ${held}; the best model by it is kept, and training ends when it no longer improves`,
    ...(user === undefined
      ? []
      : [`GAUC, the AUC within each user: \`data.group: ${user.column}\``]),
  ];
}

/** The shell command that compiles and runs a program, in a package whose `type` is `module`. */
function compiled(out: string): string {
  // From version 6 on, the compiler refuses file names beside a tsconfig.json without this flag.
  const alone = existsSync("tsconfig.json") && compilerMajor() >= 6 ? "--ignoreConfig " : "";
  const library = "--lib es2023,esnext.disposable --types node --skipLibCheck";
  const options = `${alone}--module nodenext --target es2022 ${library}`;
  return `npx tsc ${options} ${out} && node ${out.replace(/ts$/, "js")}`;
}

/**
 * Major version of the installed TypeScript compiler; infinite without one, as `npx` then fetches
 * the newest.
 */
function compilerMajor(): number {
  try {
    const text = readFileSync(join("node_modules", "typescript", "package.json"), "utf8");
    return Number.parseInt((JSON.parse(text) as { version: string }).version, 10);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Asks the user for the label; undefined without a terminal or an answer. */
async function askedLabel(data: DataProfile): Promise<string | undefined> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return undefined;
  const candidates = labelCandidates(data);
  const from = candidates.length > 0 ? candidates : data.columns.map(({ name }) => name);
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await prompt.question(`Which column is to be predicted (${from.join(", ")})? `);
    return answer.trim() === "" ? undefined : answer.trim();
  } finally {
    prompt.close();
  }
}
