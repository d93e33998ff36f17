// Reports the structure of a table of Parquet files from the footers alone: partitions, row groups,
// bytes by column; and the part of the table that a job would read.

import type { SchemaTree } from "hyparquet";
import {
  type Footer,
  InvalidOptionError,
  isInWanted,
  type JobSpec,
  keyColumnOf,
  mayHaveWanted,
  openParquet,
  openRanges,
  plannedReads,
  readFooter,
  s3FilesOf,
  shapesOf,
  tableFilesOf,
} from "../../../internal.ts";
import { leavesOf, typeOf } from "./column-types.ts";

/** The result of `inspectWarehouse`. Bytes are bytes in the files, except raw bytes. */
export interface WarehouseReport {
  readonly files: number;
  readonly bytes: number;
  readonly rows: number;
  readonly rowGroups: number;
  /** Rows of the smallest row group, and of the largest. */
  readonly groupRows: readonly [least: number, most: number];
  /** By name, such as `date=2026-11-01/hour=03`; "": files in no partition. */
  readonly partitions: readonly PartitionReport[];
  /** In the order of their first occurrence. */
  readonly columns: readonly ColumnReport[];
  /** The part that the job would read. */
  readonly job?: ReadPlanReport;
}

/** A partition of a table. */
export interface PartitionReport {
  readonly name: string;
  readonly files: number;
  readonly bytes: number;
  readonly rows: number;
  readonly rowGroups: number;
}

/** A column of a table, in all of its row groups. */
export interface ColumnReport {
  readonly name: string;
  /** The type in the first file, e.g. `list<INT64>`. */
  readonly type: string;
  /** Number of values or list entries, including missing ones. */
  readonly values: number;
  readonly bytes: number;
  /** Bytes before compression. */
  readonly rawBytes: number;
  readonly encodings: readonly string[];
  readonly codecs: readonly string[];
  /** Number of files that have the column. */
  readonly files: number;
  /** Whether the job reads the column; undefined without a job. */
  readonly isRead?: boolean;
}

/** The part of a table that a job reads in one epoch. */
export interface ReadPlanReport {
  readonly columns: number;
  /** Files and row groups that may contain rows selected by the job's `where`. */
  readonly files: number;
  readonly rowGroups: number;
  /** Bytes of the job's columns in these row groups; bytes and number of the reads for them. */
  readonly wanted: number;
  readonly read: number;
  readonly reads: number;
}

/**
 * Reads the footers of the files at `paths`, which may be directories and patterns. `job`: also
 * report the part that this job would read.
 * @throws InputUnusableError where a file cannot be read
 * @throws InvalidOptionError where the job does not read Parquet, or a file lacks a column of it
 */
export async function inspectWarehouse(
  paths: readonly string[],
  { job }: { readonly job?: JobSpec | undefined } = {},
): Promise<WarehouseReport> {
  const summary = new Summary();
  for (const path of tableFilesOf(await s3FilesOf(paths))) {
    const file = await openRanges(path);
    try {
      summary.add(file.path, file.size, await readFooter(file));
    } finally {
      await file.close();
    }
    if (job !== undefined) await summary.plan(path, job);
  }
  return summary.report();
}

type Growing<Report> = { -readonly [Key in keyof Report]: Report[Key] };

interface GrowingColumn extends Omit<Growing<ColumnReport>, "encodings" | "codecs" | "isRead"> {
  readonly encodings: Set<string>;
  readonly codecs: Set<string>;
}

/** Accumulates the report over files. */
class Summary {
  readonly #partitions = new Map<string, Growing<PartitionReport>>();
  readonly #columns = new Map<string, GrowingColumn>();
  readonly #groupRows: [number, number] = [Number.MAX_SAFE_INTEGER, 0];
  #plan: Growing<ReadPlanReport> | undefined;
  readonly #read = new Set<string>();

  add(path: string, bytes: number, { schema, rows, groups }: Footer): void {
    const name = partitionOf(path);
    const empty = { name, files: 0, bytes: 0, rows: 0, rowGroups: 0 };
    const partition = this.#partitions.get(name) ?? empty;
    this.#partitions.set(name, partition);
    partition.files++;
    partition.bytes += bytes;
    partition.rows += rows;
    partition.rowGroups += groups.length;
    for (const group of groups) {
      this.#groupRows[0] = Math.min(this.#groupRows[0], group.rows);
      this.#groupRows[1] = Math.max(this.#groupRows[1], group.rows);
    }
    for (const node of schema.children) this.#addColumn(node, groups);
  }

  #addColumn(node: SchemaTree, groups: Footer["groups"]): void {
    const { name } = node.element;
    const type = typeOf(node);
    const counts = { values: 0, bytes: 0, rawBytes: 0, files: 0 };
    const empty = {
      name,
      type,
      ...counts,
      encodings: new Set<string>(),
      codecs: new Set<string>(),
    };
    const column = this.#columns.get(name) ?? empty;
    this.#columns.set(name, column);
    column.files++;
    for (const [place, leaf] of leavesOf(node).entries()) {
      for (const { chunks } of groups) {
        const chunk = chunks.get(leaf);
        if (chunk === undefined) continue;
        // All leaves of a list of pairs have the same number of values, so count the first leaf.
        if (place === 0) column.values += chunk.values;
        column.bytes += chunk.end - chunk.start;
        column.rawBytes += chunk.rawBytes;
        column.codecs.add(chunk.codec);
        for (const encoding of chunk.encodings) column.encodings.add(encoding);
      }
    }
  }

  /** Adds the part of a file that a job reads. */
  async plan(path: string, { data, model, evaluation }: JobSpec): Promise<void> {
    if (data.kind !== "parquet") {
      const message = "Expected `data.kind` to be parquet, as the files of a warehouse are";
      throw new InvalidOptionError("data.kind", `${message}, got \`${data.kind}\``);
    }
    const plan = this.#plan ?? { columns: 0, files: 0, rowGroups: 0, wanted: 0, read: 0, reads: 0 };
    this.#plan = plan;
    const key = keyColumnOf(evaluation?.split);
    const { file, footer, wanted, tests } = await openParquet(path, data, shapesOf(model), key);
    await file.close();
    const shapes = new Map(wanted.map(({ shape }) => [shape.name, shape]));
    const all = wanted.flatMap(({ shape }) => {
      return [shape.leaf.path, ...(shape.weights === undefined ? [] : [shape.weights.path])];
    });
    const leaves = [...new Set(all)];
    for (const node of footer.schema.children) {
      if (leavesOf(node).some((leaf) => leaves.includes(leaf))) this.#read.add(node.element.name);
    }
    if (!isInWanted(path, data)) return;
    const groups = footer.groups.filter((group) => mayHaveWanted(group, tests, shapes));
    plan.files++;
    plan.rowGroups += groups.length;
    for (const { chunks } of groups) {
      const readChunks = leaves.flatMap((leaf) => chunks.get(leaf) ?? []);
      const reads = plannedReads(readChunks);
      plan.wanted += bytesIn(readChunks);
      plan.read += bytesIn(reads);
      plan.reads += reads.length;
    }
  }

  report(): WarehouseReport {
    const partitions = [...this.#partitions.values()];
    const sum = (of: (one: PartitionReport) => number) =>
      partitions.reduce((total, one) => total + of(one), 0);
    const columns = [...this.#columns.values()].map(({ encodings, codecs, ...column }) => ({
      ...column,
      encodings: [...encodings].sort(),
      codecs: [...codecs].sort(),
      ...(this.#plan === undefined ? {} : { isRead: this.#read.has(column.name) }),
    }));
    const rowGroups = sum((one) => one.rowGroups);
    return {
      files: sum((one) => one.files),
      bytes: sum((one) => one.bytes),
      rows: sum((one) => one.rows),
      rowGroups,
      groupRows: rowGroups === 0 ? [0, 0] : this.#groupRows,
      partitions,
      columns,
      ...(this.#plan && { job: { ...this.#plan, columns: this.#read.size } }),
    };
  }
}

/** A file's partition: all names of its directories that have the form `key=value`. */
export function partitionOf(path: string): string {
  const directories = path.split("/").slice(0, -1);
  return directories.filter((name) => name.indexOf("=") > 0).join("/");
}

function bytesIn(ranges: readonly { readonly start: number; readonly end: number }[]): number {
  return ranges.reduce((sum, { start, end }) => sum + (end - start), 0);
}
