// The journal of runs in a bucket: what a successor reads, whatever happens to requests.

import test from "ava";
import type { ObjectStore } from "../../../src/ports/object-store.ts";
import type { JournalEntry } from "../../../storage/cluster/run-journal.ts";
import { StoredJournal } from "../../../storage/cluster/stored-journal.ts";
import { startBucket } from "../../helpers/stores/bucket.ts";

type Entry = JournalEntry<string>;

const run = (name: string): Entry => ({ kind: "run", run: name, job: { name } });

const journalOf = (objects: ObjectStore, term: number, confirm = () => {}) =>
  new StoredJournal<string>({ objects, term, confirm });

test("a successor reads all entries, and objects of former terms are removed", async (t) => {
  const { bucket, objects } = await startBucket();
  const first = journalOf(objects, 1);
  t.deepEqual(await first.readFormer(), { entries: [], damaged: 0 });
  await first.begin([]);
  const entries = Array.from({ length: 40 }, (_, at) => run(`r${at}`));
  for (const entry of entries) {
    first.append([entry]);
    await first.synced();
  }
  await first.close();
  journalOf(objects, 2); // Leader 2 dies before it begins a journal.
  const third = journalOf(objects, 3);
  const former = await third.readFormer();
  t.deepEqual(former, { entries, damaged: 0 });
  await third.begin(former.entries);
  first.append([run("late")]); // Ignored: the journal is closed.
  await first.synced();
  third.append([run("more")]);
  await third.synced();
  t.deepEqual(bucket.keys, [
    "lease/runs/00000003/0001/000000.jsonl",
    "lease/runs/00000003/0001/000001.jsonl",
    "lease/runs/00000003/0001/begun",
  ]);
  t.deepEqual((await journalOf(objects, 4).readFormer()).entries, [...entries, run("more")]);
});

test("a journal begins a new series if it is long, or if its store lost it", async (t) => {
  const { bucket, objects } = await startBucket();
  const journal = journalOf(objects, 1);
  await journal.begin([run("a")]);
  for (let times = 0; times < 257; times++) {
    t.false(journal.isLong);
    journal.append([{ kind: "event", run: "a", event: "x" }]);
    await journal.synced();
  }
  t.true(journal.isLong);
  journal.append([run("b")]);
  await journal.begin([run("a"), run("b")]);
  t.false(journal.isLong);
  t.deepEqual(bucket.keys, [
    "lease/runs/00000001/0001/begun",
    "lease/runs/00000001/0002/000000.jsonl",
    "lease/runs/00000001/0002/begun",
  ]);
  for (const key of bucket.keys) bucket.plant(key);
  journal.forgotten();
  t.true(journal.isLong);
  journal.append([run("c")]);
  await journal.begin([run("a"), run("b"), run("c")]);
  t.deepEqual((await journalOf(objects, 2).readFormer()).entries, [run("a"), run("b"), run("c")]);
});

test("an entry longer than an object gets an object of its own; many become several", async (t) => {
  const { bucket, objects } = await startBucket();
  const journal = journalOf(objects, 1);
  const wide = (name: string, length: number): Entry => ({
    ...{ kind: "run", run: name },
    job: { tables: "x".repeat(length) },
  });
  const entries = [run("a"), wide("b", 5 * 2 ** 20), wide("c", 3 * 2 ** 20), wide("d", 2 ** 21)];
  await journal.begin(entries);
  t.is(bucket.keys.length, 5);
  t.deepEqual((await journalOf(objects, 2).readFormer()).entries, entries);
});

test("a refused write is repeated as it was, so that a late repetition changes nothing", async (t) => {
  const { bucket, objects } = await startBucket();
  const journal = journalOf(objects, 1);
  await journal.begin([]);
  journal.append([run("a")]);
  // The first attempt is late: it is carried out after the next entry is acknowledged.
  bucket.fault(1, { kind: "delayed", after: 6 });
  bucket.fault(2, { kind: "unavailable" }, 1);
  bucket.fault(3, { kind: "unavailable" }, 1);
  await t.throwsAsync(journal.synced(), { code: "STORE_FAILED" });
  journal.append([run("b")]);
  await journal.synced();
  journal.append([run("c")]);
  for (let times = 0; times < 8; times++) await objects.size("x"); // The late request arrives.
  await journal.synced();
  const { entries } = await journalOf(objects, 2).readFormer();
  t.deepEqual(entries, [run("a"), run("b"), run("c")]);
});

test("a leader that was replaced while it began a journal removes nothing", async (t) => {
  const { objects } = await startBucket();
  const first = journalOf(objects, 1);
  await first.begin([run("a")]);
  const second = journalOf(objects, 2, () => {
    throw new Error("another process leads");
  });
  await t.throwsAsync(second.begin([run("a")]), { message: "another process leads" });
  t.deepEqual((await journalOf(objects, 2).readFormer()).entries, [run("a")]);
});

test("whatever request a leader dies at, its successor finds acknowledged entries", async (t) => {
  const written = Array.from({ length: 5 }, (_, at) => run(`r${at}`));
  const lead = async (objects: ObjectStore, acknowledged: Entry[]) => {
    for (const term of [1, 2]) {
      const journal = journalOf(objects, term);
      const { entries } = await journal.readFormer();
      await journal.begin(entries);
      for (const entry of written.slice(entries.length, 3 * term)) {
        journal.append([entry]);
        await journal.synced();
        acknowledged.push(entry);
      }
    }
  };
  const calm = await startBucket();
  await lead(calm.objects, []);
  for (const when of ["before", "after"] as const) {
    for (let request = 1; request <= calm.machine.requests; request++) {
      const { bucket, machine, objects } = await startBucket();
      const acknowledged: Entry[] = [];
      machine.crashAt(request, when);
      await t.throwsAsync(lead(objects, acknowledged), undefined, `${when} request ${request}`);
      const { entries } = await journalOf((await startBucket(bucket)).objects, 3).readFormer();
      t.deepEqual(entries.slice(0, acknowledged.length), acknowledged, `${when} ${request}`);
      t.deepEqual(entries, written.slice(0, entries.length), `${when} ${request}`);
    }
  }
});
