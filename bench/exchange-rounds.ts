// Rounds of the collectives as one device runs them, and how long each took.

import { channelNames, type Exchange, type ExchangeShape } from "../src/exchange/exchange.ts";
import type { Kernels, Tensor } from "../src/kernels/kernels.ts";
import { subtreesOf } from "../src/kernels/slices.ts";

export type Collective = "allToAll" | "allReduce";

/** What is measured: a collective of `bytes` on every device. */
export interface ExchangeWork {
  readonly collective: Collective;
  readonly bytes: number;
  /** Host of each device. */
  readonly hostOf: readonly number[];
}

const slices = 8;
const warmUpRounds = 3;

/** The exchange for it; of the other collective it has nothing. */
export function benchShape({ collective, bytes, hostOf }: ExchangeWork): ExchangeShape {
  const devices = hostOf.length;
  const none = Object.fromEntries(channelNames.map((name) => [name, () => 0]));
  const pooled = collective === "allToAll" ? partBytes(bytes, devices) : () => 0;
  return {
    devices,
    hostOf,
    bytesMax: { ...none, pooled } as ExchangeShape["bytesMax"],
    gradientLength: collective === "allReduce" ? bytes / 4 : 0,
    subtrees: hostOf.map((_, device) => subtreesOf((device * slices) / devices, slices / devices)),
    slices,
  };
}

/** Milliseconds of all rounds, without those that warm up. */
export async function measureRounds(
  exchange: Exchange,
  kernels: Kernels,
  { collective, bytes, hostOf }: ExchangeWork,
  rounds: number,
): Promise<number> {
  // In shared memory the writing of a part is its way. What the wire carries lies there already,
  // as the bytes of the bare client do.
  const isShared = hostOf.every((host) => host === hostOf[0]);
  const part = partBytes(bytes, exchange.devices);
  const own = kernels.tensor([bytes / exchange.devices / 4]);
  let startMs = 0;
  for (let round = -warmUpRounds; round < rounds; round++) {
    if (round === 0) startMs = performance.now();
    if (collective === "allToAll") await allToAll(exchange, kernels, part, own, isShared);
    else await allReduce(exchange);
  }
  return performance.now() - startMs;
}

/** A device's part for itself is made where it lies: it is no part of the exchange. */
function partBytes(bytes: number, devices: number) {
  return (from: number, to: number) => (from === to ? 0 : bytes / devices);
}

async function allToAll(
  { pooled, devices, rank }: Exchange,
  kernels: Kernels,
  part: (from: number, to: number) => number,
  own: Tensor,
  isShared: boolean,
): Promise<void> {
  await pooled.open(part);
  for (let to = 0; to < devices; to++) {
    const { buffer, byteOffset } = pooled.outbox(to);
    if (to === rank || !isShared) continue;
    const out = kernels.view(buffer, byteOffset, own.shape);
    kernels.foldSubtrees(out, [own], [{ first: 0, count: 1 }], 1); // A sum of one: a copy.
  }
  pooled.start();
  await pooled.finish();
  pooled.close();
}

async function allReduce({ gradients }: Exchange): Promise<void> {
  await gradients.open();
  gradients.start();
  await gradients.finish();
  gradients.close();
}
