// The dashboard's server on a live cluster, with the requests of a browser.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test from "ava";
import { type Cluster, connect, type JobOptions, type RunLine } from "../../../../internal.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTestCluster } from "../../../../test/helpers/clusters/clusters.ts";
import { shared } from "../../../../test/helpers/clusters/one-for-many.ts";
import { dashboard } from "../../server/dashboard.ts";
import { PageAnswers } from "../../server/page-answers.ts";
import type { Hello, RunHistory, TimedEvent } from "../../server/page-api.ts";

/** A cluster whose page is read-only. */
const onCluster = shared(() => startTestCluster(1, { dashboard: dashboard() }));

interface Message {
  readonly id: string;
  readonly name: string;
  readonly data: unknown;
}

/**
 * The messages of an event stream, until `isEnough`; `onHello` is called once the stream is open.
 */
async function messagesOf(
  url: string,
  headers: Readonly<Record<string, string>>,
  isEnough: (all: readonly Message[]) => boolean,
  onHello: () => Promise<unknown> = async () => {},
): Promise<Message[]> {
  const abort = new AbortController();
  const response = await fetch(`${url}api/stream`, { headers, signal: abort.signal });
  const all: Message[] = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    const parts = text.split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(part)?.[1];
      const [name, data] = [field("event"), field("data")];
      if (name === undefined || data === undefined) continue;
      all.push({ id: field("id") ?? "", name, data: JSON.parse(data) });
      if (name === "hello") await onHello();
    }
    if (isEnough(all)) break;
  }
  abort.abort();
  return all;
}

const hasEnded = (all: readonly Message[]) => JSON.stringify(all).includes('"run.finished"');
const toldIn = (all: readonly Message[]) =>
  all.filter(({ name }) => name === "events").flatMap(({ data }) => data as TimedEvent[]);

function dashboardOf(cluster: Cluster) {
  const { dashboard } = cluster;
  if (dashboard === undefined) throw new TypeError("there is no dashboard");
  return dashboard;
}

onCluster.test(
  "an event stream sends every event once, in order; a reconnect gets the missed ones",
  async (t, place) => {
    const { url } = dashboardOf(place.cluster);
    let run = "";
    const all = await messagesOf(url, {}, hasEnded, async () => {
      run = (await place.cluster.submit(place.job())).run;
    });
    const [{ data } = { data: undefined }] = all;
    const hello = data as Hello;
    t.like(hello, { cluster: "c1", tenant: null, allow: [], isGap: true });
    const told = toldIn(all);
    t.deepEqual(
      told.map(({ event }) => event.seq),
      told.map((_, at) => at),
    );
    t.true(told.every(({ atMs = 0 }) => atMs > 1.7e12));
    t.true(all.some(({ name }) => name === "report"));
    // The connection was lost after the first message of events.
    const [early] = all.filter(({ name }) => name === "events");
    if (early === undefined) return t.fail("no events");
    const again = await messagesOf(url, { "last-event-id": early.id }, hasEnded);
    t.like(again[0]?.data, { isGap: false, epoch: hello.epoch });
    const before = toldIn([early]).length;
    t.deepEqual(toldIn(again), told.slice(before));
    // The id is of an earlier server process: the client must request everything again.
    const isHello = (messages: readonly Message[]) => messages.length > 0;
    t.like((await messagesOf(url, { "last-event-id": "abc:3" }, isHello))[0]?.data, {
      isGap: true,
    });
    const path = `${url}api/runs/${run}/events`;
    const history = (await (await fetch(path)).json()) as RunHistory;
    t.deepEqual(history.events, told);
  },
);

onCluster.test(
  "the page is three files of this package, under 200 kB, without links to other sites",
  async (t, place) => {
    const { url } = dashboardOf(place.cluster);
    let packed = 0;
    for (const [path, type] of [
      ["", "text/html"],
      ["page.css", "text/css"],
      ["page.js", "text/javascript"],
    ] as const) {
      const response = await fetch(`${url}${path}`);
      t.is(response.status, 200);
      t.true(response.headers.get("content-type")?.startsWith(type));
      t.is(response.headers.get("content-encoding"), "gzip");
      const policy = response.headers.get("content-security-policy") ?? "";
      t.regex(policy, /default-src 'none'/);
      t.notRegex(policy, /unsafe|https?:/);
      const text = await response.text();
      packed += gzipSync(text).length;
      if (path === "page.js") t.regex(text, /--dashboard-allow faults/, "it names the flag");
      t.notRegex(text, /<script>|src="http|@import|url\(http/);
      const etag = response.headers.get("etag") ?? "";
      t.is((await fetch(`${url}${path}`, { headers: { "if-none-match": etag } })).status, 304);
    }
    t.log(`${packed} bytes packed`);
    t.true(packed < 200_000, `${packed} bytes`);
    t.is((await fetch(`${url}../package.json`)).status, 404);
    t.is((await fetch(`${url}api/nothing`)).status, 404);
    t.is((await fetch(url, { method: "DELETE" })).status, 405);
    t.regex(readFileSync("package.json", "utf8"), /"dist"/); // npm publishes `dist`.
  },
);

onCluster.test(
  "a read-only page changes nothing; a page with permission changes runs",
  async (t, other) => {
    const token = "operator-of-the-page";
    const headers = { "content-type": "application/json", "x-osiris-page": "1" };
    const post = (url: string, path: string, body: object, more: Record<string, string> = {}) =>
      fetch(new URL(path, url), {
        method: "POST",
        headers: { ...headers, ...more },
        body: JSON.stringify(body),
      });
    await using place = await startTestCluster(1, {
      dashboard: dashboard({ allow: ["control", "faults"], token }),
    });
    const { url } = dashboardOf(place.cluster);
    t.is((await fetch(new URL("/api/runs", url))).status, 401);
    const opened = await fetch(url, { redirect: "manual" });
    t.is(opened.status, 303);
    t.is(opened.headers.get("location"), "/");
    const [cookie = ""] = (opened.headers.get("set-cookie") ?? "").split(";");
    t.regex(opened.headers.get("set-cookie") ?? "", /HttpOnly; SameSite=Lax/);
    const job = place.job({
      // Longer than the requests take on any machine: the test cancels the run.
      data: { kind: "synthetic", samples: 4000, dense: 4, batchSize: 64, epochs: 5000 },
    });
    const submitted = await post(url, "/api/jobs/submit", { job }, { cookie });
    t.is(submitted.status, 200, await submitted.clone().text());
    const { run } = (await submitted.json()) as { run: string };
    for await (const event of place.cluster.client.run(run).events()) {
      if (event.type === "run.progress") break;
    }
    t.is((await post(url, "/api/faults", { run, actor: "device:9" }, { cookie })).status, 404);
    t.is((await post(url, "/api/faults", { run, actor: "device:0" }, { cookie })).status, 200);
    for await (const event of place.cluster.client.run(run).events()) {
      if (event.type === "run.recovered") break;
    }
    t.is((await post(url, "/api/jobs/pause", { run }, { cookie })).status, 200);
    t.is((await post(url, "/api/jobs/drain", { run, reader: 0 }, { cookie })).status, 404);
    t.is((await post(url, "/api/jobs/cancel", { run }, { cookie })).status, 200);
    const looking = await post(dashboardOf(other.cluster).url, "/api/jobs/cancel", { run });
    t.is(looking.status, 403);
    t.regex(await looking.text(), /is read-only: .* without `--dashboard-allow control`/);
  },
);

// Later tests of the same cluster would wait for the first overview after the loss.
onCluster.test(
  "after a loss of the broker pages are told of a gap, since events may be missing",
  async (t, { cluster }) => {
    const { url } = dashboardOf(cluster);
    const until = () => false; // The server ends the stream.
    const [first] = await messagesOf(url, {}, until, () => cluster.killBroker());
    const headers = { "last-event-id": first?.id ?? "" };
    const [again] = await messagesOf(url, headers, (all) => all.length > 0);
    t.like(again?.data, { isGap: true });
    t.not(again?.id, first?.id);
  },
);

test.serial("a tenant's link shows the tenant's own runs, and others are refused", async (t) => {
  const users = { ada: { pass: "a-long-password" } };
  const tenants = { acme: { users }, other: { users } };
  const home = startDirectory(t);
  const roots = { data: home, checkpoints: home };
  await using place = await startTestCluster(1, { dashboard: dashboard(), tenants, roots });
  const { url, token } = place.cluster;
  const { tenantUrls } = dashboardOf(place.cluster);
  const link = new URL(tenantUrls.acme ?? "");
  const headers = { authorization: `Bearer ${link.searchParams.get("token")}` };
  const get = (path: string) => fetch(new URL(path, link), { headers });
  await using acme = await connect({ nats: url, ...(token ? { token } : {}), tenant: "acme" });
  const job = place.job();
  const jobIn = (directory: string) => ({
    ...job,
    data: { ...job.data, cache: join(home, "cache") } as JobOptions["data"],
    checkpoint: { everySteps: 10, directory: join(home, directory) },
  });
  const operators = await place.cluster.submit(jobIn("own"));
  const submit = async () => await acme.submit(jobIn("acme/own"));
  let own = "";
  const messages = await messagesOf(`${link.origin}/`, headers, hasEnded, async () => {
    own = (await submit()).run;
  });
  await operators.result();
  const runs = (await (await get("/api/runs")).json()) as RunLine[];
  t.deepEqual(
    runs.map(({ run }) => run),
    [own],
  );
  t.is((await get(`/api/runs/${operators.run}/events`)).status, 404);
  t.is((await get(`/api/runs/${own}/events`)).status, 200);
  t.like(messages[0]?.data, { tenant: "acme" });
  t.false(JSON.stringify(messages).includes(operators.run));
});

test("a tenant sees the shards of its own runs alone", async (t) => {
  const shards = [{ run: "r1" }, { run: "r2" }, { run: "r1" }];
  const clientOf = (tenant: string | undefined) => ({
    list: async () => (tenant === "acme" ? [{ run: "r2" }] : []),
    inspectActor: async () => ({ shards, all: shards.length }),
  });
  const answers = new PageAnswers({ network: { clock: new SimulatedClock() }, clientOf } as never);
  const shown = (tenant?: string) => answers.shards({ tenant } as never, new URLSearchParams());
  t.deepEqual(await shown("acme"), [shards[1]] as never);
  t.deepEqual(await shown("other"), []);
  t.deepEqual(await shown(), shards as never);
});
