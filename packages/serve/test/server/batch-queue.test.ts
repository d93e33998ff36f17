// The queue of a served version: requests that wait at the same time are scored as one batch,
// within limits.

import test from "ava";
import {
  InvalidOptionError,
  ModelUnavailableError,
  RequestExpiredError,
  ServerBusyError,
} from "../../../../src/errors/errors.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import { Backlog, BatchQueue, BatchTimes, type Work } from "../../server/models/batch-queue.ts";
import type { ScoringCall, ScoringEngine } from "../../server/models/engine.ts";

const job = resolveJob({
  model: {
    kind: "dlrm",
    dense: 1,
    tables: [{ name: "A", rows: 9, dim: 2 }],
    bottom: [2],
    top: [1],
  },
  data: { kind: "synthetic", samples: 8, dense: 1, batchSize: 4 },
  checkpoint: { directory: "unused" },
});

/** A queue over an engine that a test can hold; `batches` lists the batches that it scored. */
function startQueue({ samples = 100, batchMax = 8, latencyBudgetMs = 10 } = {}) {
  const clock = new SimulatedClock();
  const batches: number[][] = [];
  const turns: (() => void)[] = [];
  let scoreMs = 1;
  let hold: Promise<void> | undefined;
  const version = { digest: "sha256:00", step: 1 };
  const engine = {
    ...{ job, tasks: ["label"], version },
    async predict(records: readonly { readonly id?: number }[]) {
      batches.push(records.map(({ id }) => id ?? -1));
      if (records.some(({ id }) => id === 13)) throw new InvalidOptionError("records[0]", "bad");
      clock.advance(scoreMs * records.length);
      await hold;
      return { scores: Float32Array.from(records, ({ id }) => id ?? -1), version };
    },
  } as unknown as ScoringEngine;
  let hangs = 0;
  const backlog = new Backlog("m", { samples, bytes: 1000 });
  const queue = new BatchQueue({
    ...{ model: "m", engine, backlog, clock, batchMax, latencyBudgetMs, engineMs: 500 },
    nextTurn: (task) => turns.push(task),
    onBatch: () => {},
    onHang: () => hangs++,
  });
  const submit = (ids: readonly number[], more: Partial<Work> = {}) => {
    const call = { kind: "records", records: ids.map((id) => ({ id })) } as unknown as ScoringCall;
    const until = { untilMs: clock.now() + 100, deadlineMs: 100, isGone: () => false };
    const work = { call, bytes: 10, ...until, ...more };
    const answer = new Promise<Awaited<ReturnType<typeof queue.submit>>>((resolve) => {
      resolve(queue.submit(work));
    });
    answer.catch(() => {});
    return answer;
  };
  /** Runs pending turns until none is left. */
  const settle = async () => {
    for (let left = 50; left > 0; left--) {
      turns.shift()?.();
      await Promise.resolve();
    }
  };
  return {
    ...{ clock, queue, backlog, batches, submit, settle },
    hangs: () => hangs,
    slow: (ms: number) => {
      scoreMs = ms;
    },
    holdUntil: (until: Promise<void>) => {
      hold = until;
    },
  };
}

test("requests of one event-loop turn are one batch, and each caller gets its own scores", async (t) => {
  const { submit, settle, batches, backlog } = startQueue();
  const answers = [submit([1, 2]), submit([3]), submit([4])];
  await settle();
  t.deepEqual(batches, [[1, 2, 3, 4]]);
  const scores = await Promise.all(answers.map(async (one) => [...(await one).scores]));
  t.deepEqual(scores, [[1, 2], [3], [4]]);
  t.like(backlog, { samples: 0, bytes: 0, requests: 0 });
});

test("requests that arrive while the engine is busy form the next batches, up to `batchMax`", async (t) => {
  const { submit, settle, batches, holdUntil, queue } = startQueue({ batchMax: 3 });
  let go = () => {};
  holdUntil(new Promise((resolve) => (go = resolve)));
  const first = submit([1]);
  await settle();
  const others = [submit([2, 3]), submit([4]), submit([5, 6])];
  go();
  await settle();
  t.deepEqual(batches, [[1], [2, 3, 4], [5, 6]]);
  await Promise.all([first, ...others]);
  await queue.idle();
});

test("a batch takes no longer than the latency budget, by the engine's measured speed", async (t) => {
  const { submit, settle, batches, slow } = startQueue({ latencyBudgetMs: 10 });
  slow(5); // The budget allows two samples.
  await Promise.all([submit([1]), settle()]);
  const all = [submit([2]), submit([3]), submit([4])];
  await settle();
  await Promise.all(all);
  t.deepEqual(batches, [[1], [2, 3], [4]]);
});

test("a single slow batch of one sample does not prevent larger batches", async (t) => {
  const { submit, settle, batches, slow } = startQueue({ latencyBudgetMs: 10 });
  const some = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => submit([from + i]));
  await Promise.all([...some(1, 8), settle()]); // 1 ms per sample.
  slow(80);
  await Promise.all([submit([20]), settle()]);
  slow(1);
  await Promise.all([...some(30, 8), settle()]);
  t.deepEqual(
    batches.map(({ length }) => length),
    [8, 1, 8],
  );
});

test("a batch's time is predicted from batches of its size, or in proportion from smaller ones", (t) => {
  const times = new BatchTimes();
  t.is(times.within(5), undefined);
  times.add(1, 100);
  t.is(times.within(5), 1);
  times.add(1, 100);
  times.add(4, 2);
  t.is(times.within(5), 10);
  for (let i = 0; i < 200; i++) times.add(4, 8);
  t.is(times.within(5), 2);
  times.add(64, 4);
  t.is(times.within(5), 80);
});

test("a full queue refuses with SERVER_BUSY, and accepts requests again when it is empty", async (t) => {
  const { submit, settle } = startQueue({ samples: 3 });
  const first = submit([1, 2, 3]);
  const error = await t.throwsAsync(submit([4]), { instanceOf: ServerBusyError });
  t.regex(error?.message ?? "", /3 samples wait already/);
  await settle();
  await first;
  const large = submit([5, 6, 7, 8]); // An empty queue takes a request of any size.
  const second = await t.throwsAsync(submit([9], { bytes: 2000 }), { code: "SERVER_BUSY" });
  t.true(second instanceof ServerBusyError);
  await settle();
  t.is((await large).scores.length, 4);
});

test("a request is not scored after its deadline, or if its caller has disconnected", async (t) => {
  const { submit, settle, batches, clock } = startQueue();
  const late = submit([1], { untilMs: clock.now() });
  const gone = submit([2], { isGone: () => true });
  const submitted = submit([3]);
  await settle();
  t.deepEqual(batches, [[3]]);
  await t.throwsAsync(late, { instanceOf: RequestExpiredError });
  await t.throwsAsync(gone, { instanceOf: RequestExpiredError });
  t.deepEqual([...(await submitted).scores], [3]);
});

test("an invalid request fails alone: the others of its batch are scored", async (t) => {
  const { submit, settle, batches } = startQueue();
  const answers = [submit([1]), submit([13]), submit([2])];
  await settle();
  t.deepEqual(batches, [[1, 13, 2], [1], [13], [2]]);
  await t.throwsAsync(answers[1] ?? Promise.resolve(), { instanceOf: InvalidOptionError });
  t.deepEqual([...((await answers[2])?.scores ?? [])], [2]);
});

test("an engine that hangs is reported, and its requests fail with a named error", async (t) => {
  const { submit, settle, clock, holdUntil, hangs, queue } = startQueue();
  holdUntil(new Promise(() => {}));
  const stuck = submit([1]);
  await settle();
  const waiting = submit([2]);
  clock.advance(600);
  await t.throwsAsync(stuck, { instanceOf: ModelUnavailableError });
  t.is(hangs(), 1);
  queue.abandon("its engine hung");
  await t.throwsAsync(waiting, { instanceOf: ModelUnavailableError });
  await t.throwsAsync(submit([3]), { code: "MODEL_UNAVAILABLE" });
});

test("a batch whose arrays do not fit the model is refused before it joins other requests", (t) => {
  const { queue } = startQueue();
  const batch = {
    ...{ samples: 1, dense: new Float32Array(1), lengths: Int32Array.of(2) },
    ...{ ids: Int32Array.of(1), highs: undefined, weights: undefined },
  };
  const work = { bytes: 0, untilMs: 9, deadlineMs: 9, isGone: () => false };
  const submit = () => queue.submit({ call: { kind: "batch", batch }, ...work });
  t.throws(() => void submit(), { instanceOf: InvalidOptionError, message: /batch\.ids/ });
});
