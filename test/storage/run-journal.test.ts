import test from "ava";
import { SimulatedDisk } from "../../src/simulated-disk.ts";
import { type JournalEntry, RunJournal } from "../../storage/run-journal.ts";

type Entry = JournalEntry<string>;

const run = (name: string): Entry => ({ kind: "run", run: name, job: { name } });
const event = (name: string, what: string): Entry => ({ kind: "event", run: name, event: what });

test("a journal holds what the one before held, and what was added since", (t) => {
  const disk = new SimulatedDisk();
  const first = new RunJournal<string>(disk, "/lease", 1);
  t.deepEqual(first.readFormer(), []);
  first.begin([]);
  for (const entry of [run("a"), event("a", "x")]) first.append(entry);
  const second = new RunJournal<string>(disk, "/lease", 3);
  const former = second.readFormer();
  t.deepEqual(former, [run("a"), event("a", "x")]);
  second.begin(former);
  // The former leader does not know yet: nobody reads what it still writes.
  first.append(run("lost"));
  second.append({ kind: "wish", run: "a", cancel: true });
  t.deepEqual(new RunJournal<string>(disk, "/lease", 4).readFormer(), [
    ...former,
    { kind: "wish", run: "a", cancel: true },
  ]);
  t.deepEqual(disk.list("/lease/runs"), ["00000003.jsonl"]);
});

test("a torn line is none", (t) => {
  const disk = new SimulatedDisk();
  const journal = new RunJournal<string>(disk, "/lease", 1);
  journal.begin([run("a")]);
  journal.append(event("a", "x"));
  const file = disk.open("/lease/runs/00000001.jsonl", "update");
  const last = file.size() - 3;
  file.truncate(last);
  t.deepEqual(new RunJournal<string>(disk, "/lease", 2).readFormer(), [run("a")]);
  file.write(new TextEncoder().encode("\n"), last);
  t.deepEqual(new RunJournal<string>(disk, "/lease", 2).readFormer(), [run("a")]);
});
