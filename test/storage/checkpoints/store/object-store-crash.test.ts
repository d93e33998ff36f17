// A checkpoint store in an object store: its machine crashes before and after every request, its
// requests and answers are lost, repeated or late, and its writers race. After each, the newest
// checkpoint is the one before or the one after, byte for byte, nothing counts as damaged, and the
// run can finish.

import test, { type ExecutionContext } from "ava";
import { BucketMachine } from "../../../../chaos/objects/bucket-machine.ts";
import { MemoryBucket, type StoreFault } from "../../../../chaos/objects/memory-bucket.ts";
import { GenerationFencedError, StoreFailedError } from "../../../../src/errors/errors.ts";
import { SimulatedCrash } from "../../../../src/ports/simulated-disk.ts";
import type { Manifest } from "../../../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../../../storage/checkpoints/store/open-store.ts";
import {
  commitCheckpoint,
  contentOf,
  diskOver,
  testJob,
} from "../../../helpers/stores/checkpoints.ts";
import { stride, thinned } from "../../../helpers/thinned.ts";

const cuts = [10, 20, 30, 40];

/**
 * Resumes from the newest checkpoint and trains to the last cut; 20 and 30 are increments on 10.
 * Calls `committed` after every commit.
 */
async function train(
  t: ExecutionContext,
  machine: BucketMachine,
  bucket: MemoryBucket,
  committed: (cut: number) => void = () => undefined,
): Promise<number> {
  const disk = diskOver(bucket, machine);
  const store = openStore({ directory: "s3://bucket/run", disk, packBytes: 60, ...testJob });
  let { generation, latest, damaged } = store.beginGeneration();
  const chain = store.list();
  t.deepEqual([damaged, chain.damaged], [[], []]);
  for (const manifest of chain.manifests) {
    for (const { name, base } of manifest.parts) {
      const ofCuts = [manifest.cut, ...base.map(({ cut }) => cut).reverse()];
      const files = store.readFiles(manifest, name).map((pieces) => Buffer.concat([...pieces]));
      t.deepEqual(
        files.map((bytes) => Uint8Array.from(bytes)),
        ofCuts.map((cut) => contentOf(cut, name)),
      );
    }
  }
  const from = latest?.cut ?? 0;
  committed(from);
  await store.collect({ generation, keep: 1 });
  for (const cut of cuts.filter((one) => one > from)) {
    const on = cut === 40 ? undefined : latest;
    latest = commitCheckpoint(store, { generation, cut, best: cut === 10, on });
    committed(cut);
    await store.collect({ generation, keep: 1 });
  }
  t.deepEqual(
    store.list().manifests.map((one) => one.cut),
    [40, 10],
  );
  return from;
}

/** Trains until the machine crashes or the store fails; returns the newest committed cut. */
async function trainUntilFailure(
  t: ExecutionContext,
  machine: BucketMachine,
  bucket: MemoryBucket,
) {
  let newest = 0;
  try {
    await train(t, machine, bucket, (cut) => {
      newest = cut;
    });
  } catch (error) {
    const isExpected = error instanceof SimulatedCrash || error instanceof StoreFailedError;
    if (!isExpected) throw error;
  }
  return newest;
}

async function requestsOfARun(t: ExecutionContext): Promise<number> {
  const bucket = new MemoryBucket();
  const machine = new BucketMachine(bucket);
  await train(t, machine, bucket);
  return machine.requests;
}

test("after a crash before or after any request the newest checkpoint is the old or the new one", async (t) => {
  const requests = await requestsOfARun(t);
  t.log(`${requests} requests a run`);
  for (const when of ["before", "after"] as const) {
    for (let at = 1; at <= requests; at++) {
      const bucket = new MemoryBucket();
      const machine = new BucketMachine(bucket);
      machine.crashAt(at, when);
      const newest = await trainUntilFailure(t, machine, bucket);
      const from = await train(t, new BucketMachine(bucket), bucket);
      t.true(from === newest || from === newest + 10, `${when} request ${at}: ${from}`);
    }
  }
});

const faults: readonly StoreFault[] = [
  { kind: "request-lost" },
  { kind: "answer-lost" },
  { kind: "duplicated", after: 1 },
  { kind: "duplicated", after: 40 },
  { kind: "delayed", after: 3 },
  { kind: "delayed", after: 40 },
  { kind: "torn" },
  { kind: "conflict" },
  { kind: "slow", ms: 3_600_000 },
];

test("a request or an answer that is lost, torn, repeated or late changes nothing", async (t) => {
  const requests = await requestsOfARun(t);
  const step = stride("faulty requests of a store", 3);
  for (const [i, fault] of faults.entries()) {
    for (let at = 1 + (i % step); at <= requests; at += step) {
      const bucket = new MemoryBucket();
      bucket.fault(at, fault);
      await train(t, new BucketMachine(bucket), bucket);
      t.is(await train(t, new BucketMachine(bucket), bucket), 40, `${fault.kind} ${at}`);
    }
  }
});

test("if a store stays unreachable, the run fails by name and the next continues", async (t) => {
  const requests = await requestsOfARun(t);
  for (const kind of thinned("outages", ["answer-lost", "request-lost"] as const)) {
    for (let at = 1; at <= requests; at++) {
      const bucket = new MemoryBucket();
      // From request `at` on, the first machine gets no answer; two of its requests arrive in the
      // next run.
      bucket.fault((_, index) => index >= at && index < at + 2, { kind: "delayed", after: 60 }, 2);
      const machine = new BucketMachine(bucket);
      bucket.fault(() => machine.requests >= at && !isNext, { kind }, 10_000);
      let isNext = false;
      const newest = await trainUntilFailure(t, machine, bucket);
      isNext = true;
      const from = await train(t, new BucketMachine(bucket), bucket);
      t.true(
        from === newest || from === newest + 10,
        `${kind} from ${at}: ${from} after ${newest}`,
      );
      t.is(await train(t, new BucketMachine(bucket), bucket), 40);
    }
  }
});

test("a claim between any two requests of a writer fences it, and loses none of its commits", async (t) => {
  const requests = await requestsOfARun(t);
  for (let at = 1; at <= requests; at++) {
    const bucket = new MemoryBucket();
    let next: { readonly generation: number; readonly cut: number | undefined } | undefined;
    let isClaiming = false;
    let calls = 0;
    const claim = () => {
      if (isClaiming || ++calls !== at) return;
      isClaiming = true;
      const disk = diskOver(bucket);
      const store = openStore({ directory: "s3://bucket/run", disk, ...testJob });
      const { generation, latest, damaged } = store.beginGeneration();
      t.deepEqual(damaged, []);
      next = { generation, cut: latest?.cut };
      isClaiming = false;
    };
    let newest = 0;
    const writer = new BucketMachine(bucket, { before: claim });
    const training = train(t, writer, bucket, (cut) => {
      newest = cut;
    });
    // A claim before the writer's own claim does not fence it.
    const end = await training.catch((error: unknown) => error);
    t.true(next !== undefined);
    if (next?.generation !== 1) {
      const isFenced = end instanceof GenerationFencedError;
      t.true(isFenced || newest === 40, `request ${at}: ${end}`);
      t.is(next?.cut ?? 0, newest, `request ${at}`);
    }
    const from = await train(t, new BucketMachine(bucket), bucket);
    t.true(from >= newest && from >= (next?.cut ?? 0), `request ${at}`);
  }
});

test("a late collector removes nothing that a newer generation continues from", async (t) => {
  for (let at = 1, isOver = false; !isOver; at++) {
    const bucket = new MemoryBucket();
    let store = openStore({ directory: "s3://bucket/run", disk: diskOver(bucket), ...testJob });
    store.beginGeneration();
    const [, , third] = [10, 20, 30].map((cut) => commitCheckpoint(store, { generation: 1, cut }));
    let calls = 0;
    let isCollecting = false;
    let continued: Manifest | undefined;
    const claim = () => {
      if (!isCollecting || ++calls !== at) return;
      const next = openStore({ directory: "s3://bucket/run", disk: diskOver(bucket), ...testJob });
      // A reader has found the newest one damaged.
      continued = next.beginGeneration(undefined, [third?.sha256 ?? ""]).latest;
    };
    const disk = diskOver(bucket, new BucketMachine(bucket, { before: claim }));
    store = openStore({ directory: "s3://bucket/run", disk, ...testJob });
    isCollecting = true;
    await store.collect({ generation: 1, keep: 1 }).catch((error: unknown) => {
      t.true(error instanceof GenerationFencedError, String(error));
    });
    isOver = calls < at;
    if (continued !== undefined) await t.notThrowsAsync(store.verify(continued), `request ${at}`);
    t.true(at < 100);
  }
});
