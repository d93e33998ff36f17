// osiris warehouse inspect PATHS: lists files, partitions and columns, and the part of them that a
// job reads.

import type { Command } from "commander";
import { type CommonOptions, withCommon } from "../../../cli/support/arguments.ts";
import { aligned, bytes, count, percent, plural } from "../../../cli/support/format.ts";
import { loadJob } from "../../../cli/support/job-file.ts";
import { resolveJob } from "../../../internal.ts";
import { type ColumnReport, inspectWarehouse, type WarehouseReport } from "../index.ts";

interface InspectOptions extends CommonOptions {
  readonly job?: string;
}

export function addInspect(warehouse: Command): void {
  const command = warehouse
    .command("inspect")
    .argument("<paths...>", "Parquet files, directories of them, or patterns")
    .description(
      "list a table's partitions and columns, with counts of files, row groups, rows and bytes",
    )
    .option(
      "--job <JOB>",
      "job file, as for train: mark the columns that it reads, and count its reads and bytes",
    );
  withCommon(command, [
    "warehouse inspect clicks",
    "warehouse inspect 'clicks/date=2026-11-*' --job job.yaml",
  ]).action(async (paths: readonly string[], { job: path, json }: InspectOptions) => {
    const job = path === undefined ? undefined : resolveJob(await loadJob(path));
    const report = await inspectWarehouse(paths, { job });
    if (json) console.log(JSON.stringify({ report: "warehouse.inspect", ...report }));
    else for (const line of linesOf(report)) console.log(line);
  });
}

function linesOf(report: WarehouseReport): string[] {
  const { files, rows, rowGroups, groupRows, partitions, columns, job } = report;
  const [least, most] = groupRows;
  const ofGroup = least === most ? count(most) : `${count(least)} to ${count(most)}`;
  const total = columns.reduce((sum, column) => sum + column.bytes, 0);
  return [
    `${plural(files, "file")}, ${plural(rows, "row")}, ${bytes(report.bytes)}`,
    `${plural(rowGroups, "row group")} of ${ofGroup} rows`,
    "",
    ...(partitions.length > 1 ? [...aligned(partitionCells(partitions)), ""] : []),
    ...aligned(columnCells(columns, total)),
    ...(job === undefined ? [] : ["", ...jobLines(job, total)]),
  ];
}

function partitionCells(partitions: WarehouseReport["partitions"]): string[][] {
  const cells = partitions.map(({ name, files, rowGroups, rows, bytes: size }) => {
    return [name || "(none)", count(files), count(rowGroups), count(rows), bytes(size)];
  });
  return [["partition", "files", "row groups", "rows", "bytes"], ...cells];
}

function columnCells(columns: readonly ColumnReport[], total: number): string[][] {
  const hasJob = columns.some(({ isRead }) => isRead !== undefined);
  const titles = ["column", "type", "values", "bytes", "share", "raw", "encodings", "codecs"];
  const cells = columns.map((column) => {
    const { name, type, values, bytes: size, rawBytes, encodings, codecs, isRead } = column;
    const share = percent(total === 0 ? 0 : size / total);
    const sizes = [count(values), bytes(size), share, bytes(rawBytes)];
    const cells = [name, type, ...sizes, encodings.join(" "), codecs.join(" ")];
    return hasJob ? [...cells, isRead ? "read" : "-"] : cells;
  });
  return [hasJob ? [...titles, "job"] : titles, ...cells];
}

function jobLines(job: NonNullable<WarehouseReport["job"]>, total: number): string[] {
  const { columns, files, rowGroups, wanted, read, reads } = job;
  const over = wanted === 0 ? "" : `, ${(read / wanted).toFixed(2)} bytes a wanted byte`;
  const share = total === 0 ? 0 : wanted / total;
  return [
    `The job reads        ${plural(columns, "column")} of ${plural(rowGroups, "row group")} in ${plural(files, "file")}`,
    `Bytes wanted         ${bytes(wanted)} (${percent(share)} of all columns)`,
    `Bytes read           ${bytes(read)} in ${plural(reads, "read")}${over}`,
  ];
}
