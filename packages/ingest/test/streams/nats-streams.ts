// Streams of a real nats-server for a test, and messages with requests and clicks.

import {
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type StreamConfig,
} from "@nats-io/jetstream";
import type { ExecutionContext } from "ava";
import type { NatsConnection } from "nats";
import { dialNats } from "../../../../src/wire/transports/nats-transport.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { type NatsServer, startNatsServer } from "../../../../test/helpers/nats/nats.ts";
import { until } from "../../../../test/helpers/until.ts";

export interface TestStreams {
  readonly url: string;
  readonly manager: JetStreamManager;
  /** Makes a stream whose subject is its name. */
  add(stream: string, config?: Partial<StreamConfig>): Promise<void>;
  /** Publishes messages; all are stored on return. */
  publish(stream: string, messages: readonly object[]): Promise<void>;
  /** Kills the server and starts it again with its stored messages. */
  restart(): Promise<void>;
  /** Kills the server. */
  stop(): Promise<void>;
}

/** Starts a server with JetStream, which ends with the test. */
export async function startStreams(t: ExecutionContext): Promise<TestStreams> {
  const directory = startDirectory(t);
  let server: NatsServer = await startNatsServer(["-js", "-sd", directory]);
  t.teardown(() => server.kill());
  const { url } = server;
  const connection: NatsConnection = await dialNats({
    servers: url,
    name: "publisher",
    deadlineMs: 120_000,
  });
  t.teardown(() => connection.close());
  const timeout = { timeout: 120_000, checkAPI: false };
  const manager = await jetstreamManager(connection, timeout);
  return {
    url,
    manager,
    async add(stream, config = {}) {
      await manager.streams.add({ name: stream, subjects: [stream], ...config });
    },
    async publish(stream, messages) {
      const client = jetstream(connection, { timeout: 120_000 });
      for (let i = 0; i < messages.length; i += 500) {
        // Messages of one connection keep their order.
        await Promise.all(
          messages
            .slice(i, i + 500)
            .map((message) => client.publish(stream, JSON.stringify(message))),
        );
      }
    },
    stop: () => server.kill(),
    async restart() {
      await server.kill();
      server = await startNatsServer(["-js", "-sd", directory, "-p", new URL(url).port]);
      // A message sent before the client reconnects would be lost.
      const isBack = () =>
        connection.flush().then(
          () => true,
          () => false,
        );
      await until("the publisher's connection", isBack);
    },
  };
}

/** A fixed start time; the requests cross midnight. */
export const startMs = Date.UTC(2024, 4, 31, 23, 50);

/** Requests, one per second from `startMs`, each with the features of an impression. */
export function requests(count: number, from = 0): object[] {
  return Array.from({ length: count }, (_, i) => {
    const n = from + i;
    return {
      request: `r${n}`,
      time: startMs + 1000 * n,
      user: `u${n % 50}`,
      item: n % 97,
      price: (n % 40) / 4,
      tags: [n % 7, 10 + (n % 3)],
    };
  });
}

/** The clicks on every third of those requests, half a minute after the request. */
export function clicks(count: number, from = 0): object[] {
  return Array.from({ length: count }, (_, i) => from + i)
    .filter((n) => n % 3 === 0)
    .map((n) => ({
      request: `r${n}`,
      time: startMs + 1000 * n + 30_000,
      label: 1,
      dwell: n % 10,
    }));
}

/** A tick: a message without a request that advances the time of a stream. */
export function tick(n: number): object {
  return { time: startMs + 1000 * n };
}
