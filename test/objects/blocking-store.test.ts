// The blocking form over the network: the bucket's server runs in a thread of its own, because this
// thread waits for the answers.

import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import test, { type ExecutionContext } from "ava";
import type { BucketFlaws } from "../../chaos/objects/memory-bucket.ts";
import { blockingObjectStore, promisesOf } from "../../src/objects/open-object-store.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { seatOfThreads } from "../../src/ports/launcher.ts";
import { seatWords } from "../../src/ports/process-seat.ts";
import { openStore } from "../../storage/checkpoints/store/open-store.ts";
import { setEnvironment } from "../helpers/environment.ts";
import { startNode } from "../helpers/processes/start-cli.ts";
import { keepsLongObjects, keepsObjects, same, someBytes } from "../suites/object-store.ts";
import { bucketEnvironment, quickLimits } from "./bucket-server.ts";

const address = "s3://bucket/some/prefix";

async function startThread(t: ExecutionContext, program: string, data: object): Promise<Worker> {
  const thread = new Worker(new URL(program, import.meta.url), { workerData: data });
  t.teardown(() => thread.terminate());
  return thread;
}

/** A bucket's server in another thread, and a blocking store over it. */
async function startStore(t: ExecutionContext, flaws: BucketFlaws = {}) {
  const thread = await startThread(t, "bucket-server-thread.js", { flaws });
  const [endpoint] = (await once(thread, "message")) as [string];
  setEnvironment(t, bucketEnvironment(endpoint));
  return { store: blockingObjectStore(address, realDisk, quickLimits), endpoint };
}

test.serial("a thread that blocks reads and writes the same objects", async (t) => {
  const { store } = await startStore(t);
  await keepsObjects(t, promisesOf(store));
  await keepsLongObjects(t, promisesOf(store));
});

test.serial("long objects are prefetched for a thread that blocks", async (t) => {
  const { store } = await startStore(t);
  const bytes = someBytes(0x180_0007);
  store.put("long", bytes);
  const reader = store.open("long");
  const whole = new Uint8Array(bytes.length);
  t.is(reader?.read(whole, 0), bytes.length);
  same(t, whole, bytes);
});

test.serial("a store's refusal is thrown in the blocking thread as it was", async (t) => {
  const { endpoint } = await startStore(t);
  setEnvironment(t, { ...bucketEnvironment(endpoint), AWS_SECRET_ACCESS_KEY: "wrong" });
  const store = blockingObjectStore(address, realDisk, quickLimits);
  t.throws(() => store.get("one"), { code: "INPUT_UNUSABLE", message: /SignatureDoesNotMatch/ });
  setEnvironment(t, {
    ...{ ...bucketEnvironment(endpoint), AWS_ACCESS_KEY_ID: undefined, HOME: "/nowhere" },
    ...{ AWS_WEB_IDENTITY_TOKEN_FILE: "/nowhere/token", AWS_ROLE_ARN: "role" },
  });
  const other = blockingObjectStore(address, realDisk, quickLimits);
  t.throws(() => other.get("one"), {
    code: "INPUT_UNUSABLE",
    message: /from web identity .*: the file with its token cannot be read/,
  });
});

test.serial("checkpoints are not begun in a store that does not fence writers", async (t) => {
  await startStore(t, { isUnfenced: true });
  const of = { directory: address, jobIdentity: "a".repeat(64), jobText: "{}" };
  t.throws(() => openStore(of), { code: "STORE_UNFENCED", message: /If-None-Match/ });
});

test.serial("blocking threads share a service thread, and replace a dead one", async (t) => {
  const { store } = await startStore(t);
  store.put("one", Buffer.from("1"));
  const seat = seatOfThreads();
  const epoch = Atomics.load(seat, seatWords.epoch);
  const threads = await Promise.all(
    Array.from({ length: 3 }, () => startThread(t, "blocking-thread.js", { address })),
  );
  const messages = await Promise.all(threads.map((thread) => once(thread, "message")));
  t.deepEqual(
    messages.map(([message]) => message as unknown),
    ["1", "1", "1"],
  );
  t.is(Atomics.load(seat, seatWords.epoch), epoch, "no other service was started");
  // Simulates a dead service: without a heartbeat, and of another epoch.
  Atomics.store(seat, seatWords.beat, 0);
  Atomics.add(seat, seatWords.epoch, 1);
  same(t, store.get("one"), Buffer.from("1"));
  t.is(Atomics.load(seat, seatWords.epoch), epoch + 2);
});

test.serial(
  "the service thread outlives the thread that started it, and ends with the process",
  async (t) => {
    const { store } = await startStore(t);
    store.put("one", Buffer.from("1"));
    const program = fileURLToPath(new URL("blocking-process.js", import.meta.url));
    const { code, stdout, stderr } = await startNode([program, address], process.cwd()).ended;
    t.is(stdout, "1 1, services: 1\n");
    t.is(code, 0, stderr);
  },
);
