// One host of the exchange bench, a process of its own: devices and their bridge, and a bare NATS
// client that moves the same bytes. The parent requests rounds of one of the two, and this process
// answers with their duration.

import { connect } from "nats";
import { createAtomicCells, sleepTurning } from "../../src/exchange/atomic-cells.ts";
import { createBridge } from "../../src/exchange/bridge.ts";
import { realClock } from "../../src/ports/clock.ts";
import { type ConnectOptions, connectNats } from "../../src/wire/transports/nats-transport.ts";
import { startDevices } from "./exchange-devices.ts";
import { benchShape, type ExchangeWork } from "./exchange-rounds.ts";

export interface ExchangeHostData {
  readonly work: ExchangeWork;
  readonly host: number;
  readonly broker: Pick<ConnectOptions, "servers" | "token" | "user" | "pass">;
  /** Bytes that each host sends to the other in a round. */
  readonly wireBytes: readonly [number, number];
}

export type ExchangeHostCommand = "exchange" | "bare" | "end";

const { work, host, broker, wireBytes } = JSON.parse(process.argv[2] ?? "{}") as ExchangeHostData;
const devices = startDevices(work, host);
const transport = await connectNats({ ...broker, name: `host${host}`, deadlineMs: 10_000 });
const words = new Int32Array(devices.words);
const participants = work.hostOf.length + 1;
const bridge = createBridge({
  shape: benchShape(work),
  host,
  memory: devices.memory,
  cells: createAtomicCells({
    words,
    participants,
    participant: work.hostOf.length,
    generation: 1,
    deadlineMs: Number.POSITIVE_INFINITY,
    clock: realClock,
    sleep: sleepTurning,
  }),
  transport,
  place: { cluster: "bench", run: "exchange", generation: 1 },
  clock: realClock,
  deadlineMs: 60_000,
  abort: () => process.exit(1),
});
const carried = bridge.run();
await bridge.ready;

const [server] = typeof broker.servers === "string" ? [broker.servers] : broker.servers;
const { token, user, pass } = broker;
const client = await connect({
  servers: server ?? "",
  ...(token !== undefined && { token }),
  ...(user !== undefined && { user, pass: pass ?? "" }),
});
const payloadMax = (client.info?.max_payload ?? 0) - 4096;
const payload = new Uint8Array(Math.min(Math.max(...wireBytes), payloadMax));
const [sends = 0, awaits = 0] = [wireBytes[host], wireBytes[1 - host]].map((bytes = 0) =>
  Math.ceil(bytes / payload.length),
);
let received = 0;
let wanted = Number.POSITIVE_INFINITY;
let arrive = () => {};
client.subscribe(`bare.${host}`, {
  callback() {
    received++;
    if (received >= wanted) arrive();
  },
});
await client.flush();

process.on("message", ({ command, rounds }: { command: ExchangeHostCommand; rounds: number }) => {
  void run(command, rounds).then((ms) => {
    if (command === "end") process.disconnect();
    else process.send?.(ms);
  });
});
process.send?.("ready");

async function run(command: ExchangeHostCommand, rounds: number): Promise<number> {
  switch (command) {
    case "exchange":
      return await devices.measure(rounds);
    case "bare":
      return await bareRounds(rounds);
    case "end":
      await devices.stop();
      await carried;
      await Promise.all([transport.close(), client.close()]);
      return 0;
    default:
      return command satisfies never;
  }
}

/** Sends the same bytes to the other process, and receives as many from it. */
async function bareRounds(rounds: number): Promise<number> {
  const startMs = performance.now();
  for (let round = 1; round <= rounds; round++) {
    for (let i = 0; i < sends; i++) client.publish(`bare.${1 - host}`, payload);
    await new Promise<void>((resolve) => {
      wanted = round * awaits;
      arrive = resolve;
      if (received >= wanted) resolve();
    });
  }
  received -= rounds * awaits; // The other process may have begun its next command.
  wanted = Number.POSITIVE_INFINITY;
  return performance.now() - startMs;
}
