// Question: how close are the collectives to what memory and the broker allow? Inside a host the
// limit is a copy by as many threads at once; between hosts, the bare NATS client that moves the
// same bytes between two processes through the same broker, in turn.
//
// Bus bandwidth, as others print it: bytes of a device / seconds, times (n-1)/n for an all-to-all
// and 2(n-1)/n for an all-reduce, so that it can be compared with a link whatever n is.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { startBrokerThread } from "../src/wire/broker/broker-thread.ts";
import { type HostDevices, startDevices } from "./exchange-devices.ts";
import type { ExchangeHostCommand, ExchangeHostData } from "./exchange-host.ts";
import type { Collective, ExchangeWork } from "./exchange-rounds.ts";
import { limitOf } from "./limits.ts";
import { type BenchRow, rowOf } from "./report.ts";

export interface ExchangeBenchOptions {
  readonly only: string;
  readonly nats?: string;
}

const mebibyte = 2 ** 20;
const sizes = [8, 16, 32, 64];
const turns = 5;
/** Bytes that a turn moves, and so its rounds. */
const turnBytes = { shared: 3072 * mebibyte, wire: 128 * mebibyte };

/** Bytes on the bus for each byte of a device. */
function busFactor(collective: Collective, devices: number): number {
  return ((collective === "allToAll" ? 1 : 2) * (devices - 1)) / devices;
}

export async function benchExchange({ only, nats }: ExchangeBenchOptions): Promise<BenchRow[]> {
  const server = nats === undefined ? await startBrokerThread() : undefined;
  const login = server?.auth === "open" ? {} : server?.auth;
  const broker = { servers: nats ?? server?.url ?? "", ...login };
  const kinds = [
    { name: "shared.allToAll", collective: "allToAll", hostOf: [0, 0] },
    { name: "shared.allReduce", collective: "allReduce", hostOf: [0, 0] },
    { name: "wire.allToAll", collective: "allToAll", hostOf: [0, 1] },
    { name: "wire.allReduce", collective: "allReduce", hostOf: [0, 1] },
    { name: "hierarchical.allReduce", collective: "allReduce", hostOf: [0, 0, 1, 1] },
  ] as const;
  const rows: BenchRow[] = [];
  for (const { name, collective, hostOf } of kinds) {
    for (const size of sizes) {
      const row = `${name}.${size}MiB`;
      if (!row.startsWith(only)) continue;
      const work = { collective, bytes: size * mebibyte, hostOf };
      rows.push(
        hostOf.some((host) => host > 0)
          ? await wireRow(row, work, broker, nats === undefined ? "embedded broker" : nats)
          : await sharedRow(row, work),
      );
    }
  }
  await server?.close();
  return rows;
}

async function sharedRow(name: string, work: ExchangeWork): Promise<BenchRow> {
  const threads = work.hostOf.length;
  const factor = busFactor(work.collective, threads);
  const rounds = turnBytes.shared / work.bytes;
  const devices: HostDevices = startDevices(work, 0);
  await devices.measure(rounds); // The memory's first touch is not of interest.
  const ours: number[] = [];
  const limits: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    ours.push((rounds * work.bytes * factor) / 1e6 / (await devices.measure(rounds)));
    const copied = await limitOf(threads, "memcpy", work.bytes / threads, 0.3);
    limits.push(copied / threads / 1e9);
  }
  await devices.stop();
  const limitIs = `memcpy, ${threads} threads at once, each`;
  return rowOf({ name, unit: "GB/s", limitIs }, ours, limits);
}

async function wireRow(
  name: string,
  work: ExchangeWork,
  broker: ExchangeHostData["broker"],
  through: string,
): Promise<BenchRow> {
  const { collective, bytes, hostOf } = work;
  const factor = busFactor(collective, hostOf.length);
  // Of two hosts each sends half of an all-to-all's bytes, and all of an all-reduce's.
  const wireBytes = collective === "allToAll" ? bytes / 2 : bytes;
  const rounds = Math.max(4, turnBytes.wire / bytes);
  const hosts = await Promise.all(
    [0, 1].map((host) => startHost({ work, host, broker, wireBytes })),
  );
  const run = async (command: ExchangeHostCommand): Promise<number> => {
    const times = await Promise.all(hosts.map((host) => answerOf(host, { command, rounds })));
    return (rounds * bytes * factor) / 1e6 / Math.max(...times);
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
  return rowOf({ name, unit: "GB/s", limitIs }, ours, limits);
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
