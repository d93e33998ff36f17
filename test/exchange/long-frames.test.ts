// Frames that are longer than their buffers: they move in several rounds, between devices of one
// host and of several, and arrive as written.

import test from "ava";
import { FrameCorruptError } from "../../src/errors/errors.ts";
import type { Exchange, ExchangeShape } from "../../src/exchange/exchange.ts";
import { channelNames } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { createFrames, longHeaderBytes } from "../../src/exchange/long-frames.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { createSimulatedCells } from "../../src/exchange/simulated-cells.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { rounds } from "../helpers/thinned.ts";
import { startBridgedHosts } from "./bridged-hosts.ts";

const devices = 4;
const what = "the ids";
const roomOf = (from: number, to: number) => longHeaderBytes + 4 * (3 + ((from + 2 * to) % 4));

const shape: ExchangeShape = {
  devices,
  bytesMax: Object.fromEntries(
    channelNames.map((name) => [name, name === "ids" ? roomOf : () => 0]),
  ) as ExchangeShape["bytesMax"],
  gradientLength: 0,
  subtrees: Array.from({ length: devices }, () => []),
  slices: devices,
};

/** Words of a frame: most are short, one pair in a few rounds is very long. */
function lengthOf(seed: number, round: number, from: number, to: number): number {
  const random = new RandomStream(seed, 16 * round + from, to);
  return random.below(8) === 0 ? random.below(60) : random.below(4);
}

/** Sends frames in many rounds; some devices poll for frames before they wait for them. */
async function talk(exchange: Exchange, seed: number, frames: number): Promise<string[]> {
  const { rank } = exchange;
  const channel = createFrames({ channel: exchange.ids, what, rank, devices, isLong: true });
  const wrong: string[] = [];
  for (let round = 0; round < frames; round++) {
    await channel.open(roomOf);
    const used = Array.from({ length: devices }, (_, to) => {
      const words = lengthOf(seed, round, rank, to);
      // A writer may request more room than its frame takes.
      const { buffer, byteOffset } = channel.outbox(to, 4 * (words + (round % 3)));
      const frame = new Int32Array(buffer, byteOffset, words);
      for (let i = 0; i < words; i++) frame[i] = 1000 * round + 100 * rank + 10 * to + i;
      return 4 * words;
    });
    channel.start((to) => used[to] ?? 0);
    if ((round + rank) % 2 === 0) await channel.isThere();
    for (const [from, { buffer, byteOffset }] of (await channel.finish()).entries()) {
      const words = lengthOf(seed, round, from, rank);
      const frame = [...new Int32Array(buffer, byteOffset, words)];
      const expected = Array.from(
        { length: words },
        (_, i) => 1000 * round + 100 * from + 10 * rank + i,
      );
      if (`${frame}` !== `${expected}`) wrong.push(`${round}: ${from} to ${rank}: ${frame}`);
    }
    channel.close();
  }
  return wrong;
}

test("frames of any length arrive as written, on one host", async (t) => {
  for (let seed = 0; seed < rounds("seeds of long frames", 3, 40); seed++) {
    const layout = layoutOf(shape);
    const memory = new SharedArrayBuffer(layout.bytes);
    const cells = createSimulatedCells({ cells: layout.cells, seed });
    const kernels = createReference();
    await cells.run(
      Array.from({ length: devices }, (_, rank) => async () => {
        const own = { shape, rank, memory, cells: cells.cellsOf(rank), kernels };
        t.deepEqual(await talk(createSharedMemoryExchange(own), seed, 12), []);
      }),
    );
  }
});

test("frames of any length arrive as written, over a wire that loses and reorders", async (t) => {
  for (let seed = 0; seed < rounds("seeds of long frames on hosts", 2, 20); seed++) {
    const faults = { delayMs: [0, 5], drop: 0.05, reorder: 0.1 } as const;
    const hosts = startBridgedHosts({ shape, hostOf: [0, 0, 1, 2], seed, faults });
    await hosts.run(async (exchange) => {
      t.deepEqual(await talk(exchange, seed, 8), []);
    });
  }
});

test("a device that looks for a frame does not wait for its further rounds", async (t) => {
  const layout = layoutOf(shape);
  const memory = new SharedArrayBuffer(layout.bytes);
  const cells = createSimulatedCells({ cells: layout.cells, seed: 1 });
  const kernels = createReference();
  const isIn = new Int32Array(devices);
  await cells.run(
    Array.from({ length: devices }, (_, rank) => async () => {
      const own = { shape, rank, memory, cells: cells.cellsOf(rank), kernels };
      const { ids, barrier } = createSharedMemoryExchange(own);
      const channel = createFrames({ channel: ids, what, rank, devices, isLong: true });
      await channel.open(roomOf);
      const { buffer, byteOffset } = channel.outbox(0, 400);
      new Uint8Array(buffer, byteOffset, 400).fill(7);
      channel.start((to) => (to === 0 ? 400 : 0));
      await barrier(); // The first round of all devices has arrived.
      if (rank === 0) {
        t.false(await channel.isThere());
        t.false(channel.isFree(), "the others have not closed the round");
      }
      await barrier(); // Device 0 gets here while the others wait.
      isIn[rank] = 1;
      const frames = await channel.finish();
      t.is(frames[1]?.byteLength, rank === 0 ? 400 : 0);
      t.true(await channel.isThere());
      channel.close();
    }),
  );
  t.is(isIn.indexOf(0), -1);
});

test("a header with fewer rounds than its frame needs is refused", async (t) => {
  const alone = { ...shape, devices: 1, subtrees: [[]] };
  const layout = layoutOf(alone);
  const memory = new SharedArrayBuffer(layout.bytes);
  const cells = createSimulatedCells({ cells: layout.cells, seed: 1 });
  const kernels = createReference();
  await cells.run([
    async () => {
      const own = { shape: alone, rank: 0, memory, cells: cells.cellsOf(0), kernels };
      const { ids } = createSharedMemoryExchange(own);
      const channel = createFrames({ channel: ids, what, rank: 0, devices: 1, isLong: true });
      await channel.open(roomOf);
      channel.outbox(0, 4);
      channel.start(() => 4);
      const { buffer, byteOffset } = ids.outbox(0);
      new Uint32Array(buffer, byteOffset, 2).set([1, 1000]);
      const error = await t.throwsAsync(channel.finish(), { instanceOf: FrameCorruptError });
      t.regex(error?.message ?? "", /4000 bytes from device 0 in 1 rounds/);
    },
  ]);
});
