// Malformed and hostile messages to every method and every actor of a cluster, and to its broker's
// parser: nothing crashes, and each message is answered, counted, or turns out to be valid.

import { once } from "node:events";
import { connect as openSocket } from "node:net";
import test from "ava";
import { connect, headers as emptyHeaders, type NatsConnection } from "nats";
import { Cluster } from "../../../index.ts";
import { withoutChecksum } from "../../../src/wire/messages/checksum.ts";
import { messages, takers } from "../../../src/wire/messages/messages.ts";
import { parseSubject } from "../../../src/wire/messages/subjects.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import {
  drawsOf,
  type HostileFrame,
  hostileEnvelope,
  hostileFrame,
  hostileTalk,
  oneOf,
} from "../../helpers/nats/hostile.ts";
import { patient } from "../../helpers/nats/nats.ts";
import { rounds } from "../../helpers/thinned.ts";
import { until } from "../../helpers/until.ts";

/** In `npm run test:all` 800 requests of each method, and 200 frames of each message type. */
const framesCount = rounds("hostile frames", 600, 30_000);
const talksCount = rounds("hostile connections", 50, 5000);
/** Messages sent before each wait for the cluster. */
const wave = 250;

const actors = ["hosts", "host", "jobs", "queue", "cluster"] as const;
const job = { model: smallModel, data: smallData, checkpoint: { directory: "none" } };
const valid = { job, key: "k", run: "r1", since: 0, most: 10, devices: 1 };

/** Whether the bytes of a frame make a valid message to the actor on this subject. */
function isMessage(subject: string, { payload, headers }: HostileFrame): boolean {
  try {
    withoutChecksum({ subject, payload, headers });
    const { type } = messages.decode({ subject, payload });
    const { role, action } = parseSubject(subject) ?? {};
    if (takers[type] !== role || action !== type.replace(".", "-")) return false;
    // The host checks the job that these messages carry, and no drawn job is valid.
    return !/^host\.(prepare|assemble)$/.test(type);
  } catch {
    return false;
  }
}

test.serial("a hostile message is answered, counted or valid, and no actor crashes", async (t) => {
  const failures: string[] = [];
  let counted = 0;
  await using cluster = await Cluster.start({
    devices: 1,
    minDevices: 2, // No submitted job can start.
    onIncident: ({ offender, reason }) => {
      if (offender === "wire" || offender === "transport") counted++;
      else failures.push(`${offender}: ${reason.code} ${reason.message.slice(0, 200)}`);
    },
  });
  const { url: servers, token = "" } = cluster;
  const client = await connect({ servers, token });
  const info = await client.request(`$SRV.INFO.osiris-${cluster.name}`, "", patient);
  const { endpoints } = info.json<{ endpoints: readonly { name: string }[] }>();
  const methods = endpoints.map(({ name }) => name);
  t.true(methods.length >= 7);
  const counts = { methods: 0, answers: 0, wanted: 0, uncounted: 0, messages: 0 };
  client.subscribe("fuzz.*", { callback: () => void counts.answers++ });

  for (let index = 0; index < framesCount; index++) {
    let isAssembling = false;
    if (index % 2 === 0) ask(client, methods, index, counts);
    else isAssembling = tellActor(client, index, counts).endsWith(".host-assemble");
    // A host that reads a host.assemble drops others of the same run as repeats, without a count.
    const waits = isAssembling || index % wave === wave - 1;
    if (waits) await settled(cluster, client, counts, () => counted);
  }
  await settled(cluster, client, counts, () => counted);
  t.log(`${framesCount} frames: ${JSON.stringify({ ...counts, counted })}`);
  t.is(counts.answers, counts.wanted, "every request is answered");
  t.is(counted, counts.uncounted, "each invalid message is counted");
  t.is(counts.answers + counted + counts.messages, framesCount);

  const login = `CONNECT {"verbose":false,"auth_token":"${token}"}`;
  let refused = 0;
  for (let index = 0; index < talksCount; index += 50) {
    const talks = Array.from({ length: 50 }, (_, i) => talk(servers, index + i, login));
    for (const heard of await Promise.all(talks)) {
      t.regex(heard, /^INFO \{.*\}\r\n/);
      if (/^-ERR '/m.test(heard)) refused++;
    }
  }
  t.true(refused > talksCount / 2, `the broker refused ${refused} of ${talksCount} connections`);

  t.true(Array.isArray(await cluster.list()), "the job service still answers");
  t.is(cluster.hosts.length, 1);
  t.deepEqual(Object.keys(Object.prototype), []);
  t.deepEqual(
    failures.filter((failure) => !failure.startsWith("process ")),
    [],
  );
  await client.close();
});

type Told = Record<"methods" | "answers" | "wanted" | "uncounted" | "messages", number>;

/** A request to the job service, with or without a tenant. */
function ask(client: NatsConnection, methods: readonly string[], index: number, told: Told): void {
  const stream = drawsOf(index);
  const method = oneOf(stream, methods);
  const tenant = oneOf(stream, ["", "", `tenant-${index % 97}.`, "a$b.", "__proto__."]);
  const subject = `osiris.c1.jobs.${tenant}${method}`;
  const frame = hostileFrame(stream, valid);
  const reply = stream.below(20) === 0 ? undefined : `fuzz.${index}`;
  told.methods++;
  if (reply === undefined || !isWhole(subject, frame)) told.uncounted++;
  else told.wanted++;
  send(client, subject, frame, reply);
}

function isWhole(subject: string, { payload, headers }: HostileFrame): boolean {
  try {
    withoutChecksum({ subject, payload, headers });
    return true;
  } catch {
    return false;
  }
}

/** Sends a message to an actor that belongs to no run. Returns its subject. */
function tellActor(client: NatsConnection, index: number, told: Told): string {
  const stream = drawsOf(index);
  const frame = hostileEnvelope(stream);
  const method = stream.below(4) === 0 ? `f${index}` : frame.type.replace(".", "-");
  const taker = actors.find((actor) => actor === takers[frame.type as keyof typeof takers]);
  const actor = stream.below(4) === 0 ? oneOf(stream, actors) : (taker ?? oneOf(stream, actors));
  const subject = `osiris.c1.cluster.0.${actor}.0.${method}`;
  if (isMessage(subject, frame)) told.messages++;
  else told.uncounted++;
  send(client, subject, frame, undefined);
  return subject;
}

function send(
  client: NatsConnection,
  subject: string,
  { payload, headers }: HostileFrame,
  reply: string | undefined,
): void {
  const all = emptyHeaders();
  for (const [name, value] of Object.entries(headers)) all.append(name, value);
  client.publish(subject, payload, { headers: all, ...(reply === undefined ? {} : { reply }) });
}

/** Waits until every message is answered or counted; then the test compares the counts. */
async function settled(
  cluster: Cluster,
  client: NatsConnection,
  told: Told,
  counted: () => number,
): Promise<void> {
  await client.flush();
  await until("the answer to or the count of each message", async () => {
    await cluster.network.transport.flush();
    await client.flush();
    return told.answers >= told.wanted && counted() >= told.uncounted;
  });
}

/** How long the broker may take to close a connection whose client has ended it. */
const closeMs = 300_000;

/**
 * Sends bytes to the broker and ends the connection. Returns what the broker answered until it
 * closed the connection, too. Throws if the broker leaves it open.
 */
async function talk(url: string, index: number, login: string): Promise<string> {
  const socket = openSocket(Number(new URL(url).port), "127.0.0.1");
  let heard = "";
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1");
  });
  socket.on("error", () => undefined);
  const closed = once(socket, "close", { signal: AbortSignal.timeout(closeMs) });
  socket.end(hostileTalk(drawsOf(index), login));
  await closed.catch((cause) => {
    socket.destroy();
    throw new Error(`The broker left connection ${index} open; it answered ${heard}`, { cause });
  });
  return heard;
}
