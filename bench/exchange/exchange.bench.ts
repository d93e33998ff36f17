// Question: how close are the collectives to what memory and the broker allow? Inside a host the
// limit is a memcpy by as many threads at once; between hosts, a bare NATS client that moves the
// same bytes between two processes through the same broker, in turn. Direct links have rows of
// their own (link-rows.ts), beside bare sockets.
// `allToAll.read` also copies the received bytes. Its limit is two threads that copy into each
// other's memory and from their own, because a core must fetch the bytes that another core wrote.
//
// The figure is bus bandwidth, as nccl-tests define it: bytes of a device / seconds, times the
// share of the bytes that must cross the bus. It thus compares with a link's speed for any number
// of devices. A barrier has no bytes: its figure is barriers a second.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Option } from "commander";
import { startBrokerThread } from "../../src/wire/broker/broker-thread.ts";
import { type Bench, type Measurement, positive, positiveOption, single } from "../bench.ts";
import { limitOf } from "../limits/limits.ts";
import { rowOf } from "../row.ts";
import { type HostDevices, startDevices } from "./exchange-devices.ts";
import type { ExchangeHostCommand, ExchangeHostData } from "./exchange-host.ts";
import { type Collective, collectives, type ExchangeWork } from "./exchange-rounds.ts";
import { linkMeasurements } from "./link-rows.ts";

interface ExchangeBenchOptions {
  /** MiB on every device. */
  readonly sizes: readonly number[];
  readonly rounds: number;
  /** A NATS server for the wire; left out, the embedded broker. */
  readonly nats?: string;
}

const smallAndLarge: readonly number[] = [8, 64];

export const exchangeBench: Bench<ExchangeBenchOptions> = {
  question: "bytes a second of the collectives: shared memory, the wire, and both",
  options: [
    new Option("--sizes <MiB...>", "MiB on every device")
      .argParser((text, sizes: readonly number[]) => {
        return [...(sizes === smallAndLarge ? [] : sizes), positive(text)];
      })
      .default(smallAndLarge),
    positiveOption("--rounds <count>", "rounds of ours and of the limit, in turn", 3),
    new Option("--nats <url>", "a NATS server for the wire; left out: the embedded broker"),
  ],
  full: { sizes: [8, 16, 32, 64], rounds: 5 },
  measurements(options) {
    const broker = openBroker(options.nats);
    const rows = Object.entries(placements).flatMap(([placement, hostOf]) =>
      collectives.flatMap((collective) =>
        sizesOf(collective, options.sizes).flatMap((size) => {
          const suffix = size > 0 ? `.${size}MiB` : "";
          const name = `${placement}.${collective}`;
          const work = { collective, bytes: size * mebibyte, hostOf };
          if (placement !== "shared")
            return [wireMeasurement(`${name}${suffix}`, work, options.rounds, broker)];
          const read = { ...work, isRead: true };
          return [
            sharedMeasurement(`${name}${suffix}`, work, options.rounds),
            ...(collective === "allToAll"
              ? [sharedMeasurement(`${name}.read${suffix}`, read, options.rounds)]
              : []),
          ];
        }),
      ),
    );
    return [...rows, ...linkMeasurements(options.rounds)];
  },
};

const mebibyte = 2 ** 20;
/** Bytes that a round moves, which determine how often the collective runs in a round. */
const roundBytes = { shared: 3072 * mebibyte, wire: 128 * mebibyte };
const barriersOfRound = 2000;

/** The share of the limit that docs/parallelism.md requires. */
const targets: Readonly<Record<string, readonly [atLeast: number, aim: number]>> = {
  "shared.allToAll": [0.7, 1],
  "shared.allReduce": [0.6, 1],
  "wire.allToAll": [0.8, 1],
};

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
    barrier: 1, // A message without data.
  };
  return [each[collective], collective === "broadcast" ? 0 : each[collective]];
}

/** Sizes in MiB: all for the two collectives of a step, the smallest and largest for the others. */
function sizesOf(collective: Collective, sizes: readonly number[]): readonly number[] {
  if (collective === "barrier") return [0];
  if (collective === "allToAll" || collective === "allReduce") return sizes;
  return [...new Set([Math.min(...sizes), Math.max(...sizes)])];
}

/** A server for the wire, started when the first row needs it. */
interface Broker {
  readonly login: ExchangeHostData["broker"];
  readonly is: string;
}

function openBroker(nats: string | undefined): () => Promise<Broker> {
  let started: Promise<Broker> | undefined;
  const start = async (): Promise<Broker> => {
    if (nats !== undefined) return { login: { servers: nats }, is: nats };
    const { url, auth } = await startBrokerThread();
    return { login: { servers: url, ...(auth === "open" ? {} : auth) }, is: "embedded broker" };
  };
  return () => {
    started ??= start();
    return started;
  };
}

function sharedMeasurement(name: string, work: ExchangeWork, rounds: number): Measurement {
  return single(name, 1 + (rounds + 1) * (work.bytes > 0 ? 1 : 0.2), async () => {
    const { bytes, hostOf, isRead = false } = work;
    const copiers = work.collective === "broadcast" ? 1 : hostOf.length;
    const copying = copiers === 1 ? "memcpy" : `memcpy, ${copiers} threads at once, each`;
    const limitIs = isRead ? `${copying}, into the other's memory and from its own` : copying;
    const times = bytes > 0 ? Math.ceil(roundBytes.shared / bytes) : barriersOfRound;
    const devices: HostDevices = startDevices(work, 0);
    await devices.measure(times); // Touches the memory for the first time.
    const ours: number[] = [];
    const limits: number[] = [];
    for (let round = 0; round < rounds; round++) {
      ours.push(rateOf(work, times, await devices.measure(times)));
      if (bytes === 0) continue;
      const [threads, what] = isRead ? ([1, "trade"] as const) : ([copiers, "memcpy"] as const);
      const copied = await limitOf(threads, what, bytes / copiers, 0.3);
      limits.push(copied / threads / 1e9);
    }
    await devices.stop();
    return rowOf(namedOf(name, work, limitIs), ours, limits);
  });
}

function wireMeasurement(
  name: string,
  work: ExchangeWork,
  rounds: number,
  broker: () => Promise<Broker>,
): Measurement {
  const seconds = (rounds + 1) * (work.bytes > 0 ? 2 + (0.06 * work.bytes) / mebibyte : 1);
  return single(name, seconds, async () => {
    const { login, is } = await broker();
    const { bytes, hostOf } = work;
    const wireBytes = wireBytesOf(work, hostOf.length / 2);
    const times = bytes > 0 ? Math.max(4, Math.ceil(roundBytes.wire / bytes)) : barriersOfRound;
    const hosts = await Promise.all(
      [0, 1].map((host) => startHost({ work, host, broker: login, wireBytes })),
    );
    const run = async (command: ExchangeHostCommand): Promise<number> => {
      const question = { command, rounds: times };
      const ms = await Promise.all(hosts.map((host) => answerOf(host, question)));
      return rateOf(work, times, Math.max(...ms));
    };
    await run("bare");
    const ours: number[] = [];
    const limits: number[] = [];
    for (let round = 0; round < rounds; round++) {
      ours.push(await run("exchange"));
      limits.push(await run("bare"));
    }
    const exits = hosts.map((host) => once(host, "exit"));
    for (const host of hosts) host.send({ command: "end", rounds: times });
    await Promise.all(exits);
    return rowOf(namedOf(name, work, `bare NATS client, same bytes, ${is}`), ours, limits);
  });
}

/** GB/s on the bus, or barriers a second, of a collective that ran `times` times in `ms`. */
function rateOf(work: ExchangeWork, times: number, ms: number): number {
  const each = work.collective === "barrier" ? 1 : (work.bytes * busFactor(work)) / 1e9;
  return (1000 * times * each) / ms;
}

function namedOf(name: string, { collective }: ExchangeWork, limitIs: string) {
  const [placement] = name.split(".");
  const target = targets[`${placement}.${collective}`];
  const unit = collective === "barrier" ? "barriers/s" : "GB/s";
  return { name, unit, limitIs, ...(target !== undefined && { target }) };
}

async function startHost(data: ExchangeHostData): Promise<ChildProcess> {
  const host = fork(new URL("./exchange-host.js", import.meta.url), [JSON.stringify(data)]);
  await once(host, "message");
  return host;
}

/** Sends a command to a host, and resolves to the milliseconds that the host measured. */
async function answerOf(host: ChildProcess, question: object): Promise<number> {
  const answer = once(host, "message");
  host.send(question);
  const [ms] = await answer;
  return ms;
}
