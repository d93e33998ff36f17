// A live cluster with a hostile tenant, which sends mutated jobs, requests, frames and HTTP calls.
// After each case the honest tenant must get its answers in time, and the same model; the hostile
// tenant must have received none of its data, and changed none.

import { mkdtempSync } from "node:fs";
import { connect as connectSocket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { encode } from "@msgpack/msgpack";
import type { RunLine } from "../../internal.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import { drawsOf, hostileFrame } from "../helpers/nats/hostile.ts";
import { hasNatsServer } from "../helpers/nats/nats.ts";
import { type RawClient, startRawClient } from "../helpers/nats/raw-client.ts";
import { jsonValues, type Target } from "./target.ts";
import {
  canHoldProcesses,
  hostileLogin,
  openTenantPlace,
  secretName,
  type TenantPlace,
} from "./tenant-place.ts";
import { type Act, ownRun, tenantSeeds, theirRun } from "./tenant-seeds.ts";

/**
 * Maximum waits of the honest tenant: for an answer, for its model, for the end of cancelled runs.
 * On two idle cores they take 20 ms, 1 s and 50 ms, on a busy machine more; a hang never ends.
 */
const [answerMsMax, runMsMax, endMsMax] = [15_000, 40_000, 30_000];
/** Memory limit: `osiris up` with some models in training uses a fourth of it. */
const memoryBytesMax = 3 * 2 ** 29;
const callMsMax = 1000;
/** Maximum number of acts of a case. */
const actsMax = 40;

let place: Promise<TenantPlace> | undefined;

async function readCase(bytes: Uint8Array, home: string): Promise<void> {
  const text = Buffer.from(bytes).toString("utf8");
  JSON.parse(text);
  place ??= openTenantPlace(mkdtempSync(join(home, "place-")));
  const here = await place;
  try {
    await judged(here, text);
  } catch (cause) {
    place = undefined; // The next case starts a new cluster.
    const ended = here.ended();
    await here.close();
    if (ended !== undefined) throw new Error(ended);
    // A named error would count as a refusal of the case, so it is replaced.
    throw cause instanceof TrainingError ? new Error(`${cause.code}: ${cause.message}`) : cause;
  }
}

/** Runs one case. @throws Error that describes the harm to the cluster or the honest tenant */
async function judged(here: TenantPlace, text: string): Promise<void> {
  const name = "case";
  const before = await within(answerMsMax, "the hostile tenant was not answered", () =>
    here.hostile.list(),
  );
  const run = await within(answerMsMax, "the honest tenant's job was not taken", () =>
    here.honest.submit(here.honestJob(name)),
  );
  const seen = await done(here, actsOf(text, run.run, before));
  await within(answerMsMax, "the honest tenant was not answered", () => here.honest.list());
  const { digest } = await within(runMsMax, "the honest tenant's run did not end", () =>
    run.result(),
  );
  expectSame("the model of the honest tenant", digest, here.quietDigest);
  const ends = await within(endMsMax, "runs of the hostile tenant do not end", () => endAll(here));
  const shown = [...seen, ...ends].join("\n");
  for (const [pattern, what] of forbidden) {
    const at = shown.search(pattern);
    if (at >= 0) throw new Error(`${what}: ${shown.slice(Math.max(0, at - 200), at + 400)}`);
  }
  here.forget(name);
  expectSame("files outside the hostile tenant's directories", here.changes().join(), "");
  here.renew();
  const ended = here.ended();
  if (ended !== undefined) throw new Error(ended);
  const bytes = here.memory();
  if (bytes > memoryBytesMax) throw new Error(`the cluster has ${bytes >> 20} MiB of memory`);
}

/** The acts of a case, with the placeholders replaced by names of runs. */
function actsOf(text: string, theirs: string, before: readonly RunLine[]): Act[] {
  const last = Math.max(0, ...before.map(({ run }) => Number(/\d+$/.exec(run)?.[0])));
  const own = theirs.replace(/honest-\d+$/, `hostile-${last + 1}`);
  const parsed: unknown = JSON.parse(text.replaceAll(ownRun, own).replaceAll(theirRun, theirs));
  return (Array.isArray(parsed) ? parsed : [parsed])
    .filter((act) => typeof act === "object" && act !== null)
    .slice(0, actsMax);
}

/** Patterns that no answer to the hostile tenant may contain, with the finding. */
const forbidden = [
  [new RegExp(secretName), "something of the honest tenant's was shown"],
  [/"code":"UNKNOWN"|\xa4code\xa7UNKNOWN/, "an error without a name was answered"],
] as const;

function expectSame(what: string, actual: string, expected: string): void {
  if (actual !== expected) throw new Error(`${what}: expected "${expected}", got "${actual}"`);
}

async function within<Result>(ms: number, why: string, work: () => Promise<Result>) {
  const timeout = new AbortController();
  try {
    return await Promise.race([
      work(),
      sleep(ms, undefined, { signal: timeout.signal }).then(() => {
        throw new Error(`${why} within ${ms} ms`);
      }),
    ]);
  } finally {
    timeout.abort();
  }
}

/** Performs the acts of a case; resolves to everything that the tenant received. */
async function done(here: TenantPlace, acts: readonly Act[]): Promise<string[]> {
  using client = await startRawClient(here.ports.nats);
  client.send(
    `CONNECT ${JSON.stringify({ ...hostileLogin, headers: true, no_responders: true, verbose: false })}`,
    "SUB _INBOX.hostile.> 1",
    "SUB osiris.c1.runs.hostile.*.events 2",
  );
  const calls: Promise<string>[] = [];
  for (const [i, act] of acts.entries()) {
    if (typeof act.call === "string") calls.push(call(here, act));
    else if (typeof act.listen === "string") client.send(`SUB ${act.listen} ${i + 3}`);
    else publish(client, act, i);
  }
  client.send("PING");
  // An invalid line of the protocol ends the sender's connection.
  await Promise.race([client.until("PONG"), client.closed, sleep(answerMsMax)]).catch(() => {});
  const answers = await Promise.all(calls);
  await Promise.race([client.closed, sleep(100)]); // Answers arrive meanwhile.
  return [client.text(), ...answers];
}

function publish(client: RawClient, act: Act, i: number): void {
  const { subject = `osiris.c1.jobs.hostile.${act.ask}`, reply = `_INBOX.hostile.${i}` } = act;
  const { payload, headers } = frameOf(act);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`NATS/1.0\r\n${lines.join("")}\r\n`);
  const sizes = `${head.length} ${head.length + payload.length}`;
  client.send(`HPUB ${subject} ${reply} ${sizes}`);
  client.socket.write(Buffer.concat([head, payload, Buffer.from("\r\n")]));
}

/** The frame of an act: its body as JSON or msgpack, or a hostile frame derived from it. */
function frameOf({ body = {}, as, frame, headers }: Act): ReturnType<typeof hostileFrame> {
  if (typeof frame === "number") return hostileFrame(drawsOf(Math.abs(frame) % 2 ** 31), body);
  const isPacked = as === "msgpack";
  const bounded = withFewRows(body);
  const payload = isPacked ? encode(bounded, { maxDepth: 3000 }) : jsonValues.write(bounded);
  const type = `application/${isPacked ? "msgpack" : "json"}`;
  const own = typeof headers === "object" ? (headers as Record<string, string>) : {};
  return { payload, headers: { "content-type": type, ...own } };
}

/**
 * Limits the rows of tables: large tables fill the machine or are refused by size, and neither is
 * of interest.
 */
function withFewRows(body: unknown): unknown {
  const text = JSON.stringify(body, (name, value: unknown) =>
    name === "rows" && typeof value === "number" && value > rowsMax ? rowsMax : value,
  );
  return text === undefined ? null : JSON.parse(text);
}

const rowsMax = 2 ** 20;

/**
 * Makes an HTTP call without checking the address; resolves to the part of the answer that arrived
 * in time.
 */
function call(here: TenantPlace, act: Act): Promise<string> {
  const { call: method, path = "/", of, token, headers = {}, body } = act;
  const port = of === "metrics" ? here.ports.metrics : here.ports.page;
  const socket = connectSocket(port, "127.0.0.1");
  let answer = "";
  return new Promise((resolve) => {
    const end = () => {
      socket.destroy();
      clearTimeout(timer);
      resolve(answer);
    };
    const timer = setTimeout(end, callMsMax);
    socket.setEncoding("latin1").on("data", (text) => {
      answer += text;
    });
    socket.on("error", end).on("close", end);
    const content = body === undefined ? "" : JSON.stringify(body);
    const lines = Object.entries({
      Host: `127.0.0.1:${port}`,
      Connection: "close",
      ...(token === true ? { Authorization: `Bearer ${here.hostileToken}` } : {}),
      ...(content === "" ? {} : { "Content-Length": Buffer.byteLength(content) }),
      ...(headers as object),
    }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${content}`);
  });
}

/** Cancels the hostile tenant's runs; resolves to how they ended, once all have ended. */
async function endAll({ hostile }: TenantPlace): Promise<string[]> {
  for (;;) {
    const runs = await hostile.list();
    const open = runs.filter(({ status }) => !/^(finished|failed|cancelled)$/.test(status));
    if (open.length === 0) {
      const ends = await Promise.all(runs.slice(-5).map(({ run }) => hostile.run(run).status()));
      return ends.map(({ error, incidents }) => JSON.stringify({ error, incidents }));
    }
    for (const { run } of open) {
      await hostile
        .run(run)
        .cancel()
        .catch((error: unknown) => {
          if (!(error instanceof TrainingError)) throw error; // The run has ended meanwhile.
        });
    }
    await sleep(50);
  }
}

const tenants: Target = {
  name: "tenants of a cluster",
  seeds: () => tenantSeeds.map((acts) => Buffer.from(JSON.stringify(acts))),
  read: readCase,
  values: jsonValues,
  caseMsMax: 4 * answerMsMax + runMsMax + endMsMax,
  refusals: [SyntaxError],
};

/**
 * The target with the tenants; none without a nats-server, or if processes cannot be tied to their
 * parent.
 */
export const tenantTargets: readonly Target[] =
  hasNatsServer() && canHoldProcesses() ? [tenants] : [];
