// The limit of a run's readers, and its removal, are kept in the journal for the next leader.

import test from "ava";
import { RunRecord } from "../../../../actors/run/state/run-record.ts";
import type { RunEvent } from "../../../../index.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import type { JournalEntry } from "../../../../storage/cluster/run-journal.ts";
import { smallData, smallModel } from "../../../helpers/clusters/clusters.ts";

const job = resolveJob({
  model: smallModel,
  data: smallData,
  checkpoint: { everySteps: 10, directory: "run" },
});

function newRecord() {
  const journal: JournalEntry<RunEvent>[] = [];
  const keeper = { keep: (entry: JournalEntry<RunEvent>) => void journal.push(entry) };
  return { record: new RunRecord({ run: "r1", job }, () => {}, keeper), journal };
}

function successorOf(journal: readonly JournalEntry<RunEvent>[]): RunRecord {
  const { record } = newRecord();
  for (const entry of journal) if (entry.kind !== "run") record.restore(entry);
  return record;
}

test("the next leader finds a reader limit in the journal, and in the compacted journal", (t) => {
  const { record, journal } = newRecord();
  record.readers.limit = 500;
  t.is(successorOf(journal).readers.limit, 500);
  t.is(successorOf([...record.entries()]).readers.limit, 500);
  record.readers.limit = 0;
  t.is(successorOf(journal).readers.limit, 0);
  t.is(successorOf([...record.entries()]).readers.limit, 0);
});

test("a reader request is published until it is answered or withdrawn, and answered once", (t) => {
  const { record } = newRecord();
  let calls = 0;
  record.onRequest(() => calls++);
  const answers: string[] = [];
  const ask = (reader: number) => {
    const request = { kind: "drain", reader, step: 0 } as const;
    return record.readers.add({ ...request, answered: ({ kind }) => answers.push(kind) });
  };
  ask(0);
  const withdraw = ask(1);
  t.is(calls, 2);
  const [first, second] = record.readers.requests;
  if (first === undefined || second === undefined) return t.fail();
  withdraw();
  record.readers.answer(first, { kind: "missing" });
  record.readers.answer(first, { kind: "missing" });
  record.readers.answer(second, { kind: "missing" });
  t.deepEqual(answers, ["missing"]);
  t.deepEqual(record.readers.requests, []);
});
