// The preprocessing service in simulated time: readers get every requested split, with the bytes of
// the index, whatever frames are lost and whichever workers or masters die. Two workers share
// memory with the readers, the third is a process.

import { crc32 } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { createActor } from "xstate";
import { actorClock } from "../../../../actors/runtime/define-actor.ts";
import { masterMachine } from "../../../../actors/threads/preprocessing/master.ts";
import { type BlockTable, tableOf } from "../../../../src/data/cache/block-table.ts";
import { InputUnusableError, SplitFailedError } from "../../../../src/errors/errors.ts";
import type { Sleep } from "../../../../src/exchange/atomic-cells.ts";
import { SplitClient } from "../../../../src/exchange/splits/split-client.ts";
import type { Split } from "../../../../src/exchange/splits/split-frames.ts";
import {
  createShelfReader,
  createShelfWriter,
  shelfBytes,
} from "../../../../src/exchange/splits/split-shelves.ts";
import {
  type NearReaders,
  type SplitMaker,
  serveSplits,
} from "../../../../src/exchange/splits/split-worker.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import type { Transport } from "../../../../src/wire/messages/transport.ts";
import {
  createMemoryBroker,
  type MemoryBroker,
} from "../../../../src/wire/transports/memory-transport.ts";
import {
  scope,
  smallGenerationSpec,
  startSimulatedNetwork,
} from "../../../helpers/clusters/actors.ts";
import { someOrAll } from "../../../helpers/thinned.ts";

const blocks = 120;

/** Draws the words of the blocks, and the blocks' table. */
function dataOf(stream: RandomStream): {
  readonly words: Int32Array[];
  readonly table: BlockTable;
} {
  const words = Array.from({ length: blocks }, () => {
    return Int32Array.from({ length: 20 + stream.below(400) }, () => stream.below(1_000_000));
  });
  const entries = words.flatMap((one) => [one.length, crc32(bytesOf([one]))]);
  const table = tableOf(new Uint32Array(entries));
  return { words, table };
}

function bytesOf(words: readonly Int32Array[]): Uint8Array {
  return Buffer.concat(words.map((one) => new Uint8Array(one.buffer)));
}

interface World {
  readonly clock: SimulatedClock;
  readonly broker: MemoryBroker;
  readonly stream: RandomStream;
  readonly words: readonly Int32Array[];
  readonly table: BlockTable;
  /** Identifies the run for the clients, the workers and the master. */
  readonly place: { cluster: string; run: string; generation: number };
  /** Shared memory between two of the workers and both readers. */
  readonly shelves: {
    readonly memory: SharedArrayBuffer;
    readonly shape: { readonly readers: number; readonly shelves: number };
    readonly sleep: Sleep;
  };
  startMaster(): { stop(): void };
}

function startWorld(seed: number, attemptsMax = 3): World {
  const stream = new RandomStream(seed, 90, 1);
  const clock = new SimulatedClock();
  const broker = createMemoryBroker({ clock, seed, onError: () => {} });
  const spec = smallGenerationSpec();
  const preprocessing = {
    workersMin: 1,
    workersMax: 3,
    threads: true,
    splitDeadlineMs: 2000,
    attemptsMax,
  };
  const job = { ...spec.job, preprocessing, stepDeadlineMs: 600_000 };
  const transport = broker.connect("master");
  const { network } = startSimulatedNetwork({ transport, clock, onCorrupt() {} });
  const startMaster = () => {
    const input = { network, scope, job: { ...job, readers: 2 }, origins: {}, hosts: 1 };
    const actor = createActor(masterMachine, { input, clock: actorClock(clock) });
    actor.start();
    return actor;
  };
  const place = { cluster: network.cluster, ...scope };
  const shape = { readers: 2, shelves: 2 };
  const shelves = {
    memory: new SharedArrayBuffer(shelfBytes(shape)),
    shape,
    sleep: sleepOn(clock),
  };
  return { clock, broker, stream, ...dataOf(stream), place, shelves, startMaster };
}

/** A sleep that polls the word every 10 ms. */
function sleepOn(clock: SimulatedClock): Sleep {
  return (words, at, seen, ms) =>
    new Promise<void>((resume) => {
      const untilMs = clock.now() + ms;
      const look = () => {
        if (Atomics.load(words, at) !== seen || clock.now() >= untilMs) resume();
        else clock.after(10, look);
      };
      clock.after(10, look);
    });
}

/** Makes splits, each in a random time. */
function makerOf({ clock, stream, words }: World, isBad: (split: Split) => boolean): SplitMaker {
  return {
    async make(split) {
      await new Promise<void>((resume) => clock.after(20 + stream.below(400), resume));
      if (isBad(split)) throw new Error("a page of row group 3 is damaged");
      const own = words.slice(split.first, split.end);
      return { bytes: bytesOf(own), samples: 32 * own.length };
    },
    close() {},
  };
}

/**
 * Starts a worker; returns its kill and its drain. `shelf`: the index of a thread's shelf in shared
 * memory; undefined: a process.
 */
function startWorker(
  world: World,
  name: string,
  isBad: (split: Split) => boolean = () => false,
  shelf?: number,
) {
  const { broker, clock, place, shelves } = world;
  const transport: Transport = broker.connect(name);
  let isOver = false;
  const isAborted = () => isOver;
  const writing = { ...shelves, clock, patienceMs: 500, isAborted };
  const writer = shelf === undefined ? undefined : createShelfWriter({ ...writing, shelf });
  const near: NearReaders | undefined = writer && {
    has: () => true,
    // A killed thread writes nothing.
    send: (...sent) => (isOver ? new Promise(() => {}) : writer.send(...sent)),
  };
  const serving = serveSplits({
    ...{ transport, place, worker: name, clock, maker: makerOf(world, isBad), near },
    isOver: () => isOver,
  }).catch(() => {}); // It was killed.
  return {
    kill() {
      isOver = true;
      void transport.close();
    },
    drain() {
      isOver = true;
      return serving;
    },
  };
}

/** Requests all blocks, some splits ahead, and checks the bytes that arrive. */
async function readAll(t: ExecutionContext, world: World, reader: number): Promise<void> {
  const { broker, clock, place, table, words } = world;
  const transport = broker.connect(`reader-${reader}`);
  const shelves = createShelfReader({ ...world.shelves, reader });
  const how = { transport, place, reader, clock, deadlineMs: 300_000, shelves };
  const client = new SplitClient(how);
  const own = client.blocksOf("training", "an index", table);
  const pending: Promise<void>[] = [];
  for (let first = 0; first < blocks; first += 7) {
    const range = { first, end: Math.min(blocks, first + 7) };
    const expected = bytesOf(words.slice(range.first, range.end));
    const bytes = new Uint8Array(expected.length);
    pending.push(
      own.read(bytes, range).then((count) => {
        t.is(count, expected.length);
        t.deepEqual(Buffer.from(bytes), Buffer.from(expected));
      }),
    );
    if (pending.length >= 4) await pending.shift();
  }
  await Promise.all(pending);
  client.close();
}

/** Advances time until `what` has settled. */
async function until(clock: SimulatedClock, what: Promise<unknown>, hoursMax = 1): Promise<void> {
  let isDone = false;
  const done = what.finally(() => {
    isDone = true;
  });
  done.catch(() => {});
  while (!isDone && clock.now() < hoursMax * 3_600_000) {
    await new Promise<void>((resume) => setImmediate(resume));
    clock.runNext();
  }
  await done;
}

for (const seed of someOrAll("seeds of the preprocessing service", few(12), few(200))) {
  test(`every split arrives, whatever is lost: seed ${seed}`, async (t) => {
    const world = startWorld(seed);
    const { clock, broker, stream } = world;
    const faults = { drop: 0.05, duplicate: 0.05, reorder: 0.1, corrupt: 0.03 };
    broker.setFaults({ delayMs: [0, 3], ...faults });
    let master = world.startMaster();
    const shelfOf = (at: number) => (at < world.shelves.shape.shelves ? at : undefined);
    const start = (at: number, name: string) => startWorker(world, name, undefined, shelfOf(at));
    const workers = [0, 1, 2].map((i) => start(i, `worker:${i}`));
    let [starts, breaks] = [workers.length, 0];
    let cancel = () => {};
    const breakOne = () => {
      breaks++;
      const at = stream.below(4);
      workers[at]?.kill();
      if (at < workers.length) workers[at] = start(at, `worker:${starts++}`);
      else {
        master.stop();
        master = world.startMaster();
      }
      cancel = clock.after(200 + stream.below(1500), breakOne);
    };
    cancel = clock.after(stream.below(500), breakOne);
    await until(clock, Promise.all([0, 1].map((reader) => readAll(t, world, reader))));
    cancel();
    t.true(breaks > 2);
    master.stop();
  });
}

test("a split that fails three times is named in an error, and other splits arrive", async (t) => {
  const world = startWorld(1);
  const { clock, broker, place, table } = world;
  const master = world.startMaster();
  let tries = 0;
  const isBad = ({ first }: Split) => first === 40 && ++tries > 0;
  for (const i of [0, 1]) void startWorker(world, `worker:${i}`, isBad);
  const transport = broker.connect("reader");
  const client = new SplitClient({ transport, place, reader: 0, clock, deadlineMs: 60_000 });
  const own = client.blocksOf("training", "an index", table);
  const read = (first: number) =>
    own.read(new Uint8Array(sizeOf(world, first)), { first, end: first + 1 });
  const [good, bad] = [read(39), read(40)];
  await until(clock, Promise.allSettled([good, bad]));
  t.is(await good, sizeOf(world, 39));
  const error = await t.throwsAsync(bad, { instanceOf: SplitFailedError });
  t.is(error?.split, "training 40 41");
  t.regex(
    error?.message ?? "",
    /^Split training 40 41 \(stream, blocks\) was given up: a page of row group 3 is damaged; remove the cause/,
  );
  t.is(tries, 3);
  client.close();
  master.stop();
});

test("a reader gets a worker's error unchanged, and an error at the deadline without a worker", async (t) => {
  const world = startWorld(2, 1);
  const { clock, broker, place, table } = world;
  const transport = broker.connect("reader");
  const client = new SplitClient({ transport, place, reader: 0, clock, deadlineMs: 5000 });
  const own = client.blocksOf("test", "an index", table);
  const read = () => own.read(new Uint8Array(sizeOf(world, 0)), { first: 0, end: 1 });
  const alone = read();
  await t.throwsAsync(until(clock, alone), {
    message:
      /^Waited 5000 ms for split test 0 1 of a preprocessing worker; start `osiris dpp-worker`/,
  });
  const master = world.startMaster();
  void startWorker(world, "worker:0", () => {
    throw new InputUnusableError("a.parquet", "a.parquet has changed");
  });
  const changed = read();
  await t.throwsAsync(until(clock, changed), { message: "a.parquet has changed" });
  client.close();
  master.stop();
});

const sizeOf = ({ words }: World, block: number): number => 4 * (words[block]?.length ?? 0);

function few(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i + 1);
}
