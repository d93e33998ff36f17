// Question: how close are the collectives to what memory and the broker allow? Inside a host the
// limit is a copy by as many threads at once; between hosts, the bare NATS client that moves the
// same bytes between two processes through the same broker, in turn.
//
// Bus bandwidth, as others print it: bytes of a device / seconds, times the share of them that has
// to pass, so that it can be compared with a link whatever the number of devices is. A barrier has
// no bytes: rounds a second.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { startBrokerThread } from "../../src/wire/broker/broker-thread.ts";
import { limitOf } from "../limits/limits.ts";
import { type BenchRow, rowOf } from "../report.ts";
import { type HostDevices, startDevices } from "./exchange-devices.ts";
import type { ExchangeHostCommand, ExchangeHostData } from "./exchange-host.ts";
import { type Collective, collectives, type ExchangeWork } from "./exchange-rounds.ts";

export interface ExchangeBenchOptions {
  readonly only: string;
  readonly nats?: string;
}

const mebibyte = 2 ** 20;
/** Sizes of the two that a step is made of, and of what these are made of. */
const sizes = [8, 16, 32, 64];
const fewSizes = [8, 64];
const turns = 5;
/** Bytes that a turn moves, and so its rounds. */
const turnBytes = { shared: 3072 * mebibyte, wire: 128 * mebibyte };
const barrierRounds = 2000;

const placements = { shared: [0, 0], wire: [0, 1], hierarchical: [0, 0, 1, 1] };

/** Bytes on the bus for each byte of a device. */
function busFactor({ collective, hostOf }: ExchangeWork): number {
  const others = (hostOf.length - 1) / hostOf.length;
  const factors = { allToAll: others, allGather: others, reduceScatter: others, broadcast: 1 };
  return collective === "barrier" ? 1 : { ...factors, allReduce: 2 * others }[collective];
}

/** Bytes that each of two hosts sends to the other in a round. */
function wireBytesOf({ collective, bytes }: ExchangeWork, devicesOfHost: number): [number, number] {
  const each: Record<Collective, number> = {
    allToAll: (devicesOfHost * bytes) / 2,
    allReduce: bytes,
    reduceScatter: bytes / 2,
    allGather: bytes / 2,
    broadcast: bytes,
    barrier: 1, // A message that says it.
  };
  return [each[collective], collective === "broadcast" ? 0 : each[collective]];
}

export async function benchExchange({ only, nats }: ExchangeBenchOptions): Promise<BenchRow[]> {
  const server = nats === undefined ? await startBrokerThread() : undefined;
  const login = server?.auth === "open" ? {} : server?.auth;
  const broker = { servers: nats ?? server?.url ?? "", ...login };
  const rows: BenchRow[] = [];
  for (const [placement, hostOf] of Object.entries(placements)) {
    for (const collective of collectives) {
      for (const size of sizesOf(collective)) {
        const row = `${placement}.${collective}${size > 0 ? `.${size}MiB` : ""}`;
        if (!row.startsWith(only)) continue;
        const work = { collective, bytes: size * mebibyte, hostOf };
        rows.push(
          placement === "shared"
            ? await sharedRow(row, work)
            : await wireRow(row, work, broker, nats === undefined ? "embedded broker" : nats),
        );
      }
    }
  }
  await server?.close();
  return rows;
}

function sizesOf(collective: Collective): readonly number[] {
  if (collective === "barrier") return [0];
  return collective === "allToAll" || collective === "allReduce" ? sizes : fewSizes;
}

/** What a round counts as in a row, and in which unit. */
function measureOf(work: ExchangeWork) {
  return work.collective === "barrier"
    ? { perRound: 1, unit: "barriers/s" }
    : { perRound: (work.bytes * busFactor(work)) / 1e9, unit: "GB/s" };
}

async function sharedRow(name: string, work: ExchangeWork): Promise<BenchRow> {
  const { collective, bytes, hostOf } = work;
  const { perRound, unit } = measureOf(work);
  const copiers = collective === "broadcast" ? 1 : hostOf.length;
  const rounds = bytes > 0 ? turnBytes.shared / bytes : barrierRounds;
  const devices: HostDevices = startDevices(work, 0);
  await devices.measure(rounds); // The memory's first touch is not of interest.
  const ours: number[] = [];
  const limits: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    ours.push((1000 * rounds * perRound) / (await devices.measure(rounds)));
    if (bytes === 0) continue;
    const copied = await limitOf(copiers, "memcpy", bytes / copiers, 0.3);
    limits.push(copied / copiers / 1e9);
  }
  await devices.stop();
  const limitIs = copiers === 1 ? "memcpy" : `memcpy, ${copiers} threads at once, each`;
  return rowOf({ name, unit, limitIs }, ours, limits);
}

async function wireRow(
  name: string,
  work: ExchangeWork,
  broker: ExchangeHostData["broker"],
  through: string,
): Promise<BenchRow> {
  const { bytes, hostOf } = work;
  const { perRound, unit } = measureOf(work);
  const wireBytes = wireBytesOf(work, hostOf.length / 2);
  const rounds = bytes > 0 ? Math.max(4, turnBytes.wire / bytes) : barrierRounds;
  const hosts = await Promise.all(
    [0, 1].map((host) => startHost({ work, host, broker, wireBytes })),
  );
  const run = async (command: ExchangeHostCommand): Promise<number> => {
    const times = await Promise.all(hosts.map((host) => answerOf(host, { command, rounds })));
    return (1000 * rounds * perRound) / Math.max(...times);
  };
  await run("bare");
  const ours: number[] = [];
  const limits: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    ours.push(await run("exchange"));
    limits.push(await run("bare"));
  }
  const exits = hosts.map((host) => once(host, "exit"));
  for (const host of hosts) host.send({ command: "end", rounds });
  await Promise.all(exits);
  const limitIs = `bare NATS client, same bytes, ${through}`;
  return rowOf({ name, unit, limitIs }, ours, limits);
}

async function startHost(data: ExchangeHostData): Promise<ChildProcess> {
  const host = fork(new URL("./exchange-host.js", import.meta.url), [JSON.stringify(data)]);
  await once(host, "message");
  return host;
}

/** Milliseconds that the host took. */
async function answerOf(host: ChildProcess, question: object): Promise<number> {
  const answer = once(host, "message");
  host.send(question);
  const [ms] = await answer;
  return ms;
}
