// What the files of tests tell the command that runs them (run.ts): lines in one file, which is
// named by an environment variable. ava's own report says neither when a file ends nor why a test
// was skipped. Without that variable, as in `npx ava FILE`, nothing is noted.

import { appendFileSync, readFileSync } from "node:fs";

/** What one file of tests cost. Seconds are of processor time, but for `wall`. */
export interface FileCost {
  readonly wall: number;
  /** Node, ava, and the modules that the file imports. */
  readonly loading: number;
  /** The thread that runs the tests. */
  readonly tests: number;
  /** The threads that the tests start, and the process's own: compiler and garbage collector. */
  readonly threads: number;
  /** The processes that the tests start and wait for. */
  readonly processes: number;
  readonly threadsStarted: number;
  readonly processesStarted: number;
}

export type Note =
  | { readonly kind: "begun"; readonly file: string }
  | { readonly kind: "ended"; readonly file: string; readonly seconds: number }
  | { readonly kind: "cost"; readonly file: string; readonly cost: FileCost }
  /** A test that did not run. */
  | { readonly kind: "skipped"; readonly title: string; readonly reason: string }
  /** A test that tried some of its cases: "crash points: 5 of 23". */
  | { readonly kind: "some"; readonly cases: string };

export const notesVariable = "OSIRIS_TEST_NOTES";

/** Set in `npm run test:all`, which leaves nothing out. */
export const testAllVariable = "OSIRIS_TEST_ALL";

/** Appends a note. Lines are short, so that those of several processes do not mix. */
export function note(one: Note): void {
  const path = process.env[notesVariable];
  if (path !== undefined) appendFileSync(path, `${JSON.stringify(one)}\n`);
}

export function readNotes(path: string): Note[] {
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Note);
}
