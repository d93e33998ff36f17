// osiris init: a first job file for somebody's data.

import { existsSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import {
  assignRoles,
  type DataProfile,
  firstJob,
  firstProgram,
  knownLabel,
  labelCandidates,
  profileColumns,
} from "../../../index.ts";
import { type CommonOptions, collected, integerFrom, withCommon } from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { count, plural } from "../../support/format.ts";
import { runTask } from "../../views/task-view.ts";

interface InitOptions extends CommonOptions {
  readonly out: string;
  readonly label?: string;
  readonly positive?: string;
  readonly time?: string;
  readonly ignore?: readonly string[];
  readonly rows: number;
  readonly force?: boolean;
}

/** Adds the command. */
export function addInit(program: Command): void {
  const command = program
    .command("init")
    .argument("<data...>", "files of .csv, .tsv, .jsonl (perhaps .gz), .parquet or .arrow")
    .description("look at data, and write a first job that trains on them")
    .option("-o, --out <FILE>", "the job file; .ts: a program that trains it", "job.yaml")
    .option("--label <COLUMN>", "the column to predict")
    .option("--positive <VALUE>", "the value of the label that counts as positive")
    .option("--time <COLUMN>", "the time by which the last tenth is held out")
    .option("--ignore <COLUMN>", "a column to leave out; may be repeated", collected)
    .option("--rows <COUNT>", "rows to look at", integerFrom(100, 10_000_000), 50_000)
    .option("--force", "write over the job file, if it is there");
  withCommon(command, [
    "init clicks.csv",
    "init logs/*.jsonl.gz --label clicked --ignore request_id -o clicks.yaml",
    "init clicks.csv --out job.ts",
  ]).action(async (paths: readonly string[], options: InitOptions) => {
    process.exitCode = await runTask(
      "init",
      async ({ signal }) => writeJob(await profileColumns(paths, options.rows, signal), options),
      (code) => code,
      count,
    );
  });
}

async function writeJob(data: DataProfile, options: InitOptions): Promise<number> {
  const { out, time, positive, ignore: ignored, json, force = false } = options;
  if (!force && existsSync(out)) {
    console.error(`${out} is there already: name another file with \`-o\`, or say \`--force\``);
    return exitCodes.wrong;
  }
  const label = knownLabel(data, options) ?? (await askedLabel(data));
  const roles = assignRoles(data, { label, time, ignored });
  const isProgram = /\.m?ts$/.test(out);
  const text = (isProgram ? firstProgram : firstJob)(data, roles, { positive });
  writeFileSync(out, text);
  const columns = roles.map(({ profile, role, why }) => ({ column: profile.name, role, why }));
  if (json === true) {
    console.log(JSON.stringify({ report: "init", job: out, rows: data.rows, columns }));
    return exitCodes.done;
  }
  const seen = `${plural(columns.length, "column")} of ${count(data.rows)} rows`;
  console.log(`${out}: ${seen}${data.isWhole ? "" : ", which are not all"}`);
  const width = Math.max(...columns.map(({ column }) => column.length));
  for (const { column, role, why } of columns) {
    console.log(`  ${column.padEnd(width)}  ${role.padEnd(11)}  ${why}`);
  }
  console.log(`Train it with: ${isProgram ? compiled(out) : `osiris train ${out}`}`);
  return exitCodes.done;
}

/** How a program is compiled, in a package whose `type` is `module`, and run. */
function compiled(out: string): string {
  const library = "--lib es2023,esnext.disposable --types node --skipLibCheck";
  return `tsc --module nodenext --target es2022 ${library} ${out} && node ${out.replace(/ts$/, "js")}`;
}

/** Asks a person; nobody is asked where there is no terminal. */
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
