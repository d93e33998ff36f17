// osiris table export|ids|import|inspect: writes tables of a checkpoint to files, makes checkpoints
// with tables from files, and summarises tables.

import { statSync } from "node:fs";
import type { Command } from "commander";
import { type CommonOptions, collected, withCommon } from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { aligned, bytes, count, plural } from "../../../cli/support/format.ts";
import { loadJob } from "../../../cli/support/job-file.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { resolveJob } from "../../../internal.ts";
import {
  exportTable,
  importTable,
  inspectTables,
  jobOfCheckpoint,
  type TableReport,
  type TablesReport,
  tableIds,
} from "../index.ts";

interface TableOptions extends CommonOptions {
  readonly manifest?: string;
}

interface ExportOptions extends TableOptions {
  readonly out: string;
  readonly state?: boolean;
  readonly ids?: string;
}

interface IdsOptions extends TableOptions {
  readonly out: string;
  readonly data?: readonly string[];
}

interface ImportOptions extends TableOptions {
  readonly from: string;
  readonly out: string;
  readonly merge?: boolean;
}

export function addTable(program: Command): void {
  const table = program
    .command("table")
    .description("export, import and inspect the rows of a checkpoint's tables");
  addExport(table);
  addIds(table);
  addImport(table);
  addInspect(table);
}

/** Adds `--manifest`, which names a checkpoint of the directory. */
function withCheckpoint(command: Command): Command {
  return command.option(
    "--manifest <HASH>",
    "checkpoint: its manifest's hash or a prefix, `best` or `last` (default: the best of a job " +
      "that stops early, else the newest)",
  );
}

function addExport(table: Command): void {
  const command = table
    .command("export")
    .argument("<directory>", "checkpoint directory")
    .argument("<table>", "name of the table")
    .description("write the initialised rows of a table, ids and vectors, to a file")
    .requiredOption("--out <FILE>", "file to write: .safetensors, .csv or .parquet")
    .option("--state", "write the optimizer's state too")
    .option(
      "--ids <FILE>",
      "also write the row of each text of the job's data to this CSV file, as `table ids` does",
    );
  withCommon(withCheckpoint(command), [
    "table export checkpoints C1 --out C1.safetensors",
    "table export checkpoints C1 --out C1.parquet --state --ids C1-ids.csv",
  ]).action(async (directory: string, name: string, options: ExportOptions) => {
    const { out, json, ids, verbose: _verbose, ...rest } = options;
    process.exitCode = await runTask(
      `export ${name}`,
      (progress) => exportTable(directory, name, out, { ...rest, ...progress }),
      (report) => {
        const { rows, dim, bytes: size, cut } = report;
        const people = `${out}: ${plural(rows, "row")} of ${dim} columns, ${bytes(size)} (step ${count(cut)})`;
        console.log(json ? JSON.stringify({ report: "table.export", ...report }) : people);
        return exitCodes.done;
      },
    );
    if (ids === undefined || process.exitCode !== exitCodes.done) return;
    process.exitCode = await writeIds(directory, name, { ...options, out: ids });
  });
}

function addIds(table: Command): void {
  const command = table
    .command("ids")
    .argument("<directory>", "checkpoint directory, or a job file")
    .argument("<table>", "name of the table")
    .description("list the texts of the data that a table maps to rows: row, text and count")
    .requiredOption("--out <FILE>", "CSV file to write")
    .option("--data <FILE>", "read this file instead of the job's; may be repeated", collected);
  withCommon(withCheckpoint(command), [
    "table ids checkpoints C1 --out C1-ids.csv",
    "table ids job.yaml C1 --data day_0.tsv.gz --out C1-ids.csv",
  ]).action(async (from: string, name: string, options: IdsOptions) => {
    process.exitCode = await writeIds(from, name, options);
  });
}

async function writeIds(from: string, name: string, options: IdsOptions): Promise<number> {
  const { out, data: paths, manifest, json } = options;
  const isJob = statSync(from, { throwIfNoEntry: false })?.isFile() === true;
  const job = isJob ? resolveJob(await loadJob(from)) : jobOfCheckpoint(from, manifest);
  return runTask(
    `ids ${name}`,
    (progress) => tableIds(job, name, out, { paths, ...progress }),
    (report) => {
      const { texts, rows, lines, column } = report;
      const people = `${out}: ${plural(texts, "text")} of column ${column} in ${plural(rows, "row")} (${plural(lines, "line")} read)`;
      console.log(json ? JSON.stringify({ report: "table.ids", ...report }) : people);
      return exitCodes.done;
    },
  );
}

function addImport(table: Command): void {
  const command = table
    .command("import")
    .argument("<directory>", "checkpoint directory")
    .argument("<table>", "name of the table")
    .description("make a checkpoint whose table has the rows of a file")
    .requiredOption("--from <FILE>", "file to read: .safetensors, .csv or .parquet")
    .requiredOption("--out <DIRECTORY>", "new directory for the checkpoint")
    .option(
      "--merge",
      "keep the table's rows that the file lacks (default: they become uninitialised)",
    );
  withCommon(withCheckpoint(command), [
    "table import checkpoints C1 --from C1.parquet --out imported",
    "table import checkpoints C1 --from pretrained.csv --merge --out imported",
  ]).action(async (directory: string, name: string, options: ImportOptions) => {
    const { json, verbose: _verbose, ...rest } = options;
    process.exitCode = await runTask(
      `import ${name}`,
      (progress) => importTable(directory, name, { ...rest, ...progress }),
      (report) => {
        const { rows, rounded, hasState, directory: made, cut, digest } = report;
        if (json) {
          console.log(JSON.stringify({ report: "table.import", ...report }));
          return exitCodes.done;
        }
        const state = hasState ? "with their state" : "with new state";
        console.log(`${made}: ${plural(rows, "row")} of ${name}, ${state} (step ${count(cut)})`);
        if (rounded > 0) console.log(`Rounded to nearest   ${plural(rounded, "row")}`);
        console.log(`Digest               ${digest}`);
        return exitCodes.done;
      },
    );
  });
}

function addInspect(table: Command): void {
  const command = table
    .command("inspect")
    .argument("<directory>", "checkpoint directory")
    .argument("[table]", "one table, with a histogram (default: all of them)")
    .description("summarise tables: their rows, parts, bytes and norms");
  withCommon(withCheckpoint(command), [
    "table inspect checkpoints",
    "table inspect checkpoints C1 --json",
  ]).action(async (directory: string, name: string | undefined, options: TableOptions) => {
    const { json, manifest } = options;
    process.exitCode = await runTask(
      "inspect",
      (progress) => inspectTables(directory, { table: name, manifest, ...progress }),
      (report) => {
        if (json) console.log(JSON.stringify({ report: "table.inspect", ...report }));
        else for (const line of linesOf(report, name !== undefined)) console.log(line);
        return exitCodes.done;
      },
    );
  });
}

function linesOf({ cut, digest, tables }: TablesReport, isOne: boolean): string[] {
  const head = `Step ${count(cut)}, digest ${digest}`;
  const [first] = tables;
  if (isOne && first !== undefined) return [head, ...tableLines(first)];
  const cells = tables.map(({ name, rows, born, dim, precision, parts, bytes: size, norm }) => [
    name,
    count(rows),
    count(born),
    String(dim),
    precision,
    String(parts.length),
    bytes(size),
    norm === undefined ? "-" : normOf(norm.mean),
  ]);
  const titles = [
    "table",
    "rows",
    "initialised",
    "dim",
    "precision",
    "parts",
    "bytes",
    "mean norm",
  ];
  return [head, "", ...aligned([titles, ...cells])];
}

const barWidth = 32;

function tableLines(table: TableReport): string[] {
  const { name, rows, dim, precision, born, parts, bytes: size, norm, zeros, histogram } = table;
  const share = rows === 0 ? 0 : (100 * born) / rows;
  const lines = [
    `Table                ${name}: ${plural(rows, "row")} of ${dim} columns in ${precision}`,
    `Initialised          ${plural(born, "row")} (${share.toFixed(1)} %), ${count(zeros)} all zeros`,
    `Parts                ${parts.join(", ")} (${bytes(size)})`,
  ];
  if (norm === undefined) return lines;
  const { min, max, mean } = norm;
  const most = Math.max(...histogram.map((octave) => octave.rows));
  const bars = histogram.map(({ from, rows: own }) => {
    const bar = "█".repeat(Math.ceil((barWidth * own) / most));
    return `  ${normOf(from).padStart(9)} … ${normOf(2 * from).padStart(9)}  ${count(own).padStart(11)}  ${bar}`;
  });
  return [
    ...lines,
    `Norm                 ${normOf(min)} to ${normOf(max)}, mean ${normOf(mean)}`,
    ...bars,
  ];
}

function normOf(value: number): string {
  return value === 0 ? "0" : value.toPrecision(4);
}
