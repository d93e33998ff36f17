// One host of bridged-processes.test.ts in a separate process: the bridge on its main thread, its
// devices on worker threads. It reports to its parent when all have started, and the outcome of
// each.

import { Worker } from "node:worker_threads";
import { type ErrorRecord, recordError } from "../../src/errors/errors.ts";
import { createAtomicCells, sleepTurning } from "../../src/exchange/atomic-cells.ts";
import { type BridgeTraffic, createBridge } from "../../src/exchange/bridge.ts";
import { abortCells, cellWords } from "../../src/exchange/cells.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { realClock } from "../../src/ports/clock.ts";
import { type ConnectOptions, connectNats } from "../../src/wire/transports/nats-transport.ts";
import { gradientWays, roundsShape } from "./rounds.ts";

export interface HostTask {
  readonly hostOf: readonly number[];
  readonly host: number;
  readonly rounds: number;
  readonly deadlineMs: number;
  readonly broker: Pick<ConnectOptions, "servers" | "token" | "user" | "pass">;
}

export interface DeviceEnd {
  readonly wrong?: string[];
  readonly sent?: Exchange["sent"];
  readonly error?: ErrorRecord;
}

export type HostReport =
  | { readonly type: "ready" }
  | {
      readonly type: "ended";
      readonly devices: readonly DeviceEnd[];
      readonly bridge: ErrorRecord | null;
      readonly traffic: BridgeTraffic;
    };

const { hostOf, host, rounds, deadlineMs, broker } = JSON.parse(
  process.argv[2] ?? "{}",
) as HostTask;
const generation = 4; // As in rounds-worker.ts.
const shape = { ...roundsShape(hostOf.length, gradientWays[2]), hostOf };
const layout = layoutOf(shape, host);
const participants = hostOf.length + 1;
const words = new SharedArrayBuffer(4 * cellWords(participants, layout.cells));
const memory = new SharedArrayBuffer(layout.bytes);
const tell = (report: HostReport) => process.send?.(report);
const end = () => abortCells(new Int32Array(words), participants);

const transport = await connectNats({ ...broker, name: `host${host}`, deadlineMs: 120_000 });
const bridge = createBridge({
  shape,
  host,
  memory,
  cells: createAtomicCells({
    words: new Int32Array(words),
    participants,
    participant: hostOf.length,
    generation,
    deadlineMs: Number.POSITIVE_INFINITY,
    clock: realClock,
    sleep: sleepTurning,
  }),
  transport,
  place: { cluster: "test", run: "r1", generation },
  clock: realClock,
  deadlineMs,
  abort: end,
});
const carried = bridge.run().then(
  () => null,
  (error: unknown) => recordError(error),
);
await bridge.ready;
tell({ type: "ready" });
// All bridges subscribe before a device starts.
await new Promise((begin) => process.once("message", begin));
const devices = await Promise.all(
  (layout.hosts[host] ?? []).map((rank) => {
    const devices = hostOf.length;
    const workerData = { devices, hostOf, rank, rounds, deadlineMs, words, memory };
    const worker = new Worker(new URL("rounds-worker.js", import.meta.url), { workerData });
    return new Promise<DeviceEnd>((resolve, reject) => {
      worker.on("error", reject);
      worker.on("message", (message: DeviceEnd & { started?: number }) => {
        if (message.started === undefined) resolve(message);
      });
    });
  }),
);
// The other process may still wait for frames of this one: the bridge runs until the parent reports
// that every process has its data.
const ended = { type: "ended", devices, traffic: bridge.traffic } as const;
const failure = await Promise.race([
  carried,
  new Promise<null>((resolve) => {
    process.once("message", () => resolve(null));
    process.send?.({ type: "done" });
  }),
]);
end();
tell({ ...ended, bridge: failure ?? (await carried) });
await transport.close();
process.disconnect?.();
