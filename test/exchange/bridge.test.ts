// Bridges between simulated hosts: the exchange over a lossy transport.

import test from "ava";
import {
  FrameCorruptError,
  GenerationAbortedError,
  PeerLostError,
  StepTimeoutError,
  TransportLostError,
} from "../../src/errors/errors.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { encodeFrame, headerRoom } from "../../src/exchange/frame.ts";
import type { MemoryFaults } from "../../src/wire/transports/memory-transport.ts";
import { rounds } from "../helpers/thinned.ts";
import { type BridgedHosts, startBridgedHosts } from "./bridged-hosts.ts";
import { exchangeRounds, gradientLength, gradientWays, roundsShape } from "./rounds.ts";

const placements: readonly (readonly number[])[] = [
  [0, 1],
  [0, 0, 1, 1],
  [0, 1, 1],
  [0, 0, 0, 1, 2, 2],
  [0, 0, 0, 0, 0, 0, 0, 0, 0, 1], // More devices than slices.
];

const stormy: MemoryFaults = { delayMs: [0, 20], drop: 0.1, duplicate: 0.2, reorder: 0.2 };
const weathers: Readonly<Record<string, MemoryFaults>> = {
  calm: {},
  slow: { delayMs: [1, 40] },
  stormy,
};

for (const [placed, hostOf] of placements.entries()) {
  for (const [i, [weather, faults]] of Object.entries(weathers).entries()) {
    test(`devices of hosts ${hostOf} exchange the right bytes: ${weather}`, async (t) => {
      for (let seed = 0; seed < rounds("seeds of bridged devices", 1, 6); seed++) {
        const shape = roundsShape(hostOf.length, gradientWays[(placed + i + seed) % 3]);
        const hosts = startBridgedHosts({ shape, hostOf, seed, faults });
        await hosts.run(async (exchange) => {
          t.deepEqual(await exchangeRounds(exchange, shape, 4), [], `seed ${seed}`);
        });
      }
    });
  }
}

test("the exchange is right with parts of many frames and windows of one frame", async (t) => {
  const hostOf = [0, 0, 1];
  for (let seed = 0; seed < rounds("seeds of small frames", 2, 6); seed++) {
    const shape = roundsShape(hostOf.length);
    const small = { frameBytesMax: headerRoom + 24, windowBytes: 1 };
    const hosts = startBridgedHosts({ shape, hostOf, seed, faults: stormy, ...small });
    await hosts.run(async (exchange) => {
      t.deepEqual(await exchangeRounds(exchange, shape, 3), [], `seed ${seed}`);
    });
    t.true(hosts.bridges.some(({ traffic }) => traffic.resent > 0));
  }
});

/** Words of a part: more than two early pieces, and a different number in each round. */
const wordsIn = (round: number, from: number) => 150_000 + 1000 * round + from;

test("large parts leave while they are written, and arrive once, whole", async (t) => {
  const shape = { ...roundsShape(3), hostOf: [0, 0, 1] };
  const large = { ...shape, bytesMax: { ...shape.bytesMax, dPooled: () => 4 * wordsIn(4, 3) } };
  const wordOf = (round: number, from: number, at: number) => (7 * round + from) * 1_000_000 + at;
  for (let seed = 0; seed < rounds("seeds of parts that leave ahead", 2, 20); seed++) {
    const hosts = startBridgedHosts({ shape: large, hostOf: shape.hostOf, seed, faults: stormy });
    const early: number[] = [];
    await hosts.run(async (exchange) => {
      const { dPooled, rank, devices } = exchange;
      const all = Array.from({ length: devices }, (_, peer) => peer);
      for (let round = 1; round <= 3; round++) {
        await dPooled.open((from) => 4 * wordsIn(round, from));
        const count = wordsIn(round, rank);
        for (let quarter = 1; quarter <= 4; quarter++) {
          const [first, end] = [quarter - 1, quarter].map((one) => Math.floor((one * count) / 4));
          for (const to of all) {
            const { buffer, byteOffset } = dPooled.outbox(to);
            const words = new Int32Array(buffer, byteOffset, count);
            for (let i = first ?? 0; i < (end ?? 0); i++) words[i] = wordOf(round, rank, i);
            dPooled.sendAhead(to, 4 * (end ?? 0), 4 * count);
          }
          await exchange.barrier();
        }
        if (rank === 2) {
          const { buffer, byteOffset } = dPooled.outbox(rank);
          const [first = -1] = new Int32Array(
            buffer,
            byteOffset - 4 * (wordsIn(round, 0) * 2 + 1),
            1,
          );
          if (first === wordOf(round, 0, 0)) early.push(round);
        }
        t.false(rank === 2 && dPooled.isThere());
        await exchange.barrier();
        dPooled.start();
        const inbox = await dPooled.finish();
        let at = inbox.byteOffset;
        for (const from of all) {
          const words = new Int32Array(inbox.buffer, at, wordsIn(round, from));
          t.true(
            words.every((word, i) => word === wordOf(round, from, i)),
            `${round}: ${from}`,
          );
          at += words.byteLength;
        }
        dPooled.close();
      }
    });
    t.true(early.length > 0, `seed ${seed}`);
    t.is(hosts.bridges[0]?.traffic.bytes.dPooled, 4 * 6 * 152_000 + 4 * 3);
  }
});

test("the same seed gives the same traffic between bridged hosts", async (t) => {
  const trafficOf = async (seed: number) => {
    const shape = roundsShape(4);
    const hostOf = [0, 0, 1, 1];
    const hosts = startBridgedHosts({ shape, hostOf, seed, faults: stormy });
    await hosts.run(async (exchange) => void (await exchangeRounds(exchange, shape, 3)));
    return hosts.bridges.map(({ traffic }) => traffic);
  };
  t.deepEqual(await trafficOf(5), await trafficOf(5));
  t.notDeepEqual(await trafficOf(5), await trafficOf(6));
});

/** Runs `task` until a bridge or a device fails; returns the outcome of each. */
async function endsOf(hosts: BridgedHosts, task: (exchange: Exchange) => Promise<unknown>) {
  const ended = async (run: Promise<unknown>): Promise<unknown> => {
    try {
      await run;
      return "done";
    } catch (error) {
      return error;
    }
  };
  const devices: unknown[] = [];
  const bridges: unknown[] = [];
  await hosts.cells.run([
    ...hosts.exchanges.map((exchange, rank) => async () => {
      devices[rank] = await ended(task(exchange));
    }),
    ...hosts.bridges.map((bridge, host) => async () => {
      bridges[host] = await ended(bridge.run());
    }),
  ]);
  return { devices, bridges };
}

test("an unreachable host is named in the error, and all waiting devices are released", async (t) => {
  const shape = roundsShape(4);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 0, 1, 1], seed: 1, deadlineMs: 8000 });
  hosts.clock.after(0, () => hosts.broker.partition(["host0"], ["host1"]));
  const { devices, bridges } = await endsOf(hosts, (exchange) =>
    exchangeRounds(exchange, shape, 1000),
  );
  for (const device of devices) t.true(device instanceof GenerationAbortedError);
  for (const [host, error] of bridges.entries()) {
    t.true(error instanceof PeerLostError);
    const message = `Lost host:${1 - host}: no frame for 4000 ms, half the step deadline`;
    t.is((error as Error).message, message);
  }
  t.true(hosts.clock.now() < 8000);
});

test("a host whose own connection is lost fails with TransportLostError", async (t) => {
  const shape = roundsShape(2);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 1], seed: 1, deadlineMs: 8000 });
  hosts.clock.after(100, () => hosts.broker.cut("host0"));
  const { bridges } = await endsOf(hosts, (exchange) => exchangeRounds(exchange, shape, 1e6));
  const [cut, other] = bridges;
  t.true(cut instanceof TransportLostError);
  t.regex((cut as Error).message, /so host:1 sent no frame for 4000 ms/);
  t.true(other instanceof PeerLostError);
});

test("after a reconnect the exchange continues without loss", async (t) => {
  const shape = roundsShape(2);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 1], seed: 2, faults: { delayMs: [1, 5] } });
  for (let i = 1; i < 20; i++) {
    hosts.clock.after(100 * i, () => hosts.broker.cut(`host${i % 2}`));
    hosts.clock.after(100 * i + 30, () => hosts.broker.heal());
  }
  await hosts.run(async (exchange) => {
    t.deepEqual(await exchangeRounds(exchange, shape, 60), []);
  });
  t.true(hosts.bridges.some(({ traffic }) => traffic.resent > 0));
});

test("a live host that acknowledges nothing causes a timeout that names the unacknowledged data", async (t) => {
  const shape = roundsShape(2);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 1], seed: 1, deadlineMs: 8000 });
  const talker = hosts.broker.connect("talker");
  const beat = () => {
    hosts.clock.after(500, beat);
    const nothing = {
      generation: 3,
      from: 1,
      sequence: 0,
      ended: 0,
      seen: 1,
      missing: [],
      pieces: [],
    };
    talker.publish(subjectOf(0), new Uint8Array(0), { headers: encodeFrame(nothing) });
  };
  beat();
  const [exchange] = hosts.exchanges;
  const [bridge] = hosts.bridges;
  const run = hosts.cells.run([
    async () => void (await exchangeRounds(exchange as Exchange, shape, 1)),
    async () => await bridge?.run(),
  ]);
  await t.throwsAsync(run, {
    instanceOf: StepTimeoutError,
    message: "Waited 8000 ms for host 1 to take the ids of device 0 for device 1",
  });
});

function subjectOf(host: number): string {
  return `osiris.test.r1.3.frames.${host}.frame`;
}

test("frames of other generations, unknown senders or invalid places change no byte", async (t) => {
  const hostOf = [0, 1];
  const shape = roundsShape(2);
  const errors: unknown[] = [];
  const hosts = startBridgedHosts({
    shape,
    hostOf,
    seed: 1,
    onError: (error) => errors.push(error),
  });
  const route = 3; // Ids from device 1 to device 0.
  const stranger = hosts.broker.connect("stranger");
  const say = (changes: object, piece: object = {}) => {
    const payload = new Uint8Array(8).fill(255);
    const pieces = [{ route, round: 1, first: 0, bytes: 8, total: 8, ...piece }];
    const common = { generation: 3, from: 1, sequence: 1, ended: 0, seen: 1, missing: [], pieces };
    stranger.publish(subjectOf(0), payload, { headers: encodeFrame({ ...common, ...changes }) });
  };
  const wrong: string[] = [];
  await hosts.run(async (exchange) => {
    if (exchange.rank === 0) {
      await Promise.all(hosts.bridges.map(({ ready }) => ready));
      say({ generation: 2 });
      say({ from: 5 });
      say({}, { first: 2 ** 30 });
      say({}, { route: 9999 });
      await stranger.flush();
    }
    wrong.push(...(await exchangeRounds(exchange, shape, 2)));
  });
  t.deepEqual(wrong, []);
  t.is(errors.length, 4);
  for (const error of errors) t.true(error instanceof FrameCorruptError);
});

test("an all-reduce sends its sum between hosts once per host, not once per device", async (t) => {
  const length = 16 * 4 * 3; // Ranges of the same size.
  const wireOf = async (hostOf: readonly number[]) => {
    const shape = { ...roundsShape(4), gradientLength: length };
    const hosts = startBridgedHosts({ shape, hostOf, seed: 1 });
    await hosts.run(async ({ gradients }) => {
      await gradients.open();
      gradients.start();
      await gradients.finish();
      gradients.close();
    });
    const byDevices = hosts.exchanges.reduce((sum, { sent }) => sum + sent.gradients.wire, 0);
    const byBridges = hosts.bridges.reduce((sum, one) => sum + one.traffic.bytes.gradients, 0);
    t.is(byDevices, byBridges);
    return byDevices;
  };
  const vector = 4 * length;
  // Each host sends 2 (H-1)/H of the vector: a ring's traffic for H hosts instead of W devices.
  t.is(await wireOf([0, 0, 1, 1]), 2 * (2 * (1 / 2) * vector));
  t.is(await wireOf([0, 1, 2, 3]), 4 * (2 * (3 / 4) * vector));
  t.true(gradientLength % 64 !== 0, "the other tests have ranges of unequal size");
});

/** Runs rounds of channels, one after the other, between two hosts of `devices` devices each. */
async function roundsOf(devices: number, names: readonly ("ids" | "pooled")[], isUrgent: boolean) {
  const hostOf = Array.from({ length: 2 * devices }, (_, rank) => Math.floor(rank / devices));
  const shape = roundsShape(2 * devices);
  const hosts = startBridgedHosts({ shape, hostOf, seed: 1, deadlineMs: 600_000 });
  await hosts.run(async (exchange) => {
    for (let round = 0; round < 20; round++) {
      for (const name of names) {
        const channel = exchange[name];
        await channel.open(() => 8);
        channel.start();
        await channel.finish();
        channel.close(isUrgent);
      }
    }
  });
  return { traffic: hosts.bridges.map(({ traffic }) => traffic), ms: hosts.clock.now() };
}

test("small parts of all devices of a host share a frame, and so do releases and the next stage", async (t) => {
  // More than 40 frames: a bridge may send between the last release and the last part of a stage.
  for (const [devices, most] of [
    [1, 44],
    [4, 75],
  ] as const) {
    const { traffic } = await roundsOf(devices, ["ids", "pooled"], false);
    for (const { bytes, frames } of traffic) {
      t.is(bytes.ids, 20 * devices * devices * 8);
      t.true(frames <= most, `${frames} frames of 40 stages`);
    }
  }
});

test("a release that a sender waits for is sent at once, and any other one at a tick", async (t) => {
  const { ms: urgentMs } = await roundsOf(1, ["ids"], true);
  const { ms } = await roundsOf(1, ["ids"], false);
  t.true(ms > 500 && ms > 3 * urgentMs, `${ms} ms, urgent ${urgentMs} ms`);
});
