// Generates two streams for `osiris ingest`: the features of requests, and their clicks half a
// minute later. Some users prefer some items, so that there is something to learn.
//
//   nats-server -js -sd /tmp/streams &
//   node dist/examples/click-streams.js [--nats nats://127.0.0.1:4222] [--requests 20000]
//   osiris ingest --features impressions --events clicks -o clicks
//   osiris warehouse inspect clicks
//   osiris train examples/clicks.yaml
//
// With `--shards 4` both streams are logs sharded by session: all messages of a user are in one
// shard.
//
//   osiris ingest --features impressions --events clicks --shards 4 -o clicks
//   osiris cluster-sessions clicks clustered --by user

import { parseArgs } from "node:util";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "nats";
import { logShard, logShardOf } from "../index.ts";

const { values: flags } = parseArgs({
  options: {
    nats: { type: "string", default: "nats://127.0.0.1:4222" },
    requests: { type: "string", default: "20000" },
    shards: { type: "string" },
  },
});

const requests = Number(flags.requests);
const startMs = Date.UTC(2024, 4, 31);
/** Interval of requests, and delay of a click, in milliseconds. */
const [everyMs, clickMs] = [1000, 30_000];

/** A pseudorandom number in [0, 1), a function of two numbers. */
function drawn(one: number, other: number): number {
  let bits = Math.imul(one + 1, 0x9e3779b1) ^ Math.imul(other + 7, 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b3c6d);
  return ((bits ^ (bits >>> 13)) >>> 0) / 2 ** 32;
}

const connection = await connect({ servers: flags.nats });
const manager = await jetstreamManager(connection);
const client = jetstream(connection);

/** A message, and its user, whose clicks are one session. */
interface OfUser {
  readonly user: number;
  readonly message: object;
}

/** Creates a stream and publishes messages in order. */
async function fill(stream: string, subject: string, messages: readonly object[]): Promise<void> {
  await manager.streams.add({ name: stream, subjects: [subject] });
  for (let i = 0; i < messages.length; i += 1000) {
    const some = messages.slice(i, i + 1000);
    await Promise.all(some.map((message) => client.publish(subject, JSON.stringify(message))));
  }
  console.log(`${stream}: ${messages.length} messages`);
}

/** Fills a log: one stream, or one per shard. The last message of each stream is a tick. */
async function fillLog(log: string, messages: readonly OfUser[], tick: object): Promise<void> {
  const all = (some: readonly OfUser[]) => [...some.map(({ message }) => message), tick];
  if (flags.shards === undefined) return fill(log, log, all(messages));
  const shards = Number(flags.shards);
  for (let shard = 0; shard < shards; shard++) {
    const own = messages.filter(({ user }) => logShardOf(user, shards) === shard);
    const { stream, subject } = logShard(log, shard);
    await fill(stream, subject, all(own));
  }
}

const impressions = Array.from({ length: requests }, (_, i) => {
  const [user, item] = [Math.floor(200 * drawn(i, 1)), Math.floor(100 * drawn(i, 2))];
  const time = startMs + everyMs * i;
  return { request: `r${i}`, time, user, item, price: Math.round(1000 * drawn(item, 3)) / 10 };
});
const clicks = impressions.flatMap(({ request, time, user, item }, i): OfUser[] => {
  const likes = drawn(user % 10, 100 + (item % 10)) < 0.3;
  const isClicked = drawn(i, 4) < (likes ? 0.7 : 0.05);
  return isClicked ? [{ user, message: { request, time: time + clickMs, label: 1 } }] : [];
});
// The last message of each stream is a tick, which closes the join windows of all requests.
const endMs = startMs + everyMs * requests + 3_600_000;
const shown = impressions.map((message) => ({ user: message.user, message }));
await fillLog("impressions", shown, { time: endMs });
await fillLog("clicks", clicks, { time: endMs + 3_600_000 });
await connection.close();
