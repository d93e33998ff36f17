// One device's thread while costs are measured: it times the sets of tables that are its own,
// beside the other devices at their sets, and then exchanges, which all devices do together.
//
// A time is that for which the thread had a processor: what else runs on the machine does not
// count, nor does a device's waiting for others. Where the system does not tell, it is time on the
// wall; so is that of exchanges between hosts, whose bytes other threads carry.

import { Zipf } from "../../../src/data/synthetic/zipf.ts";
import { createAtomicCells } from "../../../src/exchange/atomic-cells.ts";
import {
  type AllToAll,
  channelNames,
  type Exchange,
  type ExchangeShape,
} from "../../../src/exchange/exchange.ts";
import { createSharedMemoryExchange } from "../../../src/exchange/shared-memory.ts";
import type { Bags, Kernels, RowRule } from "../../../src/kernels/contract/kernels.ts";
import { slicesOf, subtreesOf } from "../../../src/kernels/contract/slices.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { sliceRunsOf } from "../../../src/planner/placement.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { hasProcessorTime, processorMs } from "../../../src/ports/processor-time.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import { least } from "../calibration-time.ts";
import type { ExchangeProbe, ProbedTable } from "./cost-probes.ts";

/** A set of tables; equal numbers have equal ids. */
export interface SetTask {
  readonly index: number;
  readonly tables: readonly ProbedTable[];
}

/** A thread that measures its sets, then exchanges, beside `devices` - 1 others. */
export interface CostProbeTask {
  readonly program: "costs";
  readonly rank: number;
  readonly arithmetic: "auto" | "native" | "reference";
  readonly devices: number;
  /** The host of each device. Left out: one host, without a bridge. */
  readonly hostOf?: readonly number[];
  /** Columns of a device in an exchange, at most. */
  readonly columnsMax: number;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
  readonly sets: readonly SetTask[];
  readonly exchanges: readonly ExchangeProbe[];
  /** Milliseconds by which an exchange's latest device may be late. */
  readonly lateMax: number;
  readonly words: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
}

/** What a device measured, in milliseconds, in the order of its task. */
export interface CostProbeReport {
  readonly sets: readonly number[];
  /** Of this device alone. */
  readonly exchanges: readonly { readonly forward: number; readonly backward: number }[];
}

/** Longest wait for another thread's probes. */
const deadlineMs = 300_000;
/**
 * Timed repetitions, behind one that is not timed; the fastest counts: what else runs on the
 * machine only makes them longer.
 */
const rounds = 15;

const rule: RowRule = {
  kind: "rowWiseAdagrad",
  learningRate: 1e-3,
  epsilon: 1e-8,
  l2: 0,
  decay: 0,
};

/** Measures with the other devices of the task. */
export async function runCostProbes(task: CostProbeTask, clock: Clock): Promise<CostProbeReport> {
  const { rank, devices, hostOf, arithmetic, words, memory, sets, batchSize } = task;
  const kernels = openKernels(arithmetic);
  const cells = createAtomicCells({
    ...{ words: new Int32Array(words), participant: rank, generation: 1, deadlineMs, clock },
    participants: devices + (hostOf === undefined ? 0 : 1),
  });
  const exchange = createSharedMemoryExchange({
    ...{ shape: costProbeShape(task), rank, memory, cells, kernels },
    ...(hostOf !== undefined && { bridge: devices }),
  });
  const nowMs = hasProcessorTime() ? processorMs : () => clock.now();
  const times = sets.map((set) => timeSet(kernels, nowMs, set, batchSize));
  const exchanges: CostProbeReport["exchanges"][number][] = [];
  const isWall = hostOf !== undefined || !hasProcessorTime();
  const own = { nowMs: isWall ? () => clock.now() : nowMs, isWall, clock };
  // Bridges that have just come up are slow: the first exchange is timed twice.
  const [first] = task.exchanges;
  if (hostOf !== undefined && first !== undefined) await timeExchange(exchange, own, task, first);
  for (const probe of task.exchanges) {
    exchanges.push(await timeExchange(exchange, own, task, probe));
  }
  return { sets: times, exchanges };
}

/** The exchange that probes need: vectors to the samples, gradients back. */
export function costProbeShape({
  devices,
  hostOf,
  batchSize,
  columnsMax,
}: Pick<CostProbeTask, "devices" | "hostOf" | "batchSize" | "columnsMax">): ExchangeShape {
  const bytes = () => Math.ceil(batchSize / devices) * columnsMax * 4;
  let slices = 8;
  while (slices < devices) slices *= 2;
  const all = channelNames.map((name) => {
    return [name, name === "pooled" || name === "dPooled" ? bytes : () => 0];
  });
  return {
    devices,
    bytesMax: Object.fromEntries(all) as ExchangeShape["bytesMax"],
    gradientLength: 1,
    subtrees: sliceRunsOf(slices, devices).map((run) => subtreesOf(run.firstSlice, run.slices)),
    slices,
    ...(hostOf !== undefined && { hostOf }),
  };
}

/** Milliseconds of lookup and update of all tables of a set, for the whole batch. */
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
  const rules = tables.map(() => rule);
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

/** Bags whose mean length is the pooling factor. Popular rows lie all over the table. */
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

/** A prime above all rows: ranks times it, modulo the rows, are rows in another order. */
const spreading = 4_000_037;

/** The time that is measured, and the time on the wall. */
interface Times {
  readonly nowMs: () => number;
  /** Whether both are the same. */
  readonly isWall: boolean;
  readonly clock: Clock;
}

/** Milliseconds of this device's part of an exchange forward and back, its lateness apart. */
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
    // A device that still computes keeps its core, too. It matters to time on the wall alone.
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
