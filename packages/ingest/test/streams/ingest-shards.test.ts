// Sharded logs: one partition per shard, with the rows that unsharded streams make; killed and
// failed shards.

import { join } from "node:path";
import test from "ava";
import { InvalidOptionError, StreamTrimmedError } from "../../../../src/errors/errors.ts";
import type { StreamSource } from "../../../../src/wire/jetstream/stream-reader.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { natsServer, testIf } from "../../../../test/helpers/needs.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";
import type { IngestJoinOptions } from "../../streams/ingest-options.ts";
import { ingestShards } from "../../streams/ingest-shards.ts";
import { logShardOf } from "../../streams/log-shards.ts";
import { hashesOf, ingestInto, quickDisk, rowsOf } from "./ingested.ts";
import { startStreams } from "./nats-streams.ts";
import { type MemoryOptions, MemoryStreams } from "./streams.ts";

const shards = 4;
const sessionOf = (i: number) => i % 37;
/** Ticks that close every window, so that no request waits for events. */
const [end, eventsEnd] = [{ time: 2_000_000 }, { time: 9_000_000 }];
const features = Array.from({ length: 600 }, (_, i) => {
  return { request: `r${i}`, session: sessionOf(i), time: 1000 * i, item: i % 11 };
});
const events = features
  .filter((_, i) => i % 3 === 0)
  .map(({ request, time, session }) => ({ request, session, time: time + 500, label: 1 }));

type Keyed = (typeof features)[number] | (typeof events)[number];

/** The messages of each shard, followed by a tick. */
function sharded(
  messages: readonly Keyed[],
  keyOf: (message: Keyed) => string | number,
  tick: object,
) {
  return Array.from({ length: shards }, (_, shard) => [
    ...messages.filter((message) => logShardOf(keyOf(message), shards) === shard),
    tick,
  ]);
}

/** The logs `features` and `events` in shards. */
function startLog(
  keyOf: (message: Keyed) => string | number,
  optionsOf: (shard: number) => MemoryOptions = () => ({}),
): StreamSource {
  const [own, others] = [sharded(features, keyOf, end), sharded(events, keyOf, eventsEnd)];
  const streams = own.map((messages, shard) => {
    return new MemoryStreams(messages, others[shard] ?? [], optionsOf(shard));
  });
  const of = (stream: string) => {
    const [, name = "", shard = ""] = /^(\w+)-(\d+)$/.exec(stream) ?? [];
    const found = streams[Number(shard)];
    if (found === undefined) throw new RangeError(stream);
    return { name, found };
  };
  return {
    facts: (stream) => of(stream).found.facts(of(stream).name),
    read: (stream, options) => of(stream).found.read(of(stream).name, options),
    close: async () => {},
  };
}

const options = (out: string): IngestJoinOptions & { shards: number } => {
  return { features: "features", events: "events", out, shards, partition: "none", fileRows: 50 };
};
const run = { disk: quickDisk };
const bySession = ({ session }: Keyed) => session;

test("shards by session and by request have the rows of unsharded streams", async (t) => {
  const home = startDirectory(t);
  const whole = new MemoryStreams([...features, end], [...events, eventsEnd]);
  const { counts } = await ingestInto(join(home, "whole"), whole, { partition: "none" }, run);
  const keyOf = (row: Record<string, unknown>) => [row.request, row.label, row.session, row.item];
  const expected = (await rowsOf(join(home, "whole"))).map(keyOf).sort();
  t.is(expected.length, 600);
  for (const [name, by] of [
    ["session", bySession],
    ["request", ({ request }: Keyed) => request],
  ] as const) {
    const report = await ingestShards(startLog(by), options(join(home, name)), run);
    t.like(report.counts, { rows: counts.rows, matchedEvents: 200, orphanEvents: 0 });
    t.is(report.waiting, 0);
    t.true(report.files.length >= shards);
    t.true(report.files.every((file) => /^shard=[0-3]\/part-\d+\.(open\.)?parquet$/.test(file)));
    t.deepEqual((await rowsOf(join(home, name))).map(keyOf).sort(), expected);
    const partitions = new Map<unknown, Set<number>>();
    for (let shard = 0; shard < shards; shard++) {
      for (const { session } of await rowsOf(join(home, name, `shard=${shard}`))) {
        partitions.set(session, (partitions.get(session) ?? new Set()).add(shard));
      }
    }
    const alone = [...partitions.values()].every(({ size }) => size === 1);
    t.is(alone, name === "session", name);
  }
});

test("a shard whose process dies stops all shards, and the next call makes the same files", async (t) => {
  const home = startDirectory(t);
  await ingestShards(startLog(bySession), options(join(home, "calm")), run);
  for (const diesAfter of [3, 60, 90]) {
    const dying = startLog(bySession, (shard) => (shard === 2 ? { diesAfter, onRead() {} } : {}));
    await t.throwsAsync(ingestShards(dying, options(join(home, "killed")), run), {
      message: "the process died",
    });
  }
  await ingestShards(startLog(bySession), options(join(home, "killed")), run);
  t.deepEqual(hashesOf(join(home, "killed")), hashesOf(join(home, "calm")));
});

test("progress adds up over shards, and a signal stops all of them", async (t) => {
  const home = startDirectory(t);
  const controller = new AbortController();
  const finished: string[] = [];
  let rows = 0;
  const report = await ingestShards(startLog(bySession), options(join(home, "out")), {
    ...run,
    signal: controller.signal,
    onProgress(progress) {
      finished.push(...progress.finished);
      rows = Math.max(rows, progress.rows);
      if (finished.length >= 3) controller.abort();
    },
  });
  t.true(report.stopped);
  t.true(finished.length >= 3 && finished.every((file) => file.startsWith("shard=")));
  t.true(rows > 0 && rows <= report.counts.rows, `${rows} of ${report.counts.rows}`);
  t.true(report.counts.rows < 600);
});

test("a trimmed shard is named in the error, and zero shards are refused", async (t) => {
  const home = startDirectory(t);
  const log = startLog(bySession);
  const trimmed: StreamSource = {
    ...log,
    async *read(stream, reading) {
      if (stream === "events-1") throw new StreamTrimmedError(stream, 1, 5);
      yield* log.read(stream, reading);
    },
  };
  const error = await t.throwsAsync(ingestShards(trimmed, options(join(home, "a")), run), {
    instanceOf: StreamTrimmedError,
  });
  t.is(error?.stream, "events-1");
  await t.throwsAsync(ingestShards(log, { ...options(join(home, "b")), shards: 0 }, run), {
    instanceOf: InvalidOptionError,
    message: /`shards` to be an integer from 1 to 4096, got `0`/,
  });
});

testIf(natsServer).serial(
  "by the command line, shards of a server become partitions of a table",
  async (t) => {
    const streams = await startStreams(t);
    const home = startDirectory(t);
    const [own, others] = [
      sharded(features, bySession, end),
      sharded(events, bySession, eventsEnd),
    ];
    for (let shard = 0; shard < shards; shard++) {
      for (const [log, messages] of [
        ["impressions", own[shard] ?? []],
        ["clicks", others[shard] ?? []],
      ] as const) {
        const subjects = [`osiris.log.${log}.${shard}`];
        await streams.add(`${log}-${shard}`, { subjects });
        await streams.publish(subjects[0] ?? "", messages);
      }
    }
    const args = [
      "ingest",
      "--nats",
      streams.url,
      "--features",
      "impressions",
      "--events",
      "clicks",
    ];
    const ended = await runOk(t, [...args, "-o", "table", "--shards", "4", "--json"], home);
    t.like(lastJson<{ counts: object }>(ended).counts, { rows: 600, matchedEvents: 200 });
    const looked = await runCli(["warehouse", "inspect", "table"], home);
    t.regex(looked.stdout, /^shard=3\/date=1970-01-01 /m);
    const missing = await runCli([...args, "-o", "more", "--shards", "5"], home);
    t.is(missing.code, 2);
    t.regex(missing.stderr, /has no stream (impressions|clicks)-4/);
  },
);
