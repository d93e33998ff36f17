// What every exchange has to do, as a program of one device: rounds of all collectives, overlapping
// as a step overlaps them, each part of a size and a content that only (channel, round, from, to)
// decide. Runs under simulated cells and, in worker threads, over real ones.

import {
  type AllToAll,
  channelNames,
  type Exchange,
  type ExchangeShape,
  type PartBytes,
} from "../../src/exchange/exchange.ts";
import { valuesOf } from "../../src/kernels/memory.ts";
import { type Subtree, subtreesOf } from "../../src/kernels/slices.ts";

const slices = 8;
/** Not a multiple of what devices split it by. */
export const gradientLength = 83;

/** The shape of an exchange with room for the rounds. */
export function roundsShape(devices: number): ExchangeShape {
  const most: PartBytes = () => 8 * 6;
  return {
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

/** Runs `rounds` rounds; resolves to what was wrong, empty where nothing was. */
export async function exchangeRounds(
  exchange: Exchange,
  shape: ExchangeShape,
  rounds: number,
): Promise<string[]> {
  const wrong: string[] = [];
  const { ids, pooled, dPooled, losses, gradients, rank } = exchange;
  for (let round = 1; round <= rounds; round++) {
    await send(ids, 1, round, exchange);
    await send(losses, 4, round, exchange);
    await check(ids, 1, round, exchange, wrong);
    await send(pooled, 2, round, exchange);
    await gradients.open();
    await send(dPooled, 3, round, exchange);
    await check(pooled, 2, round, exchange, wrong); // Others may go on to their sum meanwhile.
    const trees = shape.subtrees[rank] ?? [];
    for (const [i, tree] of trees.entries()) {
      const t = gradients.subtrees[i];
      if (t === undefined) wrong.push(`subtree ${i} has no tensor`);
      else valuesOf(t).set(Array.from({ length: gradientLength }, (_, n) => sumOf(tree, n, round)));
    }
    gradients.start();
    await check(dPooled, 3, round, exchange, wrong);
    const sum = valuesOf(await gradients.finish());
    for (let n = 0; n < gradientLength; n++) {
      const expected = sumOf({ first: 0, count: slices }, n, round);
      if (!Object.is(sum[n], expected)) {
        wrong.push(`device ${rank}, round ${round}: sum[${n}] is ${sum[n]}, expected ${expected}`);
      }
    }
    gradients.close();
    await check(losses, 4, round, exchange, wrong);
  }
  return wrong;
}

/** Bytes of a part: other in every round, sometimes none. */
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

/** What slice `slice` adds to element n: numbers whose sum depends on the order of additions. */
function share(slice: number, n: number, round: number): number {
  return Math.fround(Math.sin(1 + slice * 7 + n * 3 + round) * 10 ** ((slice * 5 + n) % 7));
}

/** The sum over a subtree, in the order of the tree, in float32. */
function sumOf({ first, count }: Subtree, n: number, round: number): number {
  if (count === 1) return share(first, n, round);
  const half = count / 2;
  const left = sumOf({ first, count: half }, n, round);
  return Math.fround(left + sumOf({ first: first + half, count: half }, n, round));
}
