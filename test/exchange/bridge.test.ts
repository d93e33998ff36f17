import test from "ava";
import type { MemoryFaults } from "../../src/wire/memory-transport.ts";
import { startBridgedHosts } from "./bridged-hosts.ts";
import { exchangeRounds, roundsShape } from "./rounds.ts";

const placements: readonly (readonly number[])[] = [
  [0, 1],
  [0, 0, 1, 1],
  [0, 1, 1],
  [0, 0, 0, 1, 2, 2],
];

const weathers: Readonly<Record<string, MemoryFaults>> = {
  calm: {},
  slow: { delayMs: [1, 40] },
  stormy: { delayMs: [0, 20], drop: 0.1, duplicate: 0.2, reorder: 0.2 },
};

for (const hostOf of placements) {
  for (const [weather, faults] of Object.entries(weathers)) {
    test(`devices of hosts ${hostOf} exchange what they were told to: ${weather}`, async (t) => {
      for (let seed = 0; seed < 6; seed++) {
        const shape = roundsShape(hostOf.length);
        const hosts = startBridgedHosts({ shape, hostOf, seed, faults });
        const wrong: string[] = [];
        await hosts.run(async (exchange) => {
          wrong.push(...(await exchangeRounds(exchange, shape, 4)));
        });
        t.deepEqual(wrong, [], `seed ${seed}`);
      }
    });
  }
}
