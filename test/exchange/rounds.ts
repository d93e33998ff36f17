// The conformance program of an exchange, for one device: rounds of all collectives (all-to-all,
// all-gather, broadcast, all-reduce, reduce-scatter, barrier), overlapping as in a step. The size
// and the content of each part depend only on (channel, round, from, to). Runs over simulated cells
// and, in worker threads, over real ones.

import {
  type AllToAll,
  broadcastOf,
  channelNames,
  type Elements,
  type Exchange,
  type ExchangeShape,
  type GradientRounding,
  type PartBytes,
} from "../../src/exchange/exchange.ts";
import { grainsOf } from "../../src/exchange/layout.ts";
import { type Subtree, subtreesOf } from "../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";

const slices = 8;
/** Not a multiple of the number of devices, so that ranges have unequal sizes. */
export const gradientLength = 83;

/** Ways in which the dense gradient is sent: bits depend on the rounding alone. */
export const gradientWays: readonly Pick<ExchangeShape, "buckets" | "rounding">[] = [
  {},
  { buckets: bucketsAt([0, 5, 48, gradientLength]) },
  {
    buckets: bucketsAt([0, 48, 60, gradientLength]),
    rounding: { precision: "bfloat16", grain: 2, elements: 60 },
  },
];

/** Buckets between these elements; the last is ready first. */
export function bucketsAt(ends: readonly number[]): Elements[] {
  return ends
    .slice(1)
    .map((end, i) => ({ first: ends[i] ?? 0, count: end - (ends[i] ?? 0) }))
    .reverse();
}

/** The shape of an exchange with room for the rounds. */
export function roundsShape(devices: number, way = gradientWays[0]): ExchangeShape {
  const most: PartBytes = () => 8 * 6;
  return {
    ...way,
    devices,
    bytesMax: Object.fromEntries(
      channelNames.map((name) => [name, most]),
    ) as ExchangeShape["bytesMax"],
    gradientLength,
    subtrees: Array.from({ length: devices }, (_, device) => {
      const first = Math.floor((device * slices) / devices);
      return subtreesOf(first, Math.floor(((device + 1) * slices) / devices) - first);
    }),
    slices,
  };
}

/** Runs `rounds` rounds; resolves to a description of wrong results, empty if all are right. */
export async function exchangeRounds(
  exchange: Exchange,
  shape: ExchangeShape,
  rounds: number,
): Promise<string[]> {
  const wrong: string[] = [];
  const { ids, pooled, dPooled, gradients } = exchange;
  for (let round = 1; round <= rounds; round++) {
    await send(ids, 1, round, exchange);
    await tell(round, exchange);
    await check(ids, 1, round, exchange, wrong);
    await send(pooled, 2, round, exchange);
    await gradients.open();
    await send(dPooled, 3, round, exchange);
    await check(pooled, 2, round, exchange, wrong); // Other devices may already be reducing.
    const isScatter = round % 4 === 2;
    for (const [bucket, elements] of (
      shape.buckets ?? [{ first: 0, count: gradientLength }]
    ).entries()) {
      writeGradients(shape, exchange, elements, round);
      gradients.start(bucket + 1);
      if (!isScatter) gradients.progress();
    }
    await check(dPooled, 3, round, exchange, wrong);
    if (isScatter) {
      for (const [i, range] of (await gradients.scatter()).entries()) {
        const own = gradients.ranges[i] ?? { first: 0, count: 0 };
        checkSum(valuesOf(range), own, round, exchange, shape, wrong);
      }
      await exchange.barrier();
    } else {
      const all = { first: 0, count: gradientLength };
      checkSum(valuesOf(await gradients.finish()), all, round, exchange, shape, wrong);
    }
    gradients.close();
    await hear(round, exchange, wrong);
  }
  return wrong;
}

/** Number of bytes of a part: different in every round, sometimes zero. */
function bytesOf(channel: number, round: number): PartBytes {
  return (from, to) => 8 * ((channel + 3 * round + 2 * from + to) % 7);
}

function wordOf(channel: number, round: number, from: number, to: number, index: number): number {
  return (((channel * 1000 + round) * 16 + from) * 16 + to) * 16 + index;
}

async function send(
  channel: AllToAll,
  number: number,
  round: number,
  { devices, rank }: Exchange,
): Promise<void> {
  await channel.open(bytesOf(number, round));
  for (let to = 0; to < devices; to++) {
    const { buffer, byteOffset, byteLength } = channel.outbox(to);
    const words = new Int32Array(buffer, byteOffset, byteLength / 4);
    for (let i = 0; i < words.length; i++) words[i] = wordOf(number, round, rank, to, i);
  }
  channel.start();
}

async function check(
  channel: AllToAll,
  number: number,
  round: number,
  { devices, rank }: Exchange,
  wrong: string[],
): Promise<void> {
  const { buffer, byteOffset, byteLength } = await channel.finish();
  const words = new Int32Array(buffer, byteOffset, byteLength / 4);
  let at = 0;
  for (let from = 0; from < devices; from++) {
    const count = bytesOf(number, round)(from, rank) / 4;
    for (let i = 0; i < count; i++) {
      const expected = wordOf(number, round, from, rank, i);
      const actual = words[at++];
      if (actual === expected) continue;
      wrong.push(
        `channel ${number}, round ${round}, ${from} to ${rank}: ${actual}, not ${expected}`,
      );
    }
  }
  if (at !== words.length) wrong.push(`channel ${number}: ${words.length} words, not ${at}`);
  channel.close();
}

/** The bytes that each device contributes to an all-gather: every third round is a broadcast. */
function toldIn(round: number, devices: number): PartBytes {
  if (round % 3 === 0) return broadcastOf(round % devices, 40);
  return (from) => 8 * ((round + 2 * from) % 7);
}

async function tell(round: number, { losses, devices, rank }: Exchange): Promise<void> {
  await losses.open(toldIn(round, devices));
  const { buffer, byteOffset, byteLength } = losses.outbox();
  const words = new Int32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < words.length; i++) words[i] = wordOf(4, round, rank, 0, i);
  losses.start();
}

async function hear(round: number, { losses, devices, rank }: Exchange, wrong: string[]) {
  const { buffer, byteOffset, byteLength } = await losses.finish();
  const words = [...new Int32Array(buffer, byteOffset, byteLength / 4)];
  const expected = Array.from({ length: devices }, (_, from) =>
    Array.from({ length: toldIn(round, devices)(from, rank) / 4 }, (_, i) =>
      wordOf(4, round, from, 0, i),
    ),
  ).flat();
  if (words.join() !== expected.join()) {
    wrong.push(`round ${round}, told to ${rank}: ${words}, not ${expected}`);
  }
  losses.close();
}

/** Writes a device's finished subtrees over some elements. */
export function writeGradients(
  shape: ExchangeShape,
  { gradients, rank }: Exchange,
  { first, count }: Elements,
  round: number,
): void {
  const { rounding, subtrees } = shape;
  const isRounded = first + count <= (rounding?.elements ?? 0);
  const trees = grainsOf(subtrees[rank] ?? [], isRounded ? rounding : undefined);
  for (const [i, tree] of trees.entries()) {
    const t = gradients.subtrees[i];
    if (t === undefined) throw new RangeError(`Subtree ${i} has no tensor`);
    const sums = Array.from({ length: count }, (_, n) => sumOf(tree, first + n, round));
    valuesOf(t).set(sums, first);
  }
}

function checkSum(
  sum: ArrayLike<number>,
  { first, count }: Elements,
  round: number,
  { rank }: Exchange,
  { rounding }: ExchangeShape,
  wrong: string[],
): void {
  if (sum.length !== count) wrong.push(`${sum.length} elements, not ${count}`);
  for (let n = first; n < first + count; n++) {
    const expected = sumOf({ first: 0, count: slices }, n, round, rounding);
    const actual = sum[n - first];
    if (Object.is(actual, expected)) continue;
    wrong.push(`device ${rank}, round ${round}: sum[${n}] is ${actual}, expected ${expected}`);
  }
}

/**
 * The addend of slice `slice` for element n: numbers whose sum depends on the order of additions.
 */
function share(slice: number, n: number, round: number): number {
  return Math.fround(Math.sin(1 + slice * 7 + n * 3 + round) * 10 ** ((slice * 5 + n) % 7));
}

/** The sum over a subtree, in the order of the tree, in float32; larger nodes are rounded. */
export function sumOf(
  { first, count }: Subtree,
  n: number,
  round: number,
  rounding?: GradientRounding,
): number {
  const half = count / 2;
  const [left, right] = [
    { first, count: half },
    { first: first + half, count: half },
  ];
  const sum =
    count === 1
      ? share(first, n, round)
      : Math.fround(sumOf(left, n, round, rounding) + sumOf(right, n, round, rounding));
  if (rounding === undefined || n >= rounding.elements || count < rounding.grain) return sum;
  return rounding.precision === "bfloat16" ? toBfloat16(sum) : toFloat16(sum);
}

/** To 8 significant bits, ties to even, by the doubles' own rounding. */
function toBfloat16(value: number): number {
  const step = 2 ** (Math.floor(Math.log2(Math.abs(value))) - 7);
  return value === 0 ? value : even(value / step) * step;
}

/** To 11 significant bits, ties to even; to infinity beyond 65504. */
function toFloat16(value: number): number {
  if (!Number.isFinite(value)) return value;
  const step = 2 ** Math.max(-24, Math.floor(Math.log2(Math.abs(value))) - 10);
  const rounded = value === 0 ? value : even(value / step) * step;
  return Math.abs(rounded) > 65504 ? Math.sign(value) * Number.POSITIVE_INFINITY : rounded;
}

/** The nearest integer; of two, the even one. Below 2^51, doubles have no fraction beyond it. */
function even(value: number): number {
  const shift = 2 ** 52 * Math.sign(value);
  return value + shift - shift;
}
