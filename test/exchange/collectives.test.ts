// Properties of the collectives that the rounds (rounds.ts) do not test: which devices each one
// waits for, and how many bytes it sends.

import test from "ava";
import { GenerationAbortedError, StepTimeoutError } from "../../src/errors/errors.ts";
import { broadcastOf, type Exchange } from "../../src/exchange/exchange.ts";
import { rounds } from "../helpers/thinned.ts";
import { startBridgedHosts } from "./bridged-hosts.ts";
import { roundsShape } from "./rounds.ts";

const devices = 4;
const placements = { shared: [0, 0, 0, 0], wire: [0, 1, 2, 3], hierarchical: [0, 0, 1, 1] };

const start = (hostOf: readonly number[], seed: number) =>
  startBridgedHosts({ shape: roundsShape(devices), hostOf, seed, faults: { delayMs: [0, 9] } });

/** Each collective, and the name of the data for which it waits if device 1 is missing. */
const collectives: Record<string, { run(one: Exchange): Promise<unknown>; missed: string }> = {
  "an all-gather": {
    async run({ losses }) {
      await losses.open(() => 8);
      losses.start();
      await losses.finish();
    },
    missed: "the losses of device 1 (round 1)",
  },
  "a broadcast": {
    async run({ losses }) {
      await losses.open(broadcastOf(1, 8));
      losses.start();
      await losses.finish();
    },
    missed: "the losses of device 1 (round 1)",
  },
  "a reduce-scatter": {
    async run({ gradients }) {
      await gradients.open();
      gradients.start();
      await gradients.scatter();
    },
    missed: "device 1 to send the dense gradients (round 1)",
  },
  "an all-reduce": {
    async run({ gradients }) {
      await gradients.open();
      gradients.start();
      await gradients.finish();
    },
    missed: "device 1 to send the dense gradients (round 1)",
  },
  "a barrier": {
    run: ({ barrier }) => barrier(),
    missed: "device 1 to reach the barrier (round 1)",
  },
};

for (const [title, { run, missed }] of Object.entries(collectives)) {
  test(`${title} without device 1 times out, names that device, and releases the others`, async (t) => {
    const { exchanges, cells } = start(placements.shared, 1);
    const ends: unknown[] = [];
    const present = exchanges.filter(({ rank }) => rank !== 1);
    const task = async (one: Exchange) => {
      await run(one).catch((error: unknown) => {
        ends.push(error);
        throw error;
      });
    };
    const error = await t.throwsAsync(cells.run(present.map((one) => () => task(one))), {
      instanceOf: StepTimeoutError,
    });
    t.is(error?.wait, missed);
    t.is(ends.length, present.length);
    t.is(ends.filter((end) => end instanceof GenerationAbortedError).length, ends.length - 1);
  });
}

for (const [way, hostOf] of Object.entries(placements)) {
  test(`no device leaves a barrier before all have arrived: ${way}`, async (t) => {
    for (let seed = 0; seed < rounds("seeds of a barrier", 2, 10); seed++) {
      let came = 0;
      const early: number[] = [];
      const hosts = start(hostOf, seed);
      await hosts.run(async ({ barrier, rank }) => {
        for (let round = 1; round <= 5; round++) {
          const { waitUntil } = hosts.cells.cellsOf(rank, hostOf[rank]);
          const wait = () => "the scheduler";
          await waitUntil(wait, () => true, rank); // Staggers the arrivals.
          came++;
          await barrier();
          if (came < devices * round) early.push(rank);
        }
      });
      t.deepEqual(early, [], `seed ${seed}`);
    }
  });

  test(`a device sends its next round only after each receiver has closed the last: ${way}`, async (t) => {
    const early: string[] = [];
    for (let seed = 0; seed < rounds("seeds of closed inboxes", 2, 10); seed++) {
      const closed = new Array<number>(devices).fill(0);
      const hosts = start(hostOf, seed);
      await hosts.run(async ({ ids, rank }) => {
        const { waitUntil } = hosts.cells.cellsOf(rank, hostOf[rank]);
        for (let round = 1; round <= 5; round++) {
          await ids.open(() => 8);
          const open = closed.flatMap((last, to) => (last < round - 1 ? [to] : []));
          early.push(...open.map((to) => `seed ${seed}, round ${round}: ${rank} to ${to}`));
          ids.start();
          await ids.finish();
          const wait = () => "the scheduler";
          for (let turn = 0; turn < rank; turn++) await waitUntil(wait, () => true, rank);
          closed[rank] = round;
          ids.close();
        }
      });
    }
    t.deepEqual(early, []);
  });

  test(`the bytes that an all-gather and a broadcast send match the formulas: ${way}`, async (t) => {
    const hosts = start(hostOf, 1);
    const neighbours = hostOf.filter((host) => host === 0).length - 1;
    const otherHosts = Math.max(...hostOf);
    const expected = { shared: neighbours * 24, wire: otherHosts * 24 };
    await hosts.run(async ({ losses }) => {
      for (const bytes of [() => 24, broadcastOf(2, 24)]) {
        await losses.open(bytes);
        losses.start();
        await losses.finish();
        losses.close();
      }
    });
    for (const { rank, sent } of hosts.exchanges) {
      const rounds = rank === 2 ? 2 : 1;
      t.deepEqual(sent.losses, { shared: rounds * expected.shared, wire: rounds * expected.wire });
    }
    const byDevices = hosts.exchanges.reduce((sum, { sent }) => sum + sent.losses.wire, 0);
    t.is(
      hosts.bridges.reduce((sum, { traffic }) => sum + (traffic.bytes.losses ?? 0), 0),
      byDevices,
    );
  });
}

test("the sender of a broadcast waits for no device", async (t) => {
  const { exchanges, cells } = start(placements.shared, 1);
  const [root] = exchanges;
  await cells.run([
    async () => {
      await root?.losses.open(broadcastOf(0, 8));
      root?.losses.start();
      t.is((await root?.losses.finish())?.byteLength, 8);
    },
  ]);
});
