// The transport suite over every transport: simulated, the embedded broker, a real nats-server.

import test from "ava";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { startBroker } from "../../../src/wire/broker/broker.ts";
import { createMemoryBroker } from "../../../src/wire/transports/memory-transport.ts";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";
import { type TransportBed, transportSuite } from "../../suites/transport.ts";

const deadlineMs = 10_000;

transportSuite(test, "memory", async () => startMemory());

transportSuite(test, "embedded broker", async () => {
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

if (natsServer.isMet()) {
  transportSuite(test, "nats-server", async () => {
    const server = await startNatsServer();
    return {
      connect: (name, onError) =>
        connectNats({
          servers: server.url,
          name,
          deadlineMs,
          ...(onError === undefined ? {} : { onError }),
        }),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  });
} else {
  testIf(natsServer)("the suite of transports: nats-server", (t) => t.fail());
}

/** A memory broker whose clock runs by itself: as fast as the event loop turns. */
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
