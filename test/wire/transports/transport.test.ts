// The transport suite over every transport: simulated, the embedded broker, a real nats-server.

import test, { type ExecutionContext } from "ava";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { startBroker } from "../../../src/wire/broker/broker.ts";
import { createMemoryBroker } from "../../../src/wire/transports/memory-transport.ts";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";
import { type TransportBed, transportSuite } from "../../suites/transport.ts";

/** Long enough for a busy machine. */
const deadlineMs = 120_000;

transportSuite(test.serial, "memory", async () => startMemory());

transportSuite(test.serial, "embedded broker", async () => {
  const broker = await startBroker();
  const { url, auth } = broker;
  return {
    connect: (name, onError) =>
      connectNats({
        servers: url,
        name,
        deadlineMs,
        ...(auth !== "open" ? auth : {}),
        ...(onError === undefined ? {} : { onError }),
      }),
    [Symbol.asyncDispose]: () => broker.close(),
  };
});

testIf(natsServer).serial("nats-server: one server passes the whole transport suite", async (t) => {
  await using server = await startNatsServer();
  const bed: TransportBed = {
    connect: (name, onError) =>
      connectNats({
        servers: server.url,
        name,
        deadlineMs,
        ...(onError === undefined ? {} : { onError }),
      }),
    async [Symbol.asyncDispose]() {},
  };
  const checks: ((t: ExecutionContext) => Promise<void>)[] = [];
  transportSuite(
    (_title, run) => checks.push(run),
    "nats-server",
    async () => bed,
  );
  t.true(checks.length > 5);
  for (const run of checks) await run(t);
});

/** A memory broker whose clock advances by itself, as fast as the event loop turns. */
function startMemory(): TransportBed {
  const clock = new SimulatedClock();
  let onError: (error: unknown) => void = (error) => {
    throw error;
  };
  const broker = createMemoryBroker({
    clock,
    seed: 7,
    faults: { delayMs: [0, 3] },
    onError: (error) => onError(error),
  });
  let isRunning = true;
  const turn = () => {
    for (let tasks = 0; tasks < 100 && clock.runNext(); tasks++);
    if (isRunning) setImmediate(turn);
  };
  turn();
  return {
    connect: async (name, tell) => {
      if (tell !== undefined) onError = tell;
      return broker.connect(name);
    },
    [Symbol.asyncDispose]: async () => {
      isRunning = false;
    },
  };
}
