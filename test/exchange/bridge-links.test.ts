// Bridges between simulated hosts with direct links: the same bytes, whatever fails.

import test from "ava";
import { LinkUnusableError } from "../../src/errors/errors.ts";
import type { LinkFaults } from "../../src/exchange/links/simulated-links.ts";
import type { MemoryFaults } from "../../src/wire/transports/memory-transport.ts";
import { rounds } from "../helpers/thinned.ts";
import { startBridgedHosts } from "./bridged-hosts.ts";
import { exchangeRounds, roundsShape } from "./rounds.ts";

const placements: readonly (readonly number[])[] = [
  [0, 1],
  [0, 0, 1, 1],
  [0, 0, 0, 1, 2, 2],
];

const calm: MemoryFaults = { delayMs: [0, 3] };
const stormy: MemoryFaults = { delayMs: [0, 20], drop: 0.1, duplicate: 0.2, reorder: 0.2 };
const delayMs = [0, 30] as const;
const weathers: Readonly<Record<string, readonly [MemoryFaults, LinkFaults]>> = {
  calm: [calm, {}],
  slow: [calm, { delayMs }],
  "links are cut": [calm, { delayMs, cut: 0.02 }],
  "bits flip": [calm, { delayMs, flip: 0.02 }],
  "links are half open": [calm, { delayMs, halfOpen: 0.01 }],
  "hosts refuse": [calm, { delayMs, refuse: 0.7, cut: 0.02 }],
  "links and broker fail": [stormy, { delayMs, cut: 0.03, halfOpen: 0.01, flip: 0.01 }],
};

for (const hostOf of placements) {
  for (const [weather, [faults, links]] of Object.entries(weathers)) {
    test(`devices of hosts ${hostOf} exchange the right bytes over links: ${weather}`, async (t) => {
      for (let seed = 0; seed < rounds("seeds of direct links", 1, 40); seed++) {
        const shape = roundsShape(hostOf.length);
        const small = { frameBytesMax: 6144 + 256, windowBytes: 40_000, deadlineMs: 60_000 };
        const given = { shape, hostOf, seed, faults, links, ...small };
        const hosts = startBridgedHosts(given);
        await hosts.run(async (exchange) => {
          t.deepEqual(await exchangeRounds(exchange, shape, 12), [], `seed ${seed}`);
        });
      }
    });
  }
}

test("bytes that arrive on a lost connection after their frame came over the broker change nothing", async (t) => {
  let late = 0;
  const seeds = rounds("seeds of late bytes", 6, 200);
  for (let seed = 0; seed < seeds; seed++) {
    const hostOf = [0, 0, 1, 1];
    const shape = roundsShape(hostOf.length);
    const links: LinkFaults = { delayMs: [0, 1000] };
    const hosts = startBridgedHosts({ shape, hostOf, seed, links, faults: { delayMs: [1, 6] } });
    const { network, broker, clock, news } = hosts;
    // Once both links are open, cuts them amid frames, and drops requests for new ones. Bytes of
    // several frames then arrive many rounds late.
    const cutWhenOpen = () => {
      const isOpen = news.every((own) => own.length > 0) && network.arrived > 20;
      if (!isOpen || network.sent - network.arrived < 4) return void clock.after(1, cutWhenOpen);
      broker.setFaults({ delayMs: [1, 6] }, { subjects: "osiris.*.*.*.frames.*.link", drop: 1 });
      late += network.sent - network.arrived;
      while (network.cut(0));
    };
    cutWhenOpen();
    await hosts.run(async (exchange) => {
      t.deepEqual(await exchangeRounds(exchange, shape, 60), [], `seed ${seed}`);
    });
  }
  t.true(late > 3 * seeds, `${late} frames were in flight`);
});

test("hosts use direct links that open in time, and the broker then carries nothing", async (t) => {
  const shape = roundsShape(4);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 0, 1, 1], seed: 1, links: {} });
  await hosts.run(async (exchange) => {
    await Promise.all(hosts.bridges.map(({ ready }) => ready));
    await exchangeRounds(exchange, shape, 3);
  });
  for (const { traffic } of hosts.bridges) {
    t.is(traffic.ways.broker, 0);
    t.true(traffic.ways.direct > 1000);
  }
  t.deepEqual(hosts.news, [[{ type: "open", host: 1 }], [{ type: "open", host: 0 }]]);
});

test("both hosts get the reason why a link is unused, and use the broker instead", async (t) => {
  const shape = roundsShape(2);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 1], seed: 1, links: { refuse: 1 } });
  await hosts.run(async (exchange) => {
    await Promise.all(hosts.bridges.map(({ ready }) => ready));
    t.deepEqual(await exchangeRounds(exchange, shape, 3), []);
  });
  for (const [host, own] of hosts.news.entries()) {
    const way = (end: string) => {
      return own.flatMap((one) => (one.type === "unusable" && one.way === end ? one.reason : []));
    };
    const refused = (of: number) => {
      return new LinkUnusableError(`host${of}:${of + 1}`, "connection refused").message;
    };
    t.is(way("outgoing")[0], refused(1 - host));
    t.is(way("incoming")[0], refused(host));
    t.is(hosts.bridges[host]?.traffic.ways.direct, 0);
  }
});

test("a host's request for a new connection ends its former connection", async (t) => {
  const shape = roundsShape(2);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 1], seed: 1, links: {} });
  const other = hosts.broker.connect("other");
  const talk = async () => {
    await Promise.all(hosts.bridges.map(({ ready }) => ready));
    const ask = Buffer.from(JSON.stringify({ version: 1, from: 1, ended: 1 }));
    await other.request("osiris.test.r1.3.frames.0.link", ask, { deadlineMs: 1000 });
    await new Promise<void>((resume) => void hosts.clock.after(50, resume));
    hosts.cells.abort();
  };
  await hosts.cells.run([...hosts.bridges.map((one) => () => one.run()), talk]);
  const ended = { type: "unusable", host: 0, way: "outgoing", reason: "the other host ended it" };
  t.deepEqual(hosts.news[1]?.slice(0, 2), [{ type: "open", host: 0 }, ended]);
});

test("reports name a host with another link version, and a host whose clock differs", async (t) => {
  const shape = roundsShape(2);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 1], seed: 1, links: {} });
  // Host 1 has another version: it answers host 0's request for a link, and sends its own.
  const other = hosts.broker.connect("other");
  const [own] = hosts.bridges;
  const subject = (host: number) => `osiris.test.r1.3.frames.${host}.link`;
  const bodyOf = (value: object) => Buffer.from(JSON.stringify(value));
  other.subscribe(subject(1), ({ reply = "" }) => {
    const date = hosts.clock.date().getTime() + 5000;
    other.publish(reply, bodyOf({ version: 2, date, refusal: "no" }));
  });
  let refusal: unknown;
  const talk = async () => {
    await other.flush();
    const ask = { version: 2, from: 1, ended: 0 };
    const reply = await other.request(subject(0), bodyOf(ask), { deadlineMs: 1000 });
    refusal = JSON.parse(Buffer.from(reply.payload).toString("utf8")).refusal;
    await own?.ready;
    hosts.cells.abort();
  };
  await hosts.cells.run([async () => own?.run(), talk]);
  const differ = "the other host has version 2 of direct links, this one version 1";
  t.is(refusal, differ);
  const report = hosts.news[0] ?? [];
  t.true(report.some((one) => one.type === "apart" && one.aheadMs === 5000));
  for (const [way, reason] of [
    ["outgoing", `Cannot use the direct link to the other host: ${differ}`],
    ["incoming", differ],
  ] as const) {
    const news = { type: "unusable", host: 1, way, reason };
    t.true(
      report.some((one) => JSON.stringify(one) === JSON.stringify(news)),
      way,
    );
  }
});
