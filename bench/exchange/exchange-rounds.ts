// Rounds of the collectives on one device, and their duration.

import {
  broadcastOf,
  channelNames,
  type Exchange,
  type ExchangeShape,
  type PartBytes,
  type Region,
} from "../../src/exchange/exchange.ts";
import type { Kernels, Tensor } from "../../src/kernels/contract/kernels.ts";
import { subtreesOf } from "../../src/kernels/contract/slices.ts";

export const collectives = [
  "allToAll",
  "allReduce",
  "reduceScatter",
  "allGather",
  "broadcast",
  "barrier",
] as const;

export type Collective = (typeof collectives)[number];

/** One collective to measure, with `bytes` on every device. */
export interface ExchangeWork {
  readonly collective: Collective;
  readonly bytes: number;
  /** Host of each device. */
  readonly hostOf: readonly number[];
  /** Whether receivers of an all-to-all copy their inbox, as a step reads what it receives. */
  readonly isRead?: boolean;
}

const slices = 8;
const warmUpRounds = 3;

/** The shape of an exchange for one collective: channels of other collectives have no memory. */
export function benchShape(work: ExchangeWork): ExchangeShape {
  const { collective, bytes, hostOf } = work;
  const devices = hostOf.length;
  const none = Object.fromEntries(channelNames.map((name) => [name, () => 0]));
  const channel = collective === "allToAll" ? "pooled" : "losses";
  const isSum = collective === "allReduce" || collective === "reduceScatter";
  return {
    devices,
    hostOf,
    bytesMax: { ...none, [channel]: partBytesOf(work) } as ExchangeShape["bytesMax"],
    gradientLength: isSum ? bytes / 4 : 0,
    subtrees: hostOf.map((_, device) => subtreesOf((device * slices) / devices, slices / devices)),
    slices,
  };
}

/** Milliseconds of all rounds, without the warm-up rounds. */
export async function measureRounds(
  exchange: Exchange,
  kernels: Kernels,
  work: ExchangeWork,
  rounds: number,
): Promise<number> {
  const round = roundOf(exchange, kernels, work);
  let startMs = 0;
  for (let i = -warmUpRounds; i < rounds; i++) {
    if (i === 0) startMs = performance.now();
    await round();
  }
  return performance.now() - startMs;
}

function partBytesOf({ collective, bytes, hostOf }: ExchangeWork): PartBytes {
  const part = bytes / hostOf.length;
  switch (collective) {
    case "allToAll":
      // A device writes its part for itself in place, so that it is not exchanged.
      return (from, to) => (from === to ? 0 : part);
    case "allGather":
      return () => part;
    case "broadcast":
      return broadcastOf(0, bytes);
    default:
      return () => 0;
  }
}

function roundOf(
  { pooled, losses, gradients, barrier, devices, rank }: Exchange,
  kernels: Kernels,
  work: ExchangeWork,
): () => Promise<void> {
  const part = partBytesOf(work);
  // In shared memory, writing a part sends it, so that a round writes. Parts for the wire are in
  // place before the round, as are the bytes of the bare client.
  const isShared = work.hostOf.every((host) => host === work.hostOf[0]);
  const own = kernels.tensor([1, part(rank, (rank + 1) % devices) / 4]);
  const taken = kernels.tensor(own.shape);
  const write = (to: Region) => {
    if (isShared) copyInto(kernels, to, own);
  };
  switch (work.collective) {
    case "allToAll":
      return async () => {
        await pooled.open(part);
        for (let to = 0; to < devices; to++) if (to !== rank) write(pooled.outbox(to));
        pooled.start();
        const { buffer, byteOffset } = await pooled.finish();
        if (work.isRead) kernels.copy(taken, kernels.view(buffer, byteOffset, own.shape));
        pooled.close(true);
      };
    case "allGather":
    case "broadcast":
      return async () => {
        await losses.open(part);
        write(losses.outbox());
        losses.start();
        await losses.finish();
        losses.close(true);
      };
    case "reduceScatter":
      return async () => {
        await gradients.open();
        gradients.start();
        await gradients.scatter();
        await barrier();
      };
    case "allReduce":
      return async () => {
        await gradients.open();
        gradients.start();
        await gradients.finish();
        gradients.close();
      };
    case "barrier":
      return barrier;
    default:
      return work.collective satisfies never;
  }
}

/** Copies as a step copies vectors into an outbox. */
function copyInto(kernels: Kernels, { buffer, byteOffset }: Region, own: Tensor): void {
  const columns = own.shape[1] ?? 0;
  if (columns > 0) {
    kernels.copyColumns(kernels.view(buffer, byteOffset, own.shape), 0, own, 0, columns);
  }
}
