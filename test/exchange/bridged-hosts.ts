// Several hosts in one thread, in virtual time: the real exchange and the real bridges, over
// simulated cells and a memory transport that can drop, duplicate, delay and reorder frames.

import { type Bridge, createBridge } from "../../src/exchange/bridge.ts";
import type { Exchange, ExchangeShape } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import type { LinkNews } from "../../src/exchange/links/negotiation.ts";
import {
  createLinkNetwork,
  type LinkFaults,
  type LinkNetwork,
} from "../../src/exchange/links/simulated-links.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { createSimulatedCells, type SimulatedCells } from "../../src/exchange/simulated-cells.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { SimulatedClock } from "../../src/ports/clock.ts";
import {
  createMemoryBroker,
  type MemoryBroker,
  type MemoryFaults,
} from "../../src/wire/transports/memory-transport.ts";

export interface BridgedHosts {
  readonly exchanges: readonly Exchange[];
  readonly bridges: readonly Bridge[];
  readonly broker: MemoryBroker;
  readonly network: LinkNetwork;
  /** Events of the direct links of each host. */
  readonly news: readonly LinkNews[][];
  readonly cells: SimulatedCells;
  readonly clock: SimulatedClock;
  /** Runs a task on every device; when all tasks have ended, ends the bridges. */
  run(task: (exchange: Exchange) => Promise<void>): Promise<void>;
}

/** Starts the hosts of an exchange; `hostOf[rank]` is the host of each device. */
export function startBridgedHosts(options: {
  readonly shape: ExchangeShape;
  readonly hostOf: readonly number[];
  readonly seed: number;
  readonly faults?: MemoryFaults;
  /** Opens direct links with these faults. @default all frames travel over the broker */
  readonly links?: LinkFaults;
  readonly windowBytes?: number;
  readonly frameBytesMax?: number;
  readonly deadlineMs?: number;
  /** Receives errors thrown by receivers of frames. @default the error is thrown */
  readonly onError?: (error: unknown) => void;
}): BridgedHosts {
  const { hostOf, seed, windowBytes, frameBytesMax, deadlineMs = 60_000 } = options;
  const shape = { ...options.shape, hostOf };
  const layouts = layoutOf(shape).hosts.map((_, host) => layoutOf(shape, host));
  const hosts = layouts.length;
  const cellCount = Math.max(...layouts.map((layout) => layout.cells));
  const clock = new SimulatedClock();
  const broker = createMemoryBroker({
    clock,
    seed,
    ...(options.faults && { faults: options.faults }),
    ...(frameBytesMax && { frameBytesMax }),
    ...(options.onError && { onError: options.onError }),
  });
  const cells = createSimulatedCells({ cells: cellCount, seed, hosts, clock, generation: 3 });
  const memories = layouts.map(({ bytes }) => new SharedArrayBuffer(bytes));
  const bridge = shape.devices; // The participant after the devices.
  const kernels = createReference();
  const exchanges = hostOf.map((host, rank) =>
    createSharedMemoryExchange({
      shape,
      rank,
      memory: memories[host] ?? new SharedArrayBuffer(0),
      kernels,
      cells: cells.cellsOf(rank, host),
      bridge,
    }),
  );
  const { links } = options;
  const network = createLinkNetwork({ clock, seed, faults: links });
  const news: LinkNews[][] = memories.map(() => []);
  const bridges = memories.map((memory, host) =>
    createBridge({
      shape,
      host,
      memory,
      cells: cells.cellsOf(bridge, host),
      transport: broker.connect(`host${host}`),
      place: { cluster: "test", run: "r1", generation: 3 },
      clock,
      deadlineMs,
      abort: () => cells.abort(host),
      ...(windowBytes && { windowBytes }),
      ...(links && {
        direct: {
          open: (given) => network.open(given),
          listen: { address: `host${host}`, isEncrypted: false },
          newToken: () => network.newToken(),
          tell: (one) => void news[host]?.push(one),
        },
      }),
    }),
  );
  return {
    exchanges,
    bridges,
    broker,
    network,
    news,
    cells,
    clock,
    async run(task) {
      let running = exchanges.length;
      const device = async (exchange: Exchange) => {
        try {
          await task(exchange);
        } finally {
          if (--running === 0) cells.abort();
        }
      };
      await cells.run([
        ...exchanges.map((exchange) => () => device(exchange)),
        ...bridges.map((one) => () => one.run()),
      ]);
    },
  };
}
