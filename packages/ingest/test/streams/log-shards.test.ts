// The shards of a log: which messages share a shard, and the names of its streams.

import test from "ava";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { logShard, logShardOf, logShardsMax } from "../../streams/log-shards.ts";

test("messages of one key share a shard, and many keys spread evenly over all shards", (t) => {
  const counts = new Array<number>(16).fill(0);
  for (let session = 0; session < 16_000; session++) {
    const shard = logShardOf(`s${session}`, 16);
    t.is(logShardOf(`s${session}`, 16), shard);
    counts[shard] = (counts[shard] ?? 0) + 1;
  }
  t.true(Math.min(...counts) > 850 && Math.max(...counts) < 1150, counts.join());
  t.is(logShardOf(17, 8), logShardOf("17", 8), "a number is hashed as its digits");
  t.is(logShardOf("é", 1), 0);
});

test("other producers compute the same shard: Murmur3 of the UTF-8 bytes, seed 0", (t) => {
  // Murmur3_x86_32 of "hello" and of "hello, world", seed 0, from the published test vectors.
  t.is(logShardOf("hello", 4096), 0x248bfa47 % 4096);
  t.is(logShardOf("hello, world", 4096), 0x149bbb7f % 4096);
});

test("each shard has a stream and a subject of its own", (t) => {
  const { stream, subject } = logShard("impressions", 3);
  t.is(stream, "impressions-3");
  t.is(subject, "osiris.log.impressions.3");
  const wrong = t.throws(() => logShard("a.b", 0), { instanceOf: InvalidOptionError });
  t.regex(wrong?.message ?? "", /`log` to be letters, digits, `-` and `_`, got `a.b`/);
  for (const shards of [0, 1.5, logShardsMax + 1]) {
    t.throws(() => logShardOf("r1", shards), {
      instanceOf: InvalidOptionError,
      message: /`shards` to be an integer from 1 to 4096/,
    });
  }
});
