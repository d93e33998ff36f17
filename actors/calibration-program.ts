// What one device's thread measures for the planner: its kernels' rates, and the exchange with the
// others. Rates count bytes as the cost model does (src/planner/cost.ts). All devices measure the
// same at the same time, because they share the host's memory when they train.

import type { Clock } from "../src/clock.ts";
import {
  channelNames,
  type Exchange,
  type ExchangeShape,
  type PartBytes,
} from "../src/exchange/exchange.ts";
import type { Bags, Kernels } from "../src/kernels/kernels.ts";
import { slicesOf, subtreesOf } from "../src/kernels/slices.ts";
import { sliceRunsOf } from "../src/planner/placement.ts";
import { RandomStream } from "../src/random.ts";

/** How much is measured. */
export interface CalibrationSize {
  /** Bytes of the table that rows are read from: more than the caches hold. */
  readonly tableBytes: number;
  readonly samples: number;
  readonly idsPerBag: number;
  /** Bytes that each device sends to each in a round of the all-to-all. */
  readonly partBytes: number;
  /** Elements of the vector that is added up. */
  readonly gradientLength: number;
  /** Rows, columns and inner extent of the matrix product. */
  readonly productExtent: number;
  /** Repetitions; the fastest counts: what else runs on the machine only makes them longer. */
  readonly rounds: number;
}

/** What one device measured. */
export interface DeviceRates {
  readonly arithmetic: string;
  /** Bytes a second of lookups in rows of 32, 64 and 128 columns. */
  readonly lookup: readonly [number, number, number];
  /** Backward with its row-wise Adagrad, in lookups of the same rows. */
  readonly backwardFactor: number;
  readonly denseFlops: number;
  /** Bytes a second; undefined for a device alone. */
  readonly allToAll: number | undefined;
  readonly allReduce: number | undefined;
}

/** The exchange that a calibration needs. */
export function calibrationShape(size: CalibrationSize, devices: number): ExchangeShape {
  let slices = 8;
  while (slices < devices) slices *= 2;
  const pooled: PartBytes = () => size.partBytes;
  const none = Object.fromEntries(channelNames.map((name) => [name, () => 0]));
  return {
    devices,
    bytesMax: { ...none, pooled } as ExchangeShape["bytesMax"],
    gradientLength: size.gradientLength,
    subtrees: sliceRunsOf(slices, devices).map((run) => subtreesOf(run.firstSlice, run.slices)),
    slices,
  };
}

/** Measures, together with the other devices of the exchange. */
export async function measureDevice(
  kernels: Kernels,
  exchange: Exchange,
  clock: Clock,
  size: CalibrationSize,
): Promise<DeviceRates> {
  const isAlone = exchange.devices === 1;
  // The exchange between the measurements keeps the devices side by side, and so do barriers.
  const allToAll = await measureAllToAll(exchange, clock, size);
  const narrow = measureRows(kernels, clock, size, 32);
  const allReduce = await measureAllReduce(exchange, clock, size);
  const middle = measureRows(kernels, clock, size, 64);
  await exchange.barrier();
  const wide = measureRows(kernels, clock, size, 128);
  await exchange.barrier();
  return {
    arithmetic: kernels.arithmetic,
    lookup: [narrow.lookup, middle.lookup, wide.lookup],
    backwardFactor: wide.backwardFactor,
    denseFlops: measureProduct(kernels, clock, size),
    allToAll: isAlone ? undefined : allToAll,
    allReduce: isAlone ? undefined : allReduce,
  };
}

function measureRows(kernels: Kernels, clock: Clock, size: CalibrationSize, dim: number) {
  const { samples, idsPerBag } = size;
  const rows = Math.floor(size.tableBytes / (4 * dim));
  const table = kernels.rows({ rows, dim, pooling: "sum", rowBlocks: 1, stateWidth: 1 });
  kernels.fill(table.weights, 0.5);
  const random = new RandomStream(1, dim);
  const bags: Bags = {
    tables: 1,
    samples,
    offsets: Int32Array.from({ length: samples + 1 }, (_, i) => i * idsPerBag),
    ids: Int32Array.from({ length: samples * idsPerBag }, () => random.below(rows)),
  };
  const out = kernels.tensor([samples, dim]);
  const lookup = leastSeconds(clock, size.rounds, () => {
    kernels.pool(out, [table], bags, 0, samples);
  });
  const slices = slicesOf(0, 8, 8, samples);
  const rule = { kind: "rowWiseAdagrad", learningRate: 1e-3, epsilon: 1e-8, l2: 0, decay: 0 };
  const update = leastSeconds(clock, size.rounds, () => {
    kernels.updateRows([table], bags, out, slices, [{ ...rule, kind: "rowWiseAdagrad" }]);
  });
  const bytes = bags.ids.length * (4 + 4 * dim) + samples * dim * 4;
  return { lookup: bytes / lookup, backwardFactor: update / lookup };
}

function measureProduct(kernels: Kernels, clock: Clock, size: CalibrationSize): number {
  const extent = size.productExtent;
  const [out, x, w] = [0, 1, 2].map(() => kernels.tensor([extent, extent]));
  const b = kernels.tensor([extent]);
  if (out === undefined || x === undefined || w === undefined) return 0;
  kernels.fill(x, 0.5);
  kernels.fill(w, 0.5);
  const seconds = leastSeconds(clock, size.rounds, () => kernels.linear(out, x, w, b, false));
  return (2 * extent ** 3) / seconds;
}

/** Bytes a second of a round: every part written, and read where it arrives. */
async function measureAllToAll(
  { pooled, devices }: Exchange,
  clock: Clock,
  size: CalibrationSize,
): Promise<number> {
  const own = new Uint8Array(size.partBytes).fill(1);
  const inbox = new Uint8Array(devices * size.partBytes);
  const seconds: number[] = [];
  for (let round = 0; round < size.rounds; round++) {
    const startMs = clock.now();
    await pooled.open(() => size.partBytes);
    for (let to = 0; to < devices; to++) {
      const { buffer, byteOffset, byteLength } = pooled.outbox(to);
      new Uint8Array(buffer, byteOffset, byteLength).set(own);
    }
    pooled.start();
    const { buffer, byteOffset, byteLength } = await pooled.finish();
    inbox.set(new Uint8Array(buffer, byteOffset, byteLength));
    pooled.close();
    seconds.push((clock.now() - startMs) / 1000);
  }
  return (devices * size.partBytes) / least(seconds);
}

async function measureAllReduce(
  { gradients }: Exchange,
  clock: Clock,
  size: CalibrationSize,
): Promise<number> {
  const seconds: number[] = [];
  for (let round = 0; round < size.rounds; round++) {
    const startMs = clock.now();
    await gradients.open();
    gradients.start();
    await gradients.finish();
    gradients.close();
    seconds.push((clock.now() - startMs) / 1000);
  }
  return (4 * size.gradientLength) / least(seconds);
}

function leastSeconds(clock: Clock, rounds: number, work: () => void): number {
  work();
  const seconds = Array.from({ length: rounds }, () => {
    const startMs = clock.now();
    work();
    return (clock.now() - startMs) / 1000;
  });
  return least(seconds);
}

/** The least; never 0, as a clock's tick may be longer than what is measured. */
function least(values: readonly number[]): number {
  return values.reduce((all, one) => Math.min(all, Math.max(one, 1e-9)), Number.POSITIVE_INFINITY);
}
