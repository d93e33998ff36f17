// Ingestion from a real nats-server by the command line: killed, stopped, or without its server;
// its table is inspected and trained on.

import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { ExecutionContext } from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { natsServer, testAll, testIf } from "../../../../test/helpers/needs.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson, startCli, startNode } from "../../../../test/helpers/processes/start-cli.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { type IngestReport, ingest } from "../../index.ts";
import { hashesOf, rowsOf } from "./ingested.ts";
import { clicks, requests, startStreams, type TestStreams, tick } from "./nats-streams.ts";

const example = fileURLToPath(new URL("../../../../examples/click-streams.js", import.meta.url));
const window = ["--window", "1m", "--lateness", "10s", "--value", "dwell"];

function argsOf({ url }: TestStreams, out: string, more: readonly string[] = []): string[] {
  const streams = ["--nats", url, "--features", "features", "--events", "events"];
  return ["ingest", ...streams, "-o", out, "--json", ...window, ...more];
}

/** Fills both streams with `count` requests, the last of which wait for events. */
async function startFilled(t: ExecutionContext, count: number): Promise<TestStreams> {
  const streams = await startStreams(t);
  await streams.add("features");
  await streams.add("events");
  await streams.publish("features", requests(count));
  await streams.publish("events", clicks(count));
  return streams;
}

testIf(testAll, natsServer).serial(
  "an ingestion killed repeatedly ends with the files of one that was not killed",
  async (t) => {
    const streams = await startFilled(t, 3000);
    const home = startDirectory(t);
    const files = ["--file-rows", "100", "--row-group", "40"];
    const calm = lastJson<IngestReport>(await runCli(argsOf(streams, "calm", files), home));
    t.true(calm.counts.rows > 2900 && calm.counts.rows < 3000, `${calm.counts.rows} rows`);
    let killed = 0;
    const tries = rounds("times that an ingestion is killed", 1, 3);
    for (let i = 0; i < tries; i++) {
      const running = startCli(argsOf(streams, "killed", files), home);
      await running.line((line) => line.includes("ingest.finished")).catch(() => undefined);
      running.kill("SIGKILL");
      if ((await running.ended).code === null) killed++;
    }
    t.true(killed > 0);
    const ended = await runOk(t, argsOf(streams, "killed", files), home);
    t.deepEqual(hashesOf(join(home, "killed")), hashesOf(join(home, "calm")));
    t.deepEqual(lastJson<IngestReport>(ended).counts, calm.counts);
    t.log(`${killed} of ${tries} were killed; ${calm.files.length} files`);
  },
);

testIf(natsServer).serial("each request has one row, in the partition of its day", async (t) => {
  const streams = await startFilled(t, 900);
  const home = startDirectory(t);
  await streams.publish("features", [tick(5000)]);
  await streams.publish("events", [tick(9000)]);
  const ended = await runOk(t, argsOf(streams, "table"), home);
  const { counts, waiting } = lastJson<IngestReport>(ended);
  t.is(waiting, 0);
  t.like(counts, { rows: 900, negatives: 600, matchedEvents: 300, orphanEvents: 0 });
  const rows = await rowsOf(join(home, "table"));
  t.deepEqual(
    rows.map(({ request, label }) => [request, label]),
    Array.from({ length: 900 }, (_, i) => [`r${i}`, Number(i % 3 === 0)]),
  );
  t.like(rows[3], { item: 3, user: "u3", price: 0.75, tags: [3, 10], dwell: 3 });
  t.is(rows[4]?.dwell, null);
  const looked = await runCli(["warehouse", "inspect", "table"], home);
  t.regex(looked.stdout, /^3 files, 900 rows, /);
  t.regex(looked.stdout, /^date=2024-05-31 +1 +1 +600 /m);
  t.regex(looked.stdout, /^date=2024-06-01 +2 +2 +300 /m);
  t.regex(looked.stdout, /^tags +list<INT64> /m);
});

testIf(natsServer).serial(
  "the documentation's example fills streams, ingests and trains",
  async (t) => {
    const { url } = await startStreams(t);
    const home = startDirectory(t);
    const filled = await startNode([example, "--nats", url, "--requests", "500"], home).ended;
    t.is(filled.code, 0, filled.stderr);
    const streams = ["--features", "impressions", "--events", "clicks"];
    const ingested = await runCli(["ingest", "--nats", url, ...streams, "-o", "clicks"], home);
    t.regex(ingested.stdout, /^clicks: 500 rows; 1 file written\n\d+ rows with events, /);
    const job = resolve("examples/clicks.yaml");
    const trained = await runOk(t, ["train", job, "--devices", "1", "--json"], home);
    t.regex(trained.stdout, /"digest":"[0-9a-f]{64}"/);
  },
);

// On every change, the test above fills plain streams and ingest-shards.test.ts ingests shards.
testIf(testAll, natsServer, testAll).serial(
  "the example fills sharded logs, which are ingested and clustered by user",
  async (t) => {
    const { url } = await startStreams(t);
    const home = startDirectory(t);
    const shards = ["--shards", "3"];
    const fill = [example, "--nats", url, "--requests", "2000", ...shards];
    const filled = await startNode(fill, home).ended;
    t.is(filled.code, 0, filled.stderr);
    const streams = ["--features", "impressions", "--events", "clicks", ...shards];
    const ingested = await runCli(["ingest", "--nats", url, ...streams, "-o", "clicks"], home);
    t.regex(ingested.stdout, /^clicks: 2,000 rows; 3 files written\n\d+ rows with events, /);
    const clustered = await runCli(["cluster-sessions", "clicks", "by-user", "--by", "user"], home);
    t.is(clustered.code, 0, clustered.stderr);
    t.regex(
      clustered.stdout,
      /^by-user: 1 file, 1 row group; 2,000 rows of 200 sessions, 10\.00 rows/,
    );
  },
);

testIf(natsServer).serial(
  "an ingestion follows its streams, also across a server restart",
  async (t) => {
    const streams = await startFilled(t, 300);
    const home = startDirectory(t);
    const files = ["--file-rows", "100"];
    const running = startCli(argsOf(streams, "followed", ["--follow", ...files]), home);
    await running.line((line) => line.includes("part-0000000000000101."));
    await streams.restart();
    await streams.publish("features", requests(300, 300));
    await streams.publish("events", clicks(300, 300));
    await running.line((line) => line.includes("part-0000000000000401."));
    running.kill("SIGINT");
    const ended = await running.ended;
    t.is(ended.code, 0, ended.stderr);
    t.is(lastJson<IngestReport>(ended).stopped, true);
    await runOk(t, argsOf(streams, "followed", files), home);
    t.is((await runCli(argsOf(streams, "calm", files), home)).code, 0);
    t.deepEqual(hashesOf(join(home, "followed")), hashesOf(join(home, "calm")));
  },
);

testIf(natsServer).serial("streams that cannot be ingested are refused by name", async (t) => {
  const streams = await startFilled(t, 200);
  const { url: nats, manager } = streams;
  const home = startDirectory(t);
  const options = {
    ...{ nats, features: "features", events: "events", out: join(home, "table") },
    ...{ windowMs: 60_000, latenessMs: 10_000, fileRows: 50 },
  };
  await t.throwsAsync(ingest({ ...options, events: "nowhere", out: join(home, "a") }), {
    code: "INPUT_UNUSABLE",
    message: /has no stream nowhere/,
  });
  await streams.add("work", { retention: "workqueue" });
  await t.throwsAsync(ingest({ ...options, events: "work", out: join(home, "b") }), {
    code: "INPUT_UNUSABLE",
    message: /Cannot ingest work: it has the retention `workqueue`/,
  });
  await ingest(options);
  await manager.streams.purge("features", { seq: 150 });
  await t.throwsAsync(ingest(options), {
    code: "STREAM_TRIMMED",
    message: /the stream features: it no longer has the messages \d+ to 149; keep messages longer/,
  });
  await manager.streams.delete("events");
  await streams.add("events");
  await t.throwsAsync(ingest(options), {
    code: "INGEST_FOREIGN",
    message: /the stream events was created again since; name another directory/,
  });
});
