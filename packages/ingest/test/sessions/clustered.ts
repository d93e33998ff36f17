// Rows as files for the tests of clustering, and the rows of a table read back.

import { join } from "node:path";
import { tableFilesOf } from "../../../../src/data/files.ts";
import { writeText } from "../../../../test/data/data-files.ts";
import { openSource } from "../../warehouse/open-source.ts";

/** A row of the input, as in JSON Lines. */
export interface Row {
  readonly session: number | string;
  readonly time: number;
  readonly ids?: readonly number[];
  readonly place: number;
}

/** Writes rows as a JSON Lines file; returns its path. */
export function jsonLines(directory: string, rows: readonly object[], name = "rows.jsonl"): string {
  return writeText(directory, {
    name,
    text: rows.map((row) => `${JSON.stringify(row)}\n`).join(""),
  });
}

/** Rows of several sessions in order of arrival, drawn by the seed. */
export function rowsOf(count: number, seed = 1): Row[] {
  let state = seed;
  const below = (limit: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  return Array.from({ length: count }, (_, place) => {
    const session = below(Math.ceil(count / 8));
    const ids = Array.from({ length: below(9) }, () => session * 100 + below(30));
    return { session, time: 1000 + Math.floor(place / 3) + below(40), ids, place };
  });
}

/** The expected order of a clustered table: first time of the session, session, time, place. */
export function clustered<Of extends Row>(rows: readonly Of[]): Of[] {
  const first = new Map<string | number, number>();
  for (const { session, time } of rows) {
    first.set(session, Math.min(time, first.get(session) ?? Number.POSITIVE_INFINITY));
  }
  const compare = (a: string | number, b: string | number) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b)));
  };
  return [...rows].sort((a, b) => {
    const sessions = (first.get(a.session) ?? 0) - (first.get(b.session) ?? 0);
    return sessions || compare(a.session, b.session) || a.time - b.time || a.place - b.place;
  });
}

/** The rows of files with readable values. */
export async function rowsIn(path: string): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  const source = await openSource(tableFilesOf([path]));
  for await (const { rows: count, columns } of source.chunks()) {
    for (let row = 0; row < count; row++) {
      const entries = [...columns].map(([name, values]) => [name, shown(values[row])] as const);
      rows.push(Object.fromEntries(entries.filter(([, value]) => value !== undefined)));
    }
  }
  return rows;
}

function shown(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
  if (Array.isArray(value)) return value.map(shown);
  return value ?? undefined;
}

/** The output directory of a test's table. */
export const outOf = (directory: string) => join(directory, "out");
