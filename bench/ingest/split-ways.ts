// The cost of passing the blocks of splits from a worker's thread to a reader: in frames through
// the embedded broker, or through shared memory. Processor time of all threads that take part.

import { Worker } from "node:worker_threads";
import { crc32 } from "node:zlib";
import { SplitTable } from "../../actors/threads/preprocessing/split-table.ts";
import { tableOf } from "../../src/data/cache/block-table.ts";
import { sleepTurning } from "../../src/exchange/atomic-cells.ts";
import { SplitClient } from "../../src/exchange/splits/split-client.ts";
import { decodeFrame, encodeFrame, masterSubject } from "../../src/exchange/splits/split-frames.ts";
import { createShelfReader, shelfBytes } from "../../src/exchange/splits/split-shelves.ts";
import { realClock } from "../../src/ports/clock.ts";
import { startBrokerThread } from "../../src/wire/broker/broker-thread.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import { connectNats } from "../../src/wire/transports/nats-transport.ts";
import type { SplitThreadData } from "./split-thread.ts";

export type Way = "frames" | "shelves";

const blockBytes = 64 * 1024;
const blocksOfSplit = 32;
/** About the size of a row group of the stall bench. */
const splitBytes = blocksOfSplit * blockBytes;
const place = { cluster: "bench", run: "r1", generation: 1 };
const shape = { readers: 1, shelves: 1 };
/** Splits that the reader awaits at a time. */
const awaitedSplits = 4;

/** Microseconds of processor time that passing a megabyte takes. */
export async function passSplits(way: Way, megabytes: number): Promise<number> {
  const token = "bench";
  await using broker = await startBrokerThread({ auth: { token } });
  const at = { servers: broker.url, token };
  const connect = (name: string) => connectNats({ ...at, name, deadlineMs: 10_000, onError() {} });
  const [master, transport] = [await connect("master"), await connect("reader")];
  serveAsMaster(master);
  const memory = new SharedArrayBuffer(shelfBytes(shape));
  const shared = { memory, shape };
  const workerData = {
    ...{ ...at, place, splitBytes },
    ...(way === "shelves" && { shelves: shared }),
  } satisfies SplitThreadData;
  const worker = new Worker(new URL("split-thread.js", import.meta.url), { workerData });
  const shelves = createShelfReader({ ...shared, sleep: sleepTurning, reader: 0 });
  const own = { transport, place, reader: 0, clock: realClock, deadlineMs: 60_000, shelves };
  const client = new SplitClient(own);
  try {
    await passAll(client, 50); // Warm-up: threads start, and code is compiled.
    const before = process.cpuUsage();
    await passAll(client, megabytes);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / megabytes;
  } finally {
    client.close();
    await worker.terminate();
    for (const one of [transport, master]) await one.close();
  }
}

async function passAll(client: SplitClient, megabytes: number): Promise<void> {
  const splits = Math.ceil((megabytes * 1e6) / splitBytes);
  const block = [blockBytes / 4, crc32(new Uint8Array(blockBytes))];
  const entries = Uint32Array.from(
    Array(splits * blocksOfSplit)
      .fill(block)
      .flat(),
  );
  const table = tableOf(entries);
  const blocks = client.blocksOf("training", "made before", table);
  const awaited: Promise<number>[] = [];
  const memory = Array.from({ length: awaitedSplits }, () => new Uint8Array(splitBytes));
  for (let split = 0; split < splits; split++) {
    if (awaited.length === awaitedSplits) await awaited.shift();
    const first = split * blocksOfSplit;
    const bytes = memory[split % awaitedSplits] ?? new Uint8Array();
    awaited.push(blocks.read(bytes, { first, end: first + blocksOfSplit }));
  }
  await Promise.all(awaited);
}

/** Serves as a master of one worker, without deadlines. */
function serveAsMaster(transport: Transport): void {
  const forever = Number.POSITIVE_INFINITY;
  const table = new SplitTable({
    ...{ deadlineMs: forever, attemptsMax: 1, resendMs: forever, silenceMs: forever },
  });
  let waiting: string | undefined;
  const answer = () => {
    const lease = waiting === undefined ? undefined : table.lease("worker:0", 0);
    if (waiting === undefined || lease === undefined) return;
    const { payload, headers } = encodeFrame("leased", lease);
    transport.publish(waiting, payload, { headers });
    waiting = undefined;
  };
  transport.subscribe(masterSubject(place, "want"), (frame) => {
    table.want(0, decodeFrame("want", frame).splits, 0);
    answer();
  });
  transport.subscribe(masterSubject(place, "lease"), ({ reply }) => {
    waiting = reply;
    answer();
  });
  transport.subscribe(masterSubject(place, "done"), (frame) => {
    table.done(decodeFrame("done", frame), 0);
  });
}
