// The state of a sort on disk, from which a killed process resumes. It is replaced after each run;
// run files that it does not name are leftovers.
//
//   OUT.clustering/
//     state.json     the runs, and the input and sort columns that they belong to
//     3.run …        sorted rows
//     table/         the files of the table, until it is complete
//     report.json    the table is complete and only needs to be renamed

import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import {
  type Disk,
  InputUnusableError,
  makeDurableDirectory,
  readWhole,
  replaceDurably,
} from "../../../internal.ts";

/** A run. Its name is checked, as it becomes a path in the directory. */
const run = z.object({ name: z.string().regex(/^\d+\.run$/), bytes: z.int(), rows: z.int() });
export type Run = z.output<typeof run>;

const state = z.object({
  version: z.literal(1),
  /** The process that owns the sort. */
  writer: z.string(),
  /** Hash of the input files and the sort columns. */
  fingerprint: z.string(),
  /** Number of saved states so far, which names the next run. */
  made: z.int(),
  /** Input rows that are in the runs by session; `sum`: the sum of their checksums. */
  read: z.object({ rows: z.int(), bytes: z.int(), sum: z.int(), isDone: z.boolean() }),
  bySession: z.array(run),
  /** Rows that are in the runs by time. `places`: offsets of the next rows in runs by session. */
  ordered: z.object({
    rows: z.int(),
    isDone: z.boolean(),
    places: z.array(z.int()),
    /** The last row's session, and that session's first time, in hexadecimal. */
    session: z.string(),
    first: z.string(),
  }),
  byTime: z.array(run),
});
export type SortingState = z.output<typeof state>;

const stateName = "state.json";
export const reportName = "report.json";
export const tableName = "table";

/** A hash of the inputs that determine the rows and their order. */
export function fingerprintOf(what: unknown): string {
  const text = JSON.stringify(what, (_, value) => {
    return typeof value === "bigint" ? String(value) : value;
  });
  return createHash("sha256").update(text).digest("hex");
}

/**
 * Takes over the state in `home` that a dead process left, or begins a new one if the fingerprint
 * differs. @throws InputUnusableError where another process may still be running
 */
export function openState(disk: Disk, home: string, fingerprint: string): SortingState {
  const found = stateIn(disk, home);
  if (found !== undefined && found.writer !== disk.writer && !disk.isGone(found.writer)) {
    const message = `Cannot write in ${home}: another process may be clustering there`;
    throw new InputUnusableError(home, `${message}; if none is, remove that directory`);
  }
  const isSame = found?.fingerprint === fingerprint;
  if (!isSame) disk.remove(home);
  makeDurableDirectory(disk, home);
  const opened = isSame ? { ...found, writer: disk.writer } : newState(disk, fingerprint);
  saveState(disk, home, opened);
  return opened;
}

/** The saved state; undefined: missing, or not readable by this version. */
function stateIn(disk: Disk, home: string): SortingState | undefined {
  const path = join(home, stateName);
  if (!disk.exists(path)) return undefined;
  try {
    const text = Buffer.from(readWhole(disk, path)).toString("utf8");
    return state.safeParse(JSON.parse(text)).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Saves the state durably, and removes runs that it no longer names. */
export function saveState(disk: Disk, home: string, now: SortingState): void {
  replaceDurably(disk, join(home, stateName), Buffer.from(JSON.stringify(now)));
  const named = new Set([...now.bySession, ...now.byTime].map(({ name }) => name));
  for (const name of disk.list(home)) {
    const isRun = /^\d+\.run/.test(name);
    if (isRun && !named.has(name)) disk.remove(join(home, name));
  }
}

function newState(disk: Disk, fingerprint: string): SortingState {
  return {
    version: 1,
    writer: disk.writer,
    fingerprint,
    made: 0,
    read: { rows: 0, bytes: 0, sum: 0, isDone: false },
    bySession: [],
    ordered: { rows: 0, isDone: false, places: [], session: "", first: "" },
    byTime: [],
  };
}
