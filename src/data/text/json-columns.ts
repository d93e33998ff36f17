// Determines the columns of JSON Lines from the job, because lines have neither a header nor an
// order of keys.

import { InvalidOptionError } from "../../errors/errors.ts";
import { namedColumns } from "../columnar/named-columns.ts";
import type { ResolvedJsonLinesOptions, TableShape } from "../options.ts";
import type { KeyColumn } from "../split-keys.ts";
import { targetColumnsOf } from "../targets.ts";
import { planOf } from "../transforms/plan.ts";
import type { Columns } from "./columns.ts";
import { beforeWeight, betweenIds } from "./json-lines.ts";
import { categoricalOf } from "./match-features.ts";

/**
 * The columns that the job names. A column that a feature and a transform read differently, as a
 * list and as a single value, becomes two fields.
 */
export function jsonColumns(
  options: ResolvedJsonLinesOptions,
  tables: readonly TableShape[],
  path: string,
  key?: KeyColumn,
): Columns {
  const { sources, outputs } = planOf(options.transforms ?? []);
  const ids = categoricalOf(options);
  const dense = options.dense.map(({ column }) => column);
  const asked = [...targetColumnsOf(options), ...dense, ...ids.map(({ column }) => column)];
  const given = [...asked, ...(key === undefined ? [] : [key.column])];
  const names = [...new Set(given)].filter((name) => !outputs.has(name));
  const lists = names.map((name) => ids.find(({ column }) => column === name)?.list);
  const places = sources.map(({ column, list }) => {
    const place = names.findIndex((name, i) => name === column && lists[i] === list);
    if (place >= 0) return place;
    lists.push(list);
    return names.push(column) - 1;
  });
  const { columns, problems } = namedColumns(options, tables, { path, header: names }, key);
  if (problems.length > 0) throw InvalidOptionError.ofAll(problems);
  const categorical = columns.categorical.map((column) => {
    return column.isMade === true ? column : splitAsJson(column);
  });
  const json = { names, lists, made: [...outputs.keys()] };
  const line = { fields: names.length, delimiter: ",", hasQuotes: false };
  return { ...columns, categorical, sources: places, ...line, json };
}

/**
 * Adds the separators to a reader of a JSON field, so that a list is split as `jsonFields` joined
 * it.
 */
export function splitAsJson<Read extends { readonly list?: "plain" | "weighted" | undefined }>(
  read: Read,
): Read | (Read & { readonly separator: string; readonly weightSeparator: string | undefined }) {
  if (read.list === undefined) return read;
  const weightSeparator = read.list === "weighted" ? beforeWeight : undefined;
  return { ...read, separator: betweenIds, weightSeparator };
}
