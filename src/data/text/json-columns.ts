// The columns of JSON Lines, as the job names them: a line has no order, and no header.

import { namedColumns } from "../columnar/named-columns.ts";
import type { ResolvedJsonLinesOptions, TableShape } from "../options.ts";
import type { KeyColumn } from "../split-keys.ts";
import { targetColumnsOf } from "../targets.ts";
import type { Columns } from "./columns.ts";
import { beforeWeight, betweenIds } from "./json-lines.ts";
import { categoricalOf } from "./match-features.ts";

/** The columns that the job names; no line has more of them. */
export function jsonColumns(
  options: ResolvedJsonLinesOptions,
  tables: readonly TableShape[],
  path: string,
  key?: KeyColumn,
): Columns {
  const sources = categoricalOf(options);
  const dense = options.dense.map(({ column }) => column);
  const asked = [...targetColumnsOf(options), ...dense, ...sources.map(({ column }) => column)];
  const header = [...new Set([...asked, ...(key === undefined ? [] : [key.column])])];
  const { columns } = namedColumns(options, tables, { path, header }, key);
  const lists = header.map((name) => sources.find(({ column }) => column === name)?.list);
  const categorical = columns.categorical.map((column) => {
    if (column.list === undefined) return column;
    const weight = column.list === "weighted" ? beforeWeight : undefined;
    return { ...column, separator: betweenIds, weightSeparator: weight };
  });
  const json = { names: header, lists };
  const line = { fields: header.length, delimiter: ",", hasQuotes: false };
  return { ...columns, categorical, ...line, json };
}
