// The journal of a cluster's runs, which each leader continues.

import test from "ava";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { FileJournal } from "../../../storage/cluster/file-journal.ts";
import type { JournalEntry } from "../../../storage/cluster/run-journal.ts";
import { startDirectory } from "../../data/data-files.ts";

type Entry = JournalEntry<string>;

const run = (name: string): Entry => ({ kind: "run", run: name, job: { name } });
const event = (name: string, what: string): Entry => ({ kind: "event", run: name, event: what });

const journalOf = (disk: Disk, term: number) => new FileJournal<string>(disk, "/lease", term);

test("a journal holds the entries of the one before, and those appended since", async (t) => {
  const directory = startDirectory(t);
  const open = (term: number) => new FileJournal<string>(realDisk, directory, term);
  const first = open(1);
  t.deepEqual(first.readFormer(), { entries: [], damaged: 0 });
  first.begin([]);
  const entries = [run("b"), run("a"), event("a", "x"), event("a", "y")];
  first.append(entries.slice(0, 1));
  first.append(entries.slice(1));
  await first.synced();
  await first.close();
  const second = open(3);
  const former = second.readFormer();
  t.deepEqual(former, { entries, damaged: 0 });
  second.begin(former.entries);
  second.append([{ kind: "request", run: "a", cancel: true }]);
  await second.close();
  const third = open(4);
  t.deepEqual(third.readFormer().entries, [
    ...entries,
    { kind: "request", run: "a", cancel: true },
  ]);
  await third.close();
});

test("a long journal is written in pieces, as a string has at most half a billion characters", (t) => {
  const disk = new SimulatedDisk();
  const open = disk.open.bind(disk);
  let longest = 0;
  disk.open = (path, mode) => {
    const file = open(path, mode);
    const write: typeof file.write = (bytes, offset) => {
      longest = Math.max(longest, bytes.length);
      file.write(bytes, offset);
    };
    return { ...file, write };
  };
  const entries = Array.from({ length: 20 }, (_, at) => event("a", `${at} ${"é".repeat(5e5)}`));
  journalOf(disk, 1).begin(entries);
  t.true(longest < 10e6, `${longest}`);
  t.deepEqual(journalOf(disk, 2).readFormer(), { entries, damaged: 0 });
});

test("entries that a former leader still writes are ignored", async (t) => {
  const disk = new SimulatedDisk();
  const first = journalOf(disk, 1);
  first.begin([run("a")]);
  const second = journalOf(disk, 3);
  second.begin(second.readFormer().entries);
  first.append([run("lost")]);
  t.deepEqual(journalOf(disk, 4).readFormer().entries, [run("a")]);
  t.deepEqual(disk.list("/lease/runs"), ["00000003.jsonl"]);
});

test("a torn last line is ignored; a damaged line before it is reported", async (t) => {
  const disk = new SimulatedDisk();
  const journal = journalOf(disk, 1);
  journal.begin([run("a"), run("b")]);
  journal.append([event("a", "x")]);
  const file = disk.open("/lease/runs/00000001.jsonl", "update");
  const last = file.size() - 3;
  file.truncate(last);
  const read = async () => journalOf(disk, 2).readFormer();
  const whole = { entries: [run("a"), run("b")], damaged: 0 };
  t.deepEqual(await read(), whole);
  file.write(new TextEncoder().encode("\n"), last);
  t.deepEqual(await read(), whole);
  file.write(new TextEncoder().encode("!"), 20);
  t.deepEqual(await read(), { entries: [run("b")], damaged: 1 });
});

test("after a power cut at any moment the journal has what was synced, and no line never written", async (t) => {
  const written = Array.from({ length: 6 }, (_, at) => run(`r${at}`));
  const runJob = async (disk: SimulatedDisk) => {
    const synced: Entry[] = [];
    try {
      const first = journalOf(disk, 1);
      first.begin([]);
      first.append(written.slice(0, 3));
      await first.synced();
      synced.push(...written.slice(0, 3));
      const second = journalOf(disk, 2);
      second.begin(second.readFormer().entries);
      for (const entry of written.slice(3)) {
        second.append([entry]);
        await second.synced();
        synced.push(entry);
      }
    } catch {}
    return synced;
  };
  const calm = new SimulatedDisk({ seed: 1 });
  await runJob(calm);
  for (let at = 0; at < calm.operations; at++) {
    const disk = new SimulatedDisk({ seed: at });
    disk.crashAt(at);
    const synced = await runJob(disk);
    disk.crash();
    const { entries, damaged } = journalOf(disk, 9).readFormer();
    t.deepEqual(entries.slice(0, synced.length), synced, `cut at ${at}`);
    t.deepEqual(entries, written.slice(0, entries.length), `cut at ${at}`);
    t.is(damaged, 0, `cut at ${at}`);
  }
});
