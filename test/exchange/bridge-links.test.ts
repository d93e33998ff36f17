// Bridges between simulated hosts with direct links: the same bytes, whatever fails.

import test from "ava";
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
      for (let seed = 0; seed < rounds("seeds of direct links", 3, 40); seed++) {
        const shape = roundsShape(hostOf.length);
        const small = { frameBytesMax: 6144 + 256, windowBytes: 40_000, deadlineMs: 60_000 };
        const given = { shape, hostOf, seed, faults, links, ...small };
        const hosts = startBridgedHosts(given);
        const wrong: string[] = [];
        await hosts.run(async (exchange) => {
          wrong.push(...(await exchangeRounds(exchange, shape, 12)));
        });
        t.deepEqual(wrong, [], `seed ${seed}`);
      }
    });
  }
}

test("bytes that arrive on a lost connection after their frame came over the broker change nothing", async (t) => {
  let late = 0;
  for (let seed = 0; seed < rounds("seeds of late bytes", 20, 200); seed++) {
    const hostOf = [0, 0, 1, 1];
    const shape = roundsShape(hostOf.length);
    const links: LinkFaults = { delayMs: [0, 300] };
    const hosts = startBridgedHosts({ shape, hostOf, seed, links, faults: { delayMs: [1, 6] } });
    const { network, broker, clock, news } = hosts;
    // Once both links are open, they are cut amid frames, and no other can be negotiated.
    const cutWhenOpen = () => {
      const isOpen = news.every((own) => own.length > 0) && network.arrived > 20;
      if (!isOpen) return void clock.after(1, cutWhenOpen);
      broker.setFaults({ delayMs: [1, 6] }, { subjects: "osiris.*.*.*.frames.*.link", drop: 1 });
      late += network.sent - network.arrived;
      while (network.cut(0));
    };
    cutWhenOpen();
    const wrong: string[] = [];
    await hosts.run(async (exchange) => {
      wrong.push(...(await exchangeRounds(exchange, shape, 60)));
    });
    t.deepEqual(wrong, [], `seed ${seed}`);
  }
  t.true(late > 20, `${late} frames were in flight`);
});
