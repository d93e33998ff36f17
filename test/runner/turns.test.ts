// Tests that are alike take turns: in each run of all tests some of them wait, and no test waits
// twice as long as the others. Whoever runs a file of tests runs all of them.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { isSoak, waitsForTurn } from "../helpers/thinned.ts";
import { notesVariable, readNotes, turnVariable } from "./notes.ts";

const titles = Array.from({ length: 30 }, (_, i) => `a model ${"x".repeat(i)} is one`);

/** The titles that wait in this turn of a run, and those that the run notes as skipped. */
function waitingIn(t: ExecutionContext, { turn, nth }: { turn?: string; nth: number }) {
  const directory = mkdtempSync(join(tmpdir(), "osiris-turns-"));
  const notes = join(directory, "notes");
  const before = { ...process.env };
  try {
    process.env[notesVariable] = notes;
    if (turn === undefined) delete process.env[turnVariable];
    else process.env[turnVariable] = turn;
    // Of the context of a test, a turn asks for these two alone.
    const probe = (title: string) => ({ title, pass: () => true }) as unknown as ExecutionContext;
    const waiting = titles.filter((title) => waitsForTurn(probe(title), nth));
    const noted = waiting.length === 0 ? [] : readNotes(notes);
    t.true(noted.every((one) => one.kind === "skipped" && one.reason.includes(`${turn}`)));
    t.is(noted.length, waiting.length);
    return waiting;
  } finally {
    for (const name of [notesVariable, turnVariable]) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
    rmSync(directory, { recursive: true, force: true });
  }
}

for (const nth of [2, 3]) {
  test.serial(`of ${nth} turns each test has one, and none has a turn twice`, (t) => {
    const runs = new Map(titles.map((title) => [title, 0]));
    for (let turn = 0; turn < nth; turn++) {
      const waiting = waitingIn(t, { turn: `${turn}`, nth });
      for (const title of titles) {
        if (!waiting.includes(title)) runs.set(title, (runs.get(title) ?? 0) + 1);
      }
      t.true(isSoak || (waiting.length > 0 && waiting.length < titles.length));
    }
    t.deepEqual(new Set(runs.values()), new Set([isSoak ? nth : 1]));
  });
}

test.serial("whoever names a file of tests runs all of them", (t) => {
  t.deepEqual(waitingIn(t, { nth: 2 }), []);
});
