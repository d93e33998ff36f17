// What is sorted so far, on disk: a process that is killed goes on from there. The state is
// replaced after each run; files that it does not name are leftovers.
//
//   OUT.clustering/
//     state.json     the runs, and what they are of
//     3.run …        rows in order
//     table/         the files of the table, until all of them are there
//     report.json    the table is whole: only its name is left to be given

import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { InputUnusableError } from "../../src/errors/errors.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { makeDurableDirectory, readWhole, replaceDurably } from "../disk/durable-files.ts";

/** A name becomes a path in the directory. */
const run = z.object({ name: z.string().regex(/^\d+\.run$/), bytes: z.int(), rows: z.int() });
export type Run = z.output<typeof run>;

const state = z.object({
  version: z.literal(1),
  /** The process that sorts. */
  writer: z.string(),
  /** Of the files, and of what they are sorted by. */
  fingerprint: z.string(),
  /** Runs so far, of which their names are made. */
  made: z.int(),
  /** Rows that lie in the runs by session; `sum`: of their checksums. */
  read: z.object({ rows: z.int(), bytes: z.int(), sum: z.int(), isDone: z.boolean() }),
  bySession: z.array(run),
  /** Rows that lie in the runs by time. The runs by session are read on at `places`. */
  ordered: z.object({
    rows: z.int(),
    isDone: z.boolean(),
    places: z.array(z.int()),
    /** Hex: the session of the last of them, and its first time. */
    session: z.string(),
    first: z.string(),
  }),
  byTime: z.array(run),
});
export type SortingState = z.output<typeof state>;

const stateName = "state.json";
export const reportName = "report.json";
export const tableName = "table";

/** What the state is of: what decides the order of the rows, and the rows. */
export function fingerprintOf(what: unknown): string {
  const text = JSON.stringify(what, (_, value) => {
    return typeof value === "bigint" ? String(value) : value;
  });
  return createHash("sha256").update(text).digest("hex");
}

/**
 * The state in `home` as a process left it that has ended, or a new one where that is of other
 * files. @throws InputUnusableError where another process may be at work
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

/** Undefined: there is none that this release can go on from. */
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

/** Puts the state on disk, and removes what it does not name any more. */
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
