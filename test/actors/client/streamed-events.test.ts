// A client: its submissions, and a run's events, which without a leader it reads from JetStream. In
// virtual time; the stream is a list that answers as JetStream does.

import test from "ava";
import { Client } from "../../../actors/client/client.ts";
import type { RunEvent } from "../../../actors/run/state/run-events.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { encodeBody } from "../../../src/wire/messages/body.ts";
import type { Frame } from "../../../src/wire/messages/transport.ts";
import { type SimulatedNetwork, startSimulatedNetwork } from "../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

const event = (seq: number): RunEvent => ({ type: "run.resumed", seq, run: "r1", generation: 1 });
const last: RunEvent = { ...event(1007), type: "run.failed", error: errorOf("over") };

function errorOf(message: string) {
  return { name: "Error", code: "X", recovery: "stop" as const, message };
}

/** Answers a subject until it is unsubscribed. */
function answer(
  { network }: SimulatedNetwork,
  subject: string,
  of: (asked: Record<string, unknown>) => { body: unknown; headers?: Record<string, string> },
) {
  const { transport } = network;
  return transport.subscribe(subject, ({ payload, reply = "" }: Frame) => {
    const { body, headers } = of(JSON.parse(new TextDecoder().decode(payload)));
    const encoded = encodeBody(body, "application/json");
    if (body === undefined) transport.publish(reply, new Uint8Array());
    else transport.publish(reply, encoded.payload, { headers: { ...encoded.headers, ...headers } });
  });
}

/**
 * Serves a stream of these events; like JetStream, it returns the first event at or after a
 * sequence number.
 */
function stream(simulated: SimulatedNetwork, events: readonly RunEvent[]) {
  return answer(simulated, "$JS.API.DIRECT.GET.osiris-events-c1", (asked) => {
    if (asked.next_by_subj !== "osiris.c1.stream.r1") return { body: undefined };
    const place = Math.max(Number(asked.seq), 11); // The stream dropped older events.
    const headers = { "Nats-Sequence": `${place}` };
    return { body: events[place - 11], headers };
  });
}

function startClient() {
  const simulated = startSimulatedNetwork();
  const { transport, cluster, clock } = simulated.network;
  return { simulated, run: new Client({ transport, cluster, clock }).run("r1") };
}

/** Advances time in short steps: each answer resolves a promise, which requests the next event. */
async function pass(simulated: SimulatedNetwork, ms: number, stepMs = 20): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) await simulated.pass(stepMs);
}

/** Answers as a leader that has these events. */
function lead(simulated: SimulatedNetwork, events: readonly RunEvent[]) {
  return answer(simulated, "osiris.c1.jobs.events", ({ since }) => {
    return { body: { events: events.filter(({ seq }) => seq >= Number(since)) } };
  });
}

async function collect<Item>(items: AsyncIterable<Item>, into: Item[] = []): Promise<Item[]> {
  for await (const item of items) into.push(item);
  return into;
}

test("a client follows events without a leader, and continues with the next leader", async (t) => {
  const { simulated, run } = startClient();
  const kept = [event(3), event(4), event(5)];
  stream(simulated, kept);
  const past = collect(run.past());
  const seen: RunEvent[] = [];
  const following = collect(run.events({ since: 4 }), seen);
  await pass(simulated, 5000);
  t.deepEqual(
    (await past).map(({ seq }) => seq),
    [3, 4, 5],
  );
  t.deepEqual(
    seen.map(({ seq }) => seq),
    [4, 5],
  );
  await pass(simulated, 60_000); // The client waits.
  answer(simulated, "osiris.c1.jobs.events", () => ({ body: { events: [last] } }));
  await pass(simulated, 12_000);
  t.deepEqual(
    (await following).map(({ seq }) => seq),
    [4, 5, 1007],
  );
});

test("without a leader and without a stream, requests of a client fail after 10 seconds", async (t) => {
  const { simulated, run } = startClient();
  const past = collect(run.past());
  const logs = collect(run.logs({ follow: true }));
  const refused = Promise.all([past, logs].map((one) => t.throwsAsync(one)));
  await pass(simulated, 13_000);
  for (const error of await refused) t.like(error, { code: "REQUEST_FAILED" });
});

test("requests of a client that was closed fail at once", async (t) => {
  const { simulated, run } = startClient();
  await simulated.network.transport.close();
  const refused = Promise.all([run.status(), run.cancel()].map((one) => t.throwsAsync(one)));
  await pass(simulated, 10);
  for (const error of await refused) t.regex(error?.message ?? "", /: the client was closed$/);
});

test("the events of a run that the leader has forgotten are read from the stream", async (t) => {
  const { simulated, run } = startClient();
  stream(simulated, [event(0), last]);
  const error = { ...errorOf("Expected `run` to be …"), code: "INVALID_OPTION" };
  answer(simulated, "osiris.c1.jobs.events", () => ({ body: { error } }));
  const following = collect(run.events());
  await pass(simulated, 1000);
  t.deepEqual(await following, [event(0), last]);
});

test("a client follows a run's log across a time without a leader", async (t) => {
  const { simulated, run } = startClient();
  const there = stream(simulated, [event(0)]);
  const seen: Record<string, unknown>[] = [];
  const following = collect(run.logs({ follow: true }), seen);
  await pass(simulated, 60_000);
  answer(simulated, "osiris.c1.jobs.logs", ({ after }) => {
    return { body: { lines: after === "" ? [{ message: "on" }] : [], next: "a:1" } };
  });
  answer(simulated, "osiris.c1.jobs.status", () => ({ body: { run: "r1", status: "finished" } }));
  await pass(simulated, 20_000);
  t.deepEqual(await following, [{ message: "on" }]);
  there.unsubscribe();
});

test("an event that the next leader skips does not make a client request without a pause", async (t) => {
  const { simulated, run } = startClient();
  const leader = lead(simulated, [event(0)]);
  const seen: RunEvent[] = [];
  const following = collect(run.events(), seen);
  await pass(simulated, 3000);
  leader.unsubscribe();
  // Event 1 was lost on the way. The next leader knows neither of them, and skips their numbers.
  const { payload, headers } = encodeBody(event(2), "application/json");
  simulated.network.transport.publish("osiris.c1.runs.r1.events", payload, { headers });
  await pass(simulated, 3000);
  let requests = 0;
  const next = answer(simulated, "osiris.c1.jobs.events", ({ since }) => {
    requests++;
    return { body: { events: Number(since) <= 1001 ? [event(1001)] : [] } };
  });
  await pass(simulated, 5000, 100);
  t.true(requests > 2 && requests < 8, `${requests} requests in 5 s`);
  next.unsubscribe();
  lead(simulated, [{ ...last, seq: 1002 }]);
  await pass(simulated, 12_000);
  t.deepEqual(
    (await following).map(({ seq }) => seq),
    [0, 1001, 1002],
  );
});

test("clients whose processes submit equally long after their starts use different keys", async (t) => {
  const simulated = startSimulatedNetwork();
  const { transport, cluster, clock } = simulated.network;
  const times: string[] = [];
  answer(simulated, "osiris.c1.jobs.submit", ({ key }) => {
    times.push(String(key).split("-").at(-2) ?? "");
    return { body: { run: "r1" } };
  });
  for (const epochMs of [1_700_000_000_000.25, 1_700_000_000_000.5]) {
    const own: Clock = {
      now: () => 153.4,
      epochMs: () => epochMs,
      date: () => clock.date(),
      after: (ms, task) => clock.after(ms, task),
    };
    const client = new Client({ transport, cluster, clock: own });
    const submitted = client.submit({ model: smallModel, data: smallData });
    await pass(simulated, 200);
    await submitted;
  }
  t.deepEqual(times, ["1700000000000.25", "1700000000000.5"]);
});

const minuteMs = 60_000;

/** Follows a run whose leader answers for 3 s, and then no longer. Passes these minutes. */
async function silenced(minutes: number) {
  const { simulated, run } = startClient();
  const leader = lead(simulated, [event(0), event(1)]);
  const [seen, told]: [RunEvent[], string[]] = [[], []];
  const following = collect(run.events({ onSilence: (sentence) => told.push(sentence) }), seen);
  following.catch(() => {}); // Awaited later.
  await pass(simulated, 3000);
  leader.unsubscribe();
  await pass(simulated, minutes * minuteMs, 500);
  return { simulated, seen, told, following };
}

test("a follower outlasts a silence of 14 minutes, and continues after its last event", async (t) => {
  const { simulated, seen, told, following } = await silenced(14);
  t.regex(
    told[0] ?? "",
    /^the cluster of run r1 at .* has not answered for 1\d s, of at most 15 min/,
  );
  lead(simulated, [event(0), event(1), event(2), { ...last, seq: 3 }]);
  await pass(simulated, 3000);
  await following;
  t.deepEqual(
    seen.map(({ seq }) => seq),
    [0, 1, 2, 3],
  );
  t.regex(told.at(-1) ?? "", /answers again, after 8[34]\d s$/);
});

test("after 15 minutes of silence a follower fails, and names the command that continues", async (t) => {
  const { following } = await silenced(15.3);
  const error = await t.throwsAsync(following);
  t.like(error, { code: "REQUEST_FAILED" });
  t.regex(error.message, /silent for 9\d\d s: repair .* `osiris events r1 --since 2 -f` continues/);
});

test("a follower whose client is closed fails without waiting for the cluster", async (t) => {
  const { simulated, following } = await silenced(0);
  await simulated.network.transport.close();
  await pass(simulated, 2000);
  t.like(await t.throwsAsync(following), { code: "REQUEST_FAILED" });
});
