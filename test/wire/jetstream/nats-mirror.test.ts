// The entries of the queue's key-value bucket are read completely, or not at all.

import type { KV } from "@nats-io/kv";
import test from "ava";
import { RequestFailedError } from "../../../src/errors/errors.ts";
import { wholeHistory } from "../../../src/wire/jetstream/nats-mirror.ts";

/**
 * A bucket of `runs` whose n-th history ends after `ends[n]` entries; the last number is repeated.
 */
function bucketOf(runs: readonly string[], ends: readonly number[]) {
  let reads = 0;
  const bucket = {
    status: async () => ({ bucket: "queue", values: runs.length }),
    async history() {
      const end = ends[Math.min(reads++, ends.length - 1)] ?? 0;
      return (async function* () {
        for (const [i, key] of runs.slice(0, end).entries()) {
          const operation = key.startsWith("gone") ? "DEL" : "PUT";
          yield {
            key,
            operation,
            value: Buffer.from(key),
            revision: i + 1,
            delta: runs.length - i - 1,
          };
        }
      })();
    },
  } as unknown as Pick<KV, "history" | "status">; // The mirror uses only these members.
  return { bucket, reads: () => reads };
}

const atOnce = async () => {};

test("a history that a heartbeat ended early is read again until it is complete", async (t) => {
  const { bucket, reads } = bucketOf(["a", "gone-b", "c"], [0, 2, 3]);
  const found = await wholeHistory(bucket, atOnce);
  t.deepEqual([...found.keys()], ["a", "c"]);
  t.is(found.get("c")?.revision, 3);
  t.is(reads(), 3);
});

test("an empty bucket is read once; a bucket that is never complete is an error", async (t) => {
  const empty = bucketOf([], [0]);
  t.is((await wholeHistory(empty.bucket, atOnce)).size, 0);
  t.is(empty.reads(), 1);
  const { bucket } = bucketOf(["a", "b"], [1]);
  const error = await t.throwsAsync(wholeHistory(bucket, atOnce), {
    instanceOf: RequestFailedError,
  });
  t.regex(error?.message ?? "", /bucket queue.*read 20 times/);
});
