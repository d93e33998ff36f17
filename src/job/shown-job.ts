// A job for display in files and on pages: without credentials in the URLs of its data. As a list
// of options, it can be read by people, and compared with another job line by line.

import { shownPath } from "../data/remote/addresses.ts";
import type { JobSpec } from "./job.ts";

/** Returns the job with the credentials removed from the URLs of its data. */
export function shownJob(job: JobSpec): JobSpec {
  const { evaluation } = job;
  const data = shownData(job.data);
  if (evaluation === undefined) return { ...job, data };
  const { test } = evaluation;
  const tested = test && { test: withShown(test) };
  return { ...job, data, evaluation: { ...withShown(evaluation), ...tested } };
}

function withShown<Section extends { data?: JobSpec["data"] | undefined }>(of: Section): Section {
  return of.data === undefined ? of : { ...of, data: shownData(of.data) };
}

function shownData(data: JobSpec["data"]): JobSpec["data"] {
  return "paths" in data ? { ...data, paths: data.paths.map(shownPath) } : data;
}

/** One option of a job: its path, as `data.batchSize`, and its value as text. */
export interface ShownOption {
  readonly option: string;
  readonly value: string;
}

/** Maximum lines of one job, so that a job of any size fits into a message. */
const optionsMax = 300;
/** Maximum characters of a value. */
const valueMax = 160;
/**
 * Maximum number of tables, features or columns that get a line each; beyond, one line stands for
 * all.
 */
const listedMax = 40;
/** Maximum items of a list that are written out. */
const itemsMax = 8;

/**
 * Returns all options of a job, defaults included. Tables share one line; if they are few, each
 * also has a line by its name.
 */
export function shownOptions(job: JobSpec): ShownOption[] {
  const lines: ShownOption[] = [];
  for (const line of linesOf("", shownJob(job))) {
    const isTables = line.option === "model.tables";
    lines.push(isTables ? lineOf(line.option, `${sizeOf(job)}: ${line.value}`) : line);
    if (lines.length === optionsMax) break;
  }
  return lines;
}

/** The size of all tables as text: `2 tables, 400 rows, dimension 8`. */
function sizeOf({ model: { tables } }: JobSpec): string {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const dims = [...new Set(tables.map(({ dim }) => dim))].sort((a, b) => a - b);
  const noun = tables.length === 1 ? "table" : "tables";
  return `${tables.length} ${noun}, ${rows.toLocaleString("en-US")} rows, dimension ${dims.join(", ")}`;
}

function* linesOf(path: string, value: unknown): Generator<ShownOption> {
  if (value === undefined || path === "plan") return; // A plan has a line for each shard.
  if (typeof value !== "object" || value === null) return yield lineOf(path, value);
  if (!Array.isArray(value)) {
    for (const [name, own] of Object.entries(value)) {
      yield* linesOf(path === "" ? name : `${path}.${name}`, own);
    }
    return;
  }
  const named = value.map(nameOf);
  if (named.includes(undefined)) return yield lineOf(path, itemsOf(value.map(textOf)));
  yield lineOf(path, itemsOf(named as string[]));
  if (value.length > listedMax) return;
  for (const [at, item] of value.entries()) yield lineOf(`${path}.${named[at]}`, textOf(item));
}

function lineOf(option: string, value: unknown): ShownOption {
  const text = String(value);
  return { option, value: text.length > valueMax ? `${text.slice(0, valueMax)} …` : text };
}

function itemsOf(items: readonly string[]): string {
  const shown = items.slice(0, itemsMax).join(", ");
  return items.length > itemsMax ? `${items.length}: ${shown}, …` : shown;
}

function nameOf(item: unknown): string | undefined {
  if (typeof item !== "object" || item === null) return undefined;
  const { name, column } = item as { readonly name?: unknown; readonly column?: unknown };
  return typeof name === "string" ? name : typeof column === "string" ? column : undefined;
}

/** The text of a value; of an object its fields: `rows 1000, dim 8`. */
function textOf(item: unknown): string {
  if (Array.isArray(item)) return `[${itemsOf(item.map(textOf))}]`;
  if (typeof item !== "object" || item === null) return String(item);
  return Object.entries(item)
    .filter(([name, own]) => name !== "name" && own !== undefined)
    .map(([name, own]) => `${name} ${textOf(own)}`)
    .join(", ");
}
