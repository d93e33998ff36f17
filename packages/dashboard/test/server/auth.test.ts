import type { IncomingMessage } from "node:http";
import test from "ava";
import type { OverviewReport } from "../../../../actors/observe/overview.ts";
import type { RunEvent } from "../../../../actors/run/state/run-events.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { checkOptions } from "../../../../src/ports/check-options.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import { refusalOfChange, visitorOf } from "../../server/auth.ts";
import { ClusterWatch, changesOf, reportFor } from "../../server/cluster-watch.ts";
import { accessOf, dashboardOptions } from "../../server/dashboard-options.ts";
import { EventRing, seenTogether } from "../../server/event-ring.ts";
import { thinned } from "../../server/page-answers.ts";

const requestWith = (headers: Readonly<Record<string, string>>) =>
  ({ headers }) as unknown as IncomingMessage;

function settingsOf(given: object) {
  return checkOptions(dashboardOptions, { dashboard: given }).dashboard;
}

const alone = { tenants: [], faultsAllowed: true };

test("a read-only page on this machine alone needs no token; any wider access needs one", (t) => {
  t.is(accessOf(settingsOf({}), alone).token, undefined);
  for (const wider of [{ host: "0.0.0.0" }, { allow: ["control"] }, { allow: ["faults"] }]) {
    t.regex(
      accessOf(settingsOf(wider), alone).token ?? "",
      /^[0-9a-f]{32}$/,
      `${Object.keys(wider)}`,
    );
  }
  const { token, tenantTokens } = accessOf(settingsOf({}), { ...alone, tenants: ["acme", "b"] });
  t.truthy(token);
  t.is(new Set([token, ...tenantTokens.values()]).size, 3);
});

test("the page may inject faults only if the cluster allows them", (t) => {
  const refused = () =>
    accessOf(settingsOf({ allow: ["faults"] }), { ...alone, faultsAllowed: false });
  t.throws(refused, { instanceOf: InvalidOptionError, message: /dashboard\.allow/ });
  t.throws(() => settingsOf({ token: "short" }), { message: /16 to 256 characters/ });
});

test("a tenant's token opens that tenant's page only, without permission to inject faults", (t) => {
  const settings = settingsOf({ token: "operator-operator", allow: ["control", "faults"] });
  const access = accessOf(settings, { ...alone, tenants: ["acme"] });
  const visit = (token: string) =>
    visitorOf(requestWith({ cookie: `osiris-80=${token}` }), access, 80);
  t.deepEqual(visit("operator-operator"), { tenant: undefined, allow: ["control", "faults"] });
  const own = access.tenantTokens.get("acme") ?? "";
  t.deepEqual(visit(own), { tenant: "acme", allow: ["control"] });
  t.like(visit("another-token-16"), { status: 401 });
  t.like(visitorOf(requestWith({ cookie: `osiris-81=${own}` }), access, 80), { status: 401 });
  const bearer = requestWith({ authorization: `Bearer ${own}` });
  t.like(visitorOf(bearer, access, 80), { tenant: "acme" });
});

test("without a token, a request with a foreign Host header is refused (DNS rebinding)", (t) => {
  const access = accessOf(settingsOf({}), alone);
  t.like(visitorOf(requestWith({ host: "127.0.0.1:80" }), access, 80), { tenant: undefined });
  t.like(visitorOf(requestWith({ host: "evil.example:80" }), access, 80), { status: 403 });
});

test("a change is refused if it comes from another site's page or from a form", (t) => {
  const good = {
    host: "127.0.0.1:4280",
    origin: "http://127.0.0.1:4280",
    "x-osiris-page": "1",
    "content-type": "application/json",
  };
  const { "x-osiris-page": _, ...form } = good;
  t.is(refusalOfChange(requestWith(good)), undefined);
  t.like(refusalOfChange(requestWith(form)), { status: 403 });
  t.like(refusalOfChange(requestWith({ ...good, origin: "http://evil.example" })), { status: 403 });
  t.like(refusalOfChange(requestWith({ ...good, origin: "null" })), { status: 403 });
  t.like(refusalOfChange(requestWith({ ...good, "content-type": "text/plain" })), { status: 400 });
});

const progress = (run: string, seq: number) =>
  ({ type: "run.progress", run, seq, generation: 1, step: seq, loss: 0.5 }) as unknown as RunEvent;

test("the event ring returns missed events, keeps its limits, and reports a gap", (t) => {
  const ring = new EventRing({ events: 10, bytes: 10_000 });
  for (let seq = 0; seq < 25; seq++) ring.add(progress("r1", seq), undefined, 1000 + seq);
  t.is(ring.size.events, 10);
  t.deepEqual(
    ring.after(22)?.map(({ seq }) => seq),
    [22, 23, 24],
  );
  t.deepEqual(ring.after(25), []);
  t.is(ring.after(15)?.length, 10);
  t.is(ring.after(14), undefined);
  t.is(ring.after(26), undefined); // A sequence number of an earlier server process.
  t.is(ring.timesOf("r1").get(24), 1024);
  const small = new EventRing({ events: 1000, bytes: 500 });
  for (let seq = 0; seq < 100; seq++) small.add(progress("r1", seq), undefined, seq);
  t.true(small.size.bytes <= 500 && small.size.events > 1, JSON.stringify(small.size));
});

test("of many simultaneous events, only so much progress is sent as a page can show", (t) => {
  const ring = new EventRing();
  for (let seq = 0; seq < 1000; seq++) ring.add(progress("r1", seq), undefined, seq);
  ring.add({ ...progress("r1", 1000), type: "run.incident" } as RunEvent, undefined, 0);
  ring.add(progress("r2", 0), undefined, 0);
  const all = ring.after(0) ?? [];
  const thinned = seenTogether(all, 50).map(({ run, seq }) => `${run} ${seq}`);
  t.true(thinned.length >= 40 && thinned.length <= 52, `${thinned.length}`);
  for (const one of ["r1 999", "r1 1000", "r2 0"]) t.true(thinned.includes(one), one);
  t.is(seenTogether(all.slice(0, 50), 50).length, 50);
});

test("a long history is thinned of progress beyond a chart's resolution, and of nothing else", (t) => {
  const published = Array.from({ length: 9000 }, (_, seq) => ({ event: progress("r1", seq) }));
  const incident = { event: { ...progress("r1", 4001), type: "run.incident" } as RunEvent };
  const all = [...published.slice(0, 4001), incident, ...published.slice(4001)];
  const { events, thinned: left } = thinned(all);
  t.true(events.length < 1600, `${events.length} events`);
  t.is(events.length + left, all.length);
  t.true(events.includes(incident));
  t.true(events.includes(all[4000] as never), "the last step before the incident is kept");
  t.is(events.at(-1), all.at(-1));
});

test("a thinned history keeps every loss of replayed steps, so that they can be compared", (t) => {
  const lossAt = (seq: number, step: number) => ({
    event: { ...progress("r1", seq), step, losses: [{ step: step - 1, loss: step }] } as RunEvent,
  });
  const started = (seq: number, fromStep: number) => ({
    event: { ...progress("r1", seq), type: "run.started", fromStep } as unknown as RunEvent,
  });
  const before = Array.from({ length: 4000 }, (_, at) => lossAt(at, 2 * at + 2));
  const after = Array.from({ length: 4000 }, (_, at) => lossAt(4001 + at, 7002 + 2 * at));
  const { events } = thinned([...before, started(4000, 7000), ...after]);
  const steps = events.flatMap(({ event }) => {
    return event.type === "run.progress"
      ? [event.step, ...(event.losses ?? []).map(({ step }) => step)]
      : [];
  });
  const times = (step: number) => steps.filter((one) => one === step).length;
  t.true(events.length < 1600);
  for (let step = 7001; step <= 8000; step++) t.is(times(step), 2, `step ${step}`);
});

const actor = (name: string, run: string | undefined, children: object[] = []) => ({
  actor: name,
  ...(run === undefined ? {} : { run, generation: 1 }),
  state: "serving",
  depth: 0,
  children,
});

test("a tenant sees only its own runs and their actors", (t) => {
  const tree = actor("cluster:0", undefined, [
    actor("host:0", undefined, [actor("device:0", "r1"), actor("device:0", "r2")]),
    actor("queue:0", undefined, [actor("coordinator:0", "r2")]),
  ]);
  const report = {
    cluster: "c1",
    runs: [
      { run: "r1", tenant: "acme" },
      { run: "r2", tenant: "other" },
    ],
    processes: [{ host: 0, machine: "m", pid: 77, actors: tree }],
    unresponsive: [3],
  } as unknown as OverviewReport;
  const own = JSON.stringify(reportFor(report, "acme"));
  t.true(own.includes('"r1"'));
  for (const secret of ["r2", "other", "queue:0", "77"]) t.false(own.includes(secret), secret);
  t.is(reportFor(report, undefined), report);
  t.deepEqual(reportFor(report, "nobody").processes, []);
});

test("only the changed parts of a report are sent", (t) => {
  const sent = new Map<string, string>();
  const report = { cluster: "c1", runs: [], processes: [], unresponsive: [] };
  t.deepEqual(Object.keys(changesOf(report, sent)), [
    "cluster",
    "runs",
    "processes",
    "unresponsive",
  ]);
  t.deepEqual(changesOf({ ...report }, sent), {});
  t.deepEqual(changesOf({ ...report, unresponsive: [1] }, sent), { unresponsive: [1] });
});

test("the server polls the cluster only for open pages, and waits 200 times an answer's time", async (t) => {
  const clock = new SimulatedClock();
  let asked = 0;
  let slowMs = 0;
  const client = {
    async inspectActor() {
      asked++;
      await new Promise<void>((resume) => clock.after(slowMs, resume));
      return {} as never;
    },
  };
  const settle = () => new Promise<void>((resume) => setImmediate(resume));
  const watch = new ClusterWatch(client, clock, () => {});
  clock.advance(60_000);
  t.is(asked, 0);
  const leave = watch.look();
  clock.advance(0);
  await settle();
  t.is(asked, 1);
  clock.advance(999);
  t.is(asked, 1);
  slowMs = 20;
  clock.advance(1);
  t.is(asked, 2);
  clock.advance(20);
  await settle();
  clock.advance(3999);
  t.is(asked, 2);
  clock.advance(1);
  t.is(asked, 3);
  leave();
  leave();
  clock.advance(20);
  await settle();
  clock.advance(60_000);
  t.is(asked, 3);
});
