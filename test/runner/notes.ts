// Notes of test files for the command that runs them (run.ts): lines in a file named by an
// environment variable. AVA's own report contains neither the end of a file nor the reason of a
// skipped test. Without that variable, as in `npx ava FILE`, nothing is noted.

import { appendFileSync, readFileSync } from "node:fs";

/** The cost of one test file, in seconds of processor time, except for `wall`. */
export interface FileCost {
  readonly wall: number;
  /** Node, AVA, and the modules that the file imports. */
  readonly loading: number;
  /** The thread that runs the tests. */
  readonly tests: number;
  /** Threads that the tests start, and the process's own: compiler and garbage collector. */
  readonly threads: number;
  /** Processes that the tests start and wait for. */
  readonly processes: number;
  readonly threadsStarted: number;
  readonly processesStarted: number;
}

export type Note =
  | { readonly kind: "begun"; readonly file: string }
  | { readonly kind: "ended"; readonly file: string; readonly seconds: number }
  | { readonly kind: "cost"; readonly file: string; readonly cost: FileCost }
  /** A skipped test. */
  | { readonly kind: "skipped"; readonly title: string; readonly reason: string }
  /** A test that tries only some of its cases: "crash points: 5 of 23". */
  | { readonly kind: "some"; readonly cases: string };

export const notesVariable = "OSIRIS_TEST_NOTES";

/** Set in `npm run test:all`, which leaves no case out. */
export const testAllVariable = "OSIRIS_TEST_ALL";

/** Appends a note. Lines are short, so that writes of several processes do not interleave. */
export function note(one: Note): void {
  const path = process.env[notesVariable];
  if (path !== undefined) appendFileSync(path, `${JSON.stringify(one)}\n`);
}

export function readNotes(path: string): Note[] {
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Note);
}
