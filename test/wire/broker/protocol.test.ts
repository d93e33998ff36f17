// The rules of the documented NATS protocol: the same test checks each rule against the embedded
// broker and, where one is installed, a real nats-server.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import { type BrokerSettings, startBroker } from "../../../src/wire/broker/broker.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { type RawClient, startRawClient } from "../../helpers/nats/raw-client.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";
import { waitMs } from "../../helpers/until.ts";
import { chapters, type ProtocolLine } from "./protocol-lines.ts";

interface Served extends AsyncDisposable {
  readonly port: number;
}

/** The settings that both servers have; each server's start function translates them. */
interface Settings {
  readonly token?: string;
  readonly maxConnections?: number;
  readonly pingMs?: number;
  readonly maxPending?: number;
}

const servers: Readonly<Record<string, (settings: Settings) => Promise<Served>>> = {
  "the embedded broker": ({ token, ...settings }) => {
    const given: Record<keyof BrokerSettings, unknown> | object = {
      connectionsMax: settings.maxConnections,
      pingIntervalMs: settings.pingMs,
      pendingBytesMax: settings.maxPending,
    };
    const known = Object.entries(given).filter(([, value]) => value !== undefined);
    const auth = token === undefined ? ("open" as const) : { token };
    return startBroker({ auth, ...Object.fromEntries(known) });
  },
  "nats-server": startConfigured,
};

/** Starts a nats-server with a configuration file. */
async function startConfigured(settings: Settings): Promise<Served> {
  const directory = mkdtempSync(join(tmpdir(), "osiris-protocol-"));
  const file = join(directory, "nats.conf");
  const { token, maxConnections, pingMs, maxPending } = settings;
  const lines = [
    token && `authorization { token: "${token}" }`,
    maxConnections && `max_connections: ${maxConnections}`,
    pingMs && `ping_interval: "${pingMs}ms"`,
    maxPending && `max_pending: ${maxPending}`,
  ];
  writeFileSync(file, lines.filter((line) => line !== undefined).join("\n"));
  const server = await startNatsServer(["-c", file]);
  return {
    port: Number(new URL(server.url).port),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      rmSync(directory, { recursive: true });
    },
  };
}

/** The default payload limit of both servers, and a limit on a client's pending bytes. */
const maxPayload = 2 ** 20;
const usual: Settings = { maxPending: 2 ** 21 };

/**
 * Declares a test for each server; without an installed nats-server, the second one is listed as
 * skipped.
 */
function testBoth(
  title: string,
  settings: Settings,
  body: (t: ExecutionContext, server: Served) => Promise<void>,
): void {
  for (const [name, start] of Object.entries(servers)) {
    testIf(...(name === "nats-server" ? [natsServer] : [])).serial(
      `${name}: ${title}`,
      async (t) => {
        await using server = await start(settings);
        await body(t, server);
      },
    );
  }
}

function withoutInfo(client: RawClient): string {
  return client.text().replace(/^INFO [^\r]*\r\n/, "");
}

/** Fails if the server neither answers nor closes. */
async function inTime(done: Promise<unknown>, send: readonly string[]): Promise<void> {
  const isLate = await Promise.race([done.then(() => false), sleep(waitMs, true, { ref: false })]);
  if (isLate) throw new Error(`No end of the conversation ${JSON.stringify(send).slice(0, 200)}`);
}

async function answerOf(port: number, { send, isCut }: ProtocolLine): Promise<string> {
  using client = await startRawClient(port);
  client.socket.write(Buffer.from(send.map((line) => `${line}\r\n`).join(""), "latin1"));
  if (isCut) await inTime(client.closed, send);
  else await inTime(client.until("PONG\r\n"), send);
  return withoutInfo(client).replace(/PONG\r\n$/, "");
}

testBoth(
  "every documented rule holds, the largest payload arrives, and a slow reader is cut",
  usual,
  async (t, server) => {
    const { port } = server;
    for (const [chapter, lines] of Object.entries(chapters)) {
      for (const line of lines) {
        const answer = await answerOf(port, line);
        const rule = `${chapter}: ${line.rule}`;
        if (typeof line.answer === "string") t.is(answer, line.answer, rule);
        else t.regex(answer, line.answer, rule);
      }
    }
    await saysWhatClientsNeed(t, server);
    await carriesTheLargestPayload(t, server);
    await cutsASlowReader(t, server);
  },
);

const quiet = 'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}';

async function saysWhatClientsNeed(t: ExecutionContext, { port }: Served): Promise<void> {
  using first = await startRawClient(port);
  using second = await startRawClient(port);
  const [one, two] = [first, second].map((client) =>
    JSON.parse(/^INFO (.*)\r\n/.exec(client.text())?.[1] ?? ""),
  );
  t.like(one, { host: "127.0.0.1", port, proto: 1, headers: true, max_payload: maxPayload });
  t.is(one.client_ip, "127.0.0.1");
  for (const name of ["server_id", "server_name", "version", "go"])
    t.is(typeof one[name], "string");
  t.is(one.server_id, two.server_id);
  t.true(two.client_id > one.client_id);
  t.falsy(one.auth_required);
}

testBoth("only the token authenticates a client", { token: "tok" }, async (t, { port }) => {
  const answerTo = async (...send: readonly string[]) =>
    answerOf(port, { rule: "", send, answer: "", isCut: true });
  const violation = "-ERR 'Authorization Violation'\r\n";
  t.is(await answerTo("CONNECT {}"), violation);
  t.is(await answerTo('CONNECT {"auth_token":"no"}'), violation);
  t.is(await answerTo('CONNECT {"user":"tok"}'), violation);
  for (const line of ["PING", "PUB a 1", "SUB a 1", "XYZ"])
    t.is(await answerTo(line), violation, line);
  const admitted = 'CONNECT {"verbose":false,"auth_token":"tok"}';
  t.is(await answerOf(port, { rule: "", send: [admitted, "PING"], answer: "" }), "");
  t.is(await answerTo(admitted, 'CONNECT {"auth_token":"no"}'), violation);
  const again = [admitted, 'CONNECT {"name":"x"}', "PING"];
  t.is(await answerOf(port, { rule: "", send: again, answer: "" }), "");
  using silent = await startRawClient(port);
  t.true(silent.text().includes('"auth_required":true'));
  await silent.closed;
  t.is(withoutInfo(silent), "-ERR 'Authentication Timeout'\r\n");
});

async function carriesTheLargestPayload(t: ExecutionContext, { port }: Served): Promise<void> {
  const payload = "x".repeat(maxPayload);
  const send = [quiet, "SUB a 1", `PUB a ${maxPayload}`, payload, "PING"];
  const carried = `MSG a 1 ${maxPayload}\r\n${payload}\r\n`;
  t.true((await answerOf(port, { rule: "", send, answer: "" })) === carried);
  const more = [quiet, `PUB a ${maxPayload + 1}`];
  t.is(
    await answerOf(port, { rule: "", send: more, answer: "", isCut: true }),
    "-ERR 'Maximum Payload Violation'\r\n",
  );
}

testBoth("a connection too many gets an error", { maxConnections: 1 }, async (t, { port }) => {
  using first = await startRawClient(port);
  first.send(quiet, "PING");
  await first.until("PONG");
  using second = await startRawClient(port);
  await second.closed;
  t.true(second.text().endsWith("-ERR 'maximum connections exceeded'\r\n"));
});

testBoth("a client without PONG is disconnected", { pingMs: 100 }, async (t, { port }) => {
  using client = await startRawClient(port);
  client.send(quiet);
  await client.closed;
  const pings = withoutInfo(client).replace("-ERR 'Stale Connection'\r\n", "");
  t.regex(pings, /^(PING\r\n){2,3}$/);
  t.true(client.text().endsWith("-ERR 'Stale Connection'\r\n"));
});

async function cutsASlowReader(t: ExecutionContext, { port }: Served): Promise<void> {
  using slow = await startRawClient(port);
  slow.send(quiet, "SUB a 1", "PING");
  await slow.until("PONG");
  slow.socket.pause();
  using other = await startRawClient(port);
  other.send(quiet, "SUB a 1", "PING");
  await other.until("PONG");
  const payload = "x".repeat(1_000_000);
  const sends = 40;
  for (let sent = 0; sent < sends; sent++) {
    other.send("PUB a 1000000", payload, `SUB got.${sent} 2`, `PUB got.${sent} 0`, "", "UNSUB 2");
    await other.until(`MSG got.${sent} 2 0\r\n`);
  }
  t.is(other.text().match(/MSG a 1 1000000/g)?.length, sends);
  slow.socket.resume();
  await slow.closed;
  t.true((slow.text().match(/MSG a 1 1000000/g)?.length ?? 0) < sends);
}
