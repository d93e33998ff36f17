// Rounds of the collectives as one device runs them, and how long each took.

import { channelNames, type Exchange, type ExchangeShape } from "../src/exchange/exchange.ts";
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

/** Milliseconds of each round, without those that warm up. */
export async function measureRounds(
  exchange: Exchange,
  { collective, bytes }: ExchangeWork,
  rounds: number,
): Promise<number[]> {
  const part = partBytes(bytes, exchange.devices);
  const own = new Uint8Array(bytes / exchange.devices).fill(exchange.rank + 1);
  const roundMs: number[] = [];
  for (let round = 0; round < warmUpRounds + rounds; round++) {
    const startMs = performance.now();
    if (collective === "allToAll") await allToAll(exchange, part, own);
    else await allReduce(exchange);
    roundMs.push(performance.now() - startMs);
  }
  return roundMs.slice(warmUpRounds);
}

/** A device's part for itself is made where it lies: it is no part of the exchange. */
function partBytes(bytes: number, devices: number) {
  return (from: number, to: number) => (from === to ? 0 : bytes / devices);
}

async function allToAll(
  { pooled, devices, rank }: Exchange,
  part: (from: number, to: number) => number,
  own: Uint8Array,
): Promise<void> {
  await pooled.open(part);
  for (let to = 0; to < devices; to++) {
    const { buffer, byteOffset, byteLength } = pooled.outbox(to);
    if (to !== rank) new Uint8Array(buffer, byteOffset, byteLength).set(own);
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
