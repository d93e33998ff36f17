// Cost probes on one device's thread: it times its own sets of tables, beside the other devices at
// theirs, and then exchanges, in which all devices take part.
//
// Times are CPU times of the thread, so that other load on the machine and waiting for other
// devices do not count. Where the system does not report CPU time, wall time is taken; likewise for
// exchanges between hosts, whose bytes are carried by other threads.

import { Zipf } from "../../../src/data/synthetic/zipf.ts";
import type { AllToAll, Exchange, ExchangeShape } from "../../../src/exchange/exchange.ts";
import type { Bags, Kernels } from "../../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../../src/kernels/contract/slices.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { hasProcessorTime, processorMs } from "../../../src/ports/processor-time.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import {
  least,
  type MeasuringThread,
  measuredRule,
  measuringShape,
  openMeasuring,
} from "../measuring.ts";
import type { ExchangeProbe, ProbedTable } from "./cost-probes.ts";

/** A set of tables; equal `index` gives equal ids. */
export interface SetTask {
  readonly index: number;
  readonly tables: readonly ProbedTable[];
}

/** The task of a cost-probe thread, one of `devices`: its sets, then exchanges. */
export interface CostProbeTask extends MeasuringThread {
  readonly program: "costs";
  readonly arithmetic: "auto" | "native" | "reference";
  readonly devices: number;
  /** The host of each device; left out: one host, without a bridge. */
  readonly hostOf?: readonly number[];
  /** Most columns of a device in an exchange. */
  readonly columnsMax: number;
  /** Samples per step, over all devices. */
  readonly batchSize: number;
  readonly sets: readonly SetTask[];
  readonly exchanges: readonly ExchangeProbe[];
  /** Largest delay of a device at the start of an exchange, in milliseconds. */
  readonly lateMax: number;
}

/** Measurements of a device in milliseconds, in the order of its task. */
export interface CostProbeReport {
  readonly sets: readonly number[];
  /** Times of this device only. */
  readonly exchanges: readonly { readonly forward: number; readonly backward: number }[];
}

/** Timed repetitions, after one warm-up, of which the fastest counts. */
const rounds = 15;

/** Runs the probes of one device, together with the other devices of the task. */
export async function runCostProbes(task: CostProbeTask, clock: Clock): Promise<CostProbeReport> {
  const { hostOf, arithmetic, sets, batchSize } = task;
  const { kernels, exchange } = openMeasuring(task, costProbeShape(task), { arithmetic, clock });
  const nowMs = hasProcessorTime() ? processorMs : () => clock.now();
  const times = sets.map((set) => timeSet(kernels, nowMs, set, batchSize));
  const exchanges: CostProbeReport["exchanges"][number][] = [];
  const isWall = hostOf !== undefined || !hasProcessorTime();
  const own = { nowMs: isWall ? () => clock.now() : nowMs, isWall, clock };
  // The first exchange over new bridges is slow, so it is timed twice.
  const [first] = task.exchanges;
  if (hostOf !== undefined && first !== undefined) await timeExchange(exchange, own, task, first);
  for (const probe of task.exchanges) {
    exchanges.push(await timeExchange(exchange, own, task, probe));
  }
  return { sets: times, exchanges };
}

/** The shape of the exchange that probes use: vectors to the samples, gradients back. */
export function costProbeShape({
  devices,
  hostOf,
  batchSize,
  columnsMax,
}: Pick<CostProbeTask, "devices" | "hostOf" | "batchSize" | "columnsMax">): ExchangeShape {
  const bytes = () => Math.ceil(batchSize / devices) * columnsMax * 4;
  const shape = measuringShape(devices, { pooled: bytes, dPooled: bytes }, 1);
  return hostOf === undefined ? shape : { ...shape, hostOf };
}

/** Milliseconds of lookup and update of all tables of a set, for a whole batch. */
function timeSet(
  kernels: Kernels,
  nowMs: () => number,
  { tables: probed, index }: SetTask,
  samples: number,
): number {
  if (probed.length === 0) return 0;
  const tables = probed.map(({ rows, dim }) => {
    return kernels.rows({ rows, dim, pooling: "sum", rowBlocks: 1, stateWidth: 1 });
  });
  const columns = probed.reduce((sum, { dim }) => sum + dim, 0);
  const out = kernels.tensor([samples, columns]);
  const slices = slicesOf(0, 8, 8, samples);
  const rules = tables.map(() => measuredRule);
  const batches = [0, 1].map((turn) => bagsOf(probed, samples, 2 * index + turn));
  const times = Array.from({ length: rounds + 1 }, (_, round) => {
    const bags = batches[round % 2] ?? noBags;
    const startMs = nowMs();
    kernels.pool(out, tables, bags, 0, samples);
    kernels.updateRows(tables, bags, out, slices, rules);
    return nowMs() - startMs;
  });
  return least(times.slice(1));
}

const noBags: Bags = { tables: 0, samples: 0, offsets: Int32Array.of(0), ids: new Int32Array(0) };

/** Draws bags with the pooling factor as mean length. Popular rows are spread over the table. */
function bagsOf(probed: readonly ProbedTable[], samples: number, step: number): Bags {
  const random = new RandomStream(1, purposes.costProbes, step);
  const uniform = () => random.uniform();
  const ids: number[] = [];
  const offsets = [0];
  for (const { rows, poolingFactor, zipf } of probed) {
    const law = new Zipf(rows, zipf);
    const whole = Math.floor(poolingFactor);
    for (let sample = 0; sample < samples; sample++) {
      const length = whole + (uniform() < poolingFactor - whole ? 1 : 0);
      for (let i = 0; i < length; i++) ids.push((law.draw(uniform) * spreading) % rows);
      offsets.push(ids.length);
    }
  }
  return {
    tables: probed.length,
    samples,
    offsets: Int32Array.from(offsets),
    ids: Int32Array.from(ids),
  };
}

/** A prime above all row counts: multiplying ranks by it, modulo the rows, permutes them. */
const spreading = 4_000_037;

/** The measured time, and the wall time. */
interface Times {
  readonly nowMs: () => number;
  /** Whether the measured time is wall time. */
  readonly isWall: boolean;
  readonly clock: Clock;
}

/** Milliseconds of this device's part of an exchange, forward and backward, without its delay. */
async function timeExchange(
  exchange: Exchange,
  { nowMs, isWall, clock }: Times,
  { devices, batchSize, lateMax, rank }: CostProbeTask,
  { columns, late }: ExchangeProbe,
) {
  const samples = Math.ceil(batchSize / devices);
  const vectors = (device: number) => samples * (columns[device] ?? 0) * 4;
  const waitMs = lateMax * (late[rank] ?? 0);
  const forward: number[] = [];
  const backward: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    await exchange.barrier();
    // A late device occupies its core, as when computing. The delay only affects wall time.
    const untilMs = clock.now() + waitMs;
    while (isWall && clock.now() < untilMs);
    forward.push(await timed(() => send(exchange.pooled, (from) => vectors(from))));
    await exchange.barrier();
    backward.push(await timed(() => send(exchange.dPooled, (_, to) => vectors(to))));
  }
  return { forward: least(forward.slice(1)), backward: least(backward.slice(1)) };

  async function timed(work: () => Promise<void>): Promise<number> {
    const startMs = nowMs();
    await work();
    return nowMs() - startMs;
  }

  async function send(channel: AllToAll, bytes: (from: number, to: number) => number) {
    await channel.open(bytes);
    for (let to = 0; to < devices; to++) {
      const { buffer, byteOffset, byteLength } = channel.outbox(to);
      new Uint8Array(buffer, byteOffset, byteLength).fill(1);
    }
    channel.start();
    const { buffer, byteOffset, byteLength } = await channel.finish();
    const read = new Float32Array(byteLength / 4);
    read.set(new Float32Array(buffer, byteOffset, byteLength / 4));
    channel.close();
  }
}
