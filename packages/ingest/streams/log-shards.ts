// Sharded logs in JetStream. A log with much traffic is divided into shards, each a stream with its
// own subject; the hash of a message's key decides its shard. If the key is the request, the
// messages of a session are spread over all shards. If the key is the session (optimisation O1 of
// RecD), they are in one shard, where blocks of messages compress better and one reader reads whole
// sessions.
//
//   stream <log>-<shard>     subject osiris.log.<log>.<shard>

import { expected, murmurHash3 } from "../../../internal.ts";

/** Most shards of a log. */
export const logShardsMax = 4096;

/**
 * The shard of messages with this key, e.g. `r17` or a session: 0 to `shards` - 1.
 * @throws InvalidOptionError where `shards` is no integer from 1 to 4096
 */
export function logShardOf(key: string | number, shards: number): number {
  const isCount = Number.isInteger(shards) && shards >= 1 && shards <= logShardsMax;
  if (!isCount) throw expected("shards", `an integer from 1 to ${logShardsMax}`, shards);
  return murmurHash3(Buffer.from(String(key), "utf8").toString("latin1"), 0) % shards;
}

/**
 * The stream and subject of a shard.
 * @throws InvalidOptionError where `log` has characters other than letters, digits, `-` and `_`
 */
export function logShard(
  log: string,
  shard: number,
): { readonly stream: string; readonly subject: string } {
  if (!/^[\w-]+$/.test(log)) throw expected("log", "letters, digits, `-` and `_`", log);
  return { stream: `${log}-${shard}`, subject: `osiris.log.${log}.${shard}` };
}
