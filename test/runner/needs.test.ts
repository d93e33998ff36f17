// What a machine lacks is skipped with its reason, but for what CI has to have: a nats-server, the
// native kernels, RocksDB. Without one of them CI fails, wherever the clone lies.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import {
  dataFile,
  lacks,
  type Need,
  nativeKernels,
  natsServer,
  rocksDb,
} from "../helpers/needs.ts";
import { listTree, textOf } from "../helpers/tree.ts";
import { notesVariable, readNotes } from "./notes.ts";

/** What `lacks` did to a test: that test failed, or was noted with a reason. */
function asked(need: Need, environment: { CI?: string }) {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  const path = join(directory, "notes");
  const before = { CI: process.env.CI, [notesVariable]: process.env[notesVariable] };
  const failures: string[] = [];
  const probe = {
    title: "a test",
    log() {},
    pass: () => true,
    fail: (message: string) => failures.push(message) > 0,
  };
  try {
    setAll({ CI: environment.CI, [notesVariable]: path });
    const isMissing = lacks(probe as unknown as ExecutionContext, need);
    setAll(before);
    const notes = failures.length === 0 && isMissing ? readNotes(path) : [];
    return { isMissing, failures, notes };
  } finally {
    setAll(before);
    rmSync(directory, { recursive: true, force: true });
  }
}

function setAll(variables: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

const missing = (need: Need): Need => ({ ...need, isMet: () => false });

for (const [name, need] of Object.entries({ natsServer, nativeKernels, rocksDb })) {
  test.serial(`without ${name} CI fails; elsewhere the test is noted as skipped`, (t) => {
    const inCi = asked(missing(need), { CI: "true" });
    t.deepEqual(inCi.failures, [`${need.reason} CI has to run this test.`]);
    t.true(inCi.isMissing);
    const elsewhere = asked(missing(need), {});
    t.deepEqual(elsewhere.failures, []);
    t.deepEqual(elsewhere.notes, [{ kind: "skipped", title: "a test", reason: need.reason }]);
  });
}

test.serial("real data that are not there are skipped in CI too, with their place", (t) => {
  const { failures, notes } = asked(dataFile("no/such.csv.gz"), { CI: "true" });
  t.deepEqual(failures, []);
  const reason = "../shared/data/no/such.csv.gz is not here.";
  t.deepEqual(notes, [{ kind: "skipped", title: "a test", reason }]);
});

test.serial("what is there is neither failed nor noted", (t) => {
  const met: Need = { ...natsServer, isMet: () => true };
  t.deepEqual(asked(met, { CI: "true" }), { isMissing: false, failures: [], notes: [] });
});

test("no test leaves something out past the list at the end of `npm test`", (t) => {
  const probes =
    /hasNatsServer\(|hasNamespaces\(|\btest(\.\w+)*\.skip\b|"\.\.\/shared|`\.\.\/shared/;
  const own = /^test\/(helpers\/(needs|nats\/.*)|runner\/.*)\.ts$/;
  const wrong = listTree().filter(
    (path) => /^test\/.*\.ts$/.test(path) && !own.test(path) && probes.test(textOf(path)),
  );
  t.deepEqual(wrong, []);
});
