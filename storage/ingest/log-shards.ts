// The shards of a log in JetStream. A log of much traffic is cut into shards, each a stream with a
// subject of its own; the shard of a message is the hash of its key. By the request, the messages
// of a session lie in all shards; by the session (RecD's O1), in one, where blocks of messages
// compress better, and whole sessions are read together.
//
//   stream <log>-<shard>     subject osiris.log.<log>.<shard>

import { murmurHash3 } from "../../src/data/murmur-hash.ts";
import { expected } from "../../src/ports/check-options.ts";

/** Shards of a log, at most. */
export const logShardsMax = 4096;

/** The shard of the messages with a key, as `r17` or a session: 0 to `shards` - 1. */
export function logShardOf(key: string | number, shards: number): number {
  const isCount = Number.isInteger(shards) && shards >= 1 && shards <= logShardsMax;
  if (!isCount) throw expected("shards", `an integer from 1 to ${logShardsMax}`, shards);
  return murmurHash3(Buffer.from(String(key), "utf8").toString("latin1"), 0) % shards;
}

/** The stream of a shard, and its subject. `log`: letters, digits, `-` and `_`. */
export function logShard(
  log: string,
  shard: number,
): { readonly stream: string; readonly subject: string } {
  if (!/^[\w-]+$/.test(log)) throw expected("log", "letters, digits, `-` and `_`", log);
  return { stream: `${log}-${shard}`, subject: `osiris.log.${log}.${shard}` };
}
