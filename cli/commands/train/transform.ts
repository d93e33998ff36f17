// osiris transform FILE: shows what a job's transforms make of the first rows of a file.

import type { Command } from "commander";
import { resolveJob, type TransformedRow, transformedRows } from "../../../internal.ts";
import { shownPath } from "../../../src/data/remote/addresses.ts";
import { type CommonOptions, integerFrom, withCommon } from "../../support/arguments.ts";
import { loadJob } from "../../support/job-file.ts";

interface TransformOptions extends CommonOptions {
  readonly job: string;
  readonly head: number;
}

export function addTransform(program: Command): void {
  const command = program
    .command("transform")
    .argument("<file>", "file of the job's kind of data")
    .description("show the first rows of a file: columns, outputs of the job's transforms, sample")
    .requiredOption("--job <JOB>", "job file, as for train")
    .option("--head <ROWS>", "rows to show", integerFrom(1, 10_000), 5);
  withCommon(command, ["transform clicks.csv --job job.yaml --head 5"]).action(
    async (file: string, { job: path, head, json }: TransformOptions) => {
      const rows = await transformedRows(resolveJob(await loadJob(path)), file, head);
      if (json) console.log(JSON.stringify({ report: "transform", file: shownPath(file), rows }));
      else for (const row of rows) for (const line of linesOf(row)) console.log(line);
    },
  );
}

function linesOf({ row, read, made, dense, bags, fault, isKept }: TransformedRow): string[] {
  const names = [...Object.keys(read), ...Object.keys(made), ...Object.keys(bags ?? {}), "dense"];
  const width = Math.max(...names.map((name) => name.length));
  const line = (mark: string, name: string, value: string) =>
    `  ${mark} ${name.padEnd(width)}  ${value === "" ? "(none)" : value}`;
  return [
    `row ${row}${isKept ? "" : ", which sampling leaves out"}`,
    ...Object.entries(read).map(([name, value]) => line(" ", name, value)),
    ...Object.entries(made).map(([name, value]) => line("+", name, value)),
    ...(fault === undefined ? [] : [`  ! a bad row: ${fault}`]),
    ...(dense === undefined || dense.length === 0 ? [] : [line("=", "dense", dense.join(", "))]),
    ...Object.entries(bags ?? {}).map(([name, ids]) => line("=", name, `[${ids.join(", ")}]`)),
  ];
}
