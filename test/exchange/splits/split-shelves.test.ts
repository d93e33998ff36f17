// Shelves between the workers of a host and its readers, in simulated time: every part of a split
// that reaches a reader is complete, even if a worker dies at any byte; and memory is bounded.

import test from "ava";
import type { Sleep } from "../../../src/exchange/atomic-cells.ts";
import type { Split, SplitPart } from "../../../src/exchange/splits/split-frames.ts";
import {
  createShelfReader,
  createShelfWriter,
  type ShelfReader,
  shelfBytes,
  slotBytes,
  slotsOfShelf,
} from "../../../src/exchange/splits/split-shelves.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { RandomStream } from "../../../src/ports/random.ts";

const shape = { readers: 2, shelves: 2 };
const patienceMs = 2000;

interface World {
  readonly clock: SimulatedClock;
  readonly memory: SharedArrayBuffer;
  readonly sleep: Sleep;
  isAborted: boolean;
}

function startWorld(): World {
  const clock = new SimulatedClock();
  /** Polls every millisecond, as if the doorbell were noticed late. */
  const sleep: Sleep = (words, at, seen, ms) =>
    new Promise<void>((resume) => {
      const untilMs = clock.now() + ms;
      const look = () => {
        const isOver = Atomics.load(words, at) !== seen || clock.now() >= untilMs;
        if (isOver) resume();
        else clock.after(1, look);
      };
      clock.after(1, look);
    });
  return { clock, memory: new SharedArrayBuffer(shelfBytes(shape)), sleep, isAborted: false };
}

function writerOf(world: World, shelf: number) {
  const { clock, memory, sleep } = world;
  const place = { memory, shape, sleep, shelf, clock, patienceMs };
  return createShelfWriter({ ...place, isAborted: () => world.isAborted });
}

const period = 251;
const ramp = Uint8Array.from({ length: slotBytes * (slotsOfShelf + 4) }, (_, i) => i % period);

/** A split's bytes depend only on its first block, so that every worker makes the same. */
function bytesOf({ first }: Split, length: number): Uint8Array {
  return ramp.subarray(first % period, (first % period) + length);
}

const splitAt = (first: number): Split => ({ stream: "training", first, end: first + 1 });

/** A part that a reader received, with a copy of its bytes. */
interface Came {
  readonly part: SplitPart;
  readonly bytes: Uint8Array;
}

function startReader({ memory, sleep }: World, reader: number): [ShelfReader, Came[]] {
  const came: Came[] = [];
  const shelves = createShelfReader({ memory, shape, sleep, reader });
  void shelves.serve((part, bytes) => void came.push({ part, bytes: bytes.slice() }));
  return [shelves, came];
}

/** Advances virtual time until `isOver` returns true. */
async function pass({ clock }: World, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await new Promise<void>((resume) => setImmediate(resume));
    clock.runNext();
  }
}

async function sent(world: World, ...sending: Promise<void>[]): Promise<void> {
  let isOver = false;
  void Promise.all(sending).then(() => {
    isOver = true;
  });
  await pass(world, () => isOver);
}

test("each reader gets its own splits from all shelves, even splits larger than a shelf", async (t) => {
  const world = startWorld();
  const [length, first] = [slotBytes * (slotsOfShelf + 3) + 70, 5];
  const [readers, writers] = [
    [0, 1].map((reader) => startReader(world, reader)),
    [0, 1].map((shelf) => writerOf(world, shelf)),
  ];
  const splits = [splitAt(first), splitAt(first + 1)];
  const sending = splits.map((split, reader) =>
    writers[reader]?.send(reader, split, bytesOf(split, length)),
  );
  await sent(world, ...sending.flatMap((one) => one ?? []));
  await pass(world, () => readers.every(([, came]) => came.length === slotsOfShelf + 4));
  for (const [reader, [shelves, came]] of readers.entries()) {
    const split = splitAt(first + reader);
    const whole = new Uint8Array(length);
    for (const { part, bytes } of came) {
      t.deepEqual([part.split, part.bytes], [split, length]);
      whole.set(bytes, part.at);
    }
    t.is(Buffer.compare(whole, bytesOf(split, length)), 0);
    shelves.close();
  }
});

test("a part that a dying worker was writing is never read, and its successor continues", async (t) => {
  const world = startWorld();
  const [shelves, came] = startReader(world, 0);
  const [split, length] = [splitAt(9), 3000];
  const whole = bytesOf(split, length);
  for (const dies of [0, 1, 1500, 2999]) {
    // Copying ends at byte `dies`, as if the thread ended there.
    const half = new Proxy(whole, {
      get(target, key) {
        if (key === "subarray") return () => half;
        if (key === `${dies}`) throw new Error("the thread ended");
        const value: unknown = Reflect.get(target, key, target);
        return value;
      },
    });
    await t.throwsAsync(writerOf(world, 1).send(0, split, half), { message: "the thread ended" });
    for (let looks = 0; looks < 5; looks++) world.clock.runNext();
    t.is(came.length, 0, `no part of a copy that ended at byte ${dies}`);
  }
  await sent(world, writerOf(world, 1).send(0, split, whole));
  await pass(world, () => came.length > 0);
  t.deepEqual([...(came[0]?.bytes ?? [])], [...whole]);
  shelves.close();
});

test("a reader that is gone delays a worker briefly; its successor gets the complete parts", async (t) => {
  const world = startWorld();
  const writer = writerOf(world, 0);
  const long = bytesOf(splitAt(1), slotBytes * (slotsOfShelf + 1));
  const fromMs = world.clock.now();
  await sent(world, writer.send(1, splitAt(1), long));
  t.true(world.clock.now() - fromMs > patienceMs, "the worker waited for the reader");
  const [shelves, came] = startReader(world, 1);
  await pass(world, () => came.length === slotsOfShelf);
  t.deepEqual(
    came.map(({ part }) => part.at).sort((a, b) => a - b),
    Array.from({ length: slotsOfShelf }, (_, slot) => slot * slotBytes),
    "the parts that fit into the shelf",
  );
  await sent(world, writer.send(1, splitAt(2), bytesOf(splitAt(2), 10)));
  await pass(world, () => came.length > slotsOfShelf);
  t.deepEqual([...(came.at(-1)?.bytes ?? [])], [...bytesOf(splitAt(2), 10)]);
  shelves.close();
});

test("an aborted generation delays no worker", async (t) => {
  const world = startWorld();
  const writer = writerOf(world, 0);
  const fromMs = world.clock.now();
  const sending = writer.send(0, splitAt(1), bytesOf(splitAt(1), slotBytes * (slotsOfShelf + 1)));
  world.isAborted = true;
  await sent(world, sending);
  t.true(world.clock.now() - fromMs < patienceMs);
});

test("shelf memory depends on the numbers of workers and readers, not on the splits", (t) => {
  const one = shelfBytes({ readers: 1, shelves: 1 });
  t.true(one < 4.01 * 2 ** 20);
  t.true(shelfBytes({ readers: 1, shelves: 4 }) < 4 * one);
  t.true(shelfBytes({ readers: 3, shelves: 0 }) < 100);
});

test("workers and readers restart at random: every part arrives, and is complete", async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    const stream = new RandomStream(seed, 91, 2);
    const world = startWorld();
    const readers = [0, 1].map((reader) => ({ reader, shelves: startReader(world, reader) }));
    let parts = 0;
    const whoCame = () => readers.flatMap(({ shelves: [, came] }) => came);
    for (let story = 0; story < 30; story++) {
      const [reader, split] = [stream.below(2), splitAt(stream.below(1000))];
      if (stream.below(6) === 0) {
        for (const one of readers) if (one.reader === reader) one.shelves[0].close();
        readers.push({ reader, shelves: startReader(world, reader) });
      }
      const bytes = bytesOf(split, 1 + stream.below(2 * slotBytes));
      parts += Math.ceil(bytes.length / slotBytes);
      // A new writer on the shelf, as if the former worker had died.
      await sent(world, writerOf(world, story % 2).send(reader, split, bytes));
    }
    await pass(world, () => whoCame().length === parts);
    for (const { part, bytes } of whoCame()) {
      const expected = bytesOf(part.split, part.bytes).subarray(part.at, part.at + bytes.length);
      t.is(Buffer.compare(bytes, expected), 0, `seed ${seed}`);
    }
    for (const { shelves } of readers) shelves[0].close();
  }
});
