// The address at which a host takes direct links, and the reports of its bridge about them.

import { once } from "node:events";
import { createServer, isIPv4 } from "node:net";
import test from "ava";
import { z } from "zod";
import { LinkBoard } from "../../../actors/threads/link-board.ts";
import { directWayOf } from "../../../actors/threads/link-place.ts";
import { linkOptions } from "../../../src/exchange/links/link-options.ts";
import { realClock, SimulatedClock } from "../../../src/ports/clock.ts";
import { until } from "../../helpers/until.ts";

const linkEncryption = "auto" as const;
const ports = { clock: realClock };

test("a host accepts links at its address to the broker, encrypted as the broker is", async (t) => {
  const plain = await directWayOf({ linkEncryption }, { servers: "nats://127.0.0.1:4222" }, ports);
  t.deepEqual(plain.listen, { address: "127.0.0.1", isEncrypted: false });
  t.is(plain.newToken().length, 32);
  const tls = await directWayOf({ linkEncryption }, { servers: "tls://127.0.0.1:4222" }, ports);
  t.true(tls.listen.isEncrypted);
  const never = { linkEncryption: "never" } as const;
  t.false((await directWayOf(never, { servers: "127.0.0.1", tls: {} }, ports)).listen.isEncrypted);
});

test("a resolver that does not respond is waited for 2 s, then any address is announced", async (t) => {
  const clock = new SimulatedClock();
  let isAsked = false;
  const lookup = () => {
    isAsked = true;
  };
  const from = { servers: "nats://broker.example:4222" };
  const way = directWayOf({ linkEncryption }, from, { clock, lookup });
  await until("the lookup of a name", () => isAsked);
  clock.advance(2000);
  t.true(isIPv4((await way).listen.address));
});

test("a host accepts links at a given address, on a free port of a range", async (t) => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as { readonly port: number };
  const at = { linkEncryption, linkAddress: `127.0.0.1:${port}-${port + 3}` };
  const { listen } = await directWayOf(at, { servers: "nats://10.255.255.1:4222" }, ports);
  taken.close();
  t.is(listen.address, "127.0.0.1");
  t.true(listen.port !== undefined && listen.port > port && listen.port <= port + 3);
});

test("the address for links is a name or an IP address, with ports or without", (t) => {
  const isAddress = (text: string) =>
    z.object(linkOptions).safeParse({ linkAddress: text }).success;
  for (const text of ["10.0.0.5", "node-1.example:4600", "[fd00::5]:4600-4663", "[::1]", ":4600"]) {
    t.true(isAddress(text), text);
  }
  const ports = ["10.0.0.5:65536", "10.0.0.5:4663-4600", "[::1]:4600-70000", ":99999"];
  for (const text of ["", "10.0.0.5:", "fd00::5", "10.0.0.5:a", "a b", "host:1-2-3", ...ports]) {
    t.false(isAddress(text), text);
  }
});

test("a bridge reports its links in the log, and in a message of limited size", (t) => {
  const lines: string[] = [];
  const hosts = Array.from({ length: 128 }, (_, i) => i + 1);
  const board = new LinkBoard(hosts, (level, message) => lines.push(`${level} ${message}`));
  const traffic = { ways: { broker: 0, direct: 0 } };
  for (let host = 1; host < 128; host++) {
    board.take({ type: "unusable", host, way: "outgoing", reason: "connection refused" });
  }
  t.deepEqual(lines, [], "not logged yet: a generation may be ending");
  for (let i = 0; i < 1000; i++) board.take({ type: "refused", address: "10.0.0.9", reason: "no" });
  board.take({ type: "open", host: 1 });
  board.take({ type: "apart", host: 2, aheadMs: -2500 });
  const report = board.report(traffic);
  t.is(report?.direct, 1);
  t.is(report?.broker, 126);
  t.deepEqual(report?.reasons[0], { to: "host:3", reason: "connection refused" });
  t.is(report?.reasons.length, 8);
  t.is(report?.refused, 1000);
  t.deepEqual(report?.apart, { host: "host:3", seconds: -2.5 });
  t.is(board.report(traffic), undefined, "no news since the last report");
  t.is(lines.filter((line) => line.includes("refused a direct link")).length, 20);
  t.true(lines.some((line) => line.startsWith("warn the direct link to host:2 cannot be used")));
});
