// Predicts the memory that the buffers of batches take on a host, before any of it is reserved: the
// slots of the batch ring, and the parts of the exchange that the host's devices write or read.

import { type RingShape, ringLayoutOf } from "../../exchange/batch-ring.ts";
import { type ChannelName, channelNames, type ExchangeShape } from "../../exchange/exchange.ts";
import { grainsOf, topKBytesOf } from "../../exchange/layout.ts";

export interface BufferMemory {
  readonly bytes: number;
  /** Bytes of the buffers that grow with the ids of a batch. */
  readonly idsBytes: number;
}

const ofIds: ReadonlySet<ChannelName> = new Set([
  "ids",
  "rows",
  "staleRows",
  "deferred",
  "dRows",
  "rowSums",
]);

/** Buffers on the host of the devices first .. first+count-1. */
export function bufferMemoryOf(
  exchange: ExchangeShape,
  ring: RingShape,
  { first, count }: { readonly first: number; readonly count: number },
): BufferMemory {
  const slots = ringLayoutOf(ring, { first, count }).bytes;
  const isLocal = (device: number) => device >= first && device < first + count;
  let [bytes, idsBytes] = [slots, slots];
  for (const name of channelNames) {
    const part = exchange.bytesMax[name];
    let sum = 0;
    for (let to = 0; to < exchange.devices; to++) {
      const [begin, end] = isLocal(to) ? [0, exchange.devices] : [first, first + count];
      for (let from = begin; from < end; from++) sum += part(from, to);
    }
    bytes += sum;
    if (ofIds.has(name)) idsBytes += sum;
  }
  const subtrees = exchange.subtrees.slice(first, first + count);
  const { rounding, gradientLength } = exchange;
  let floats = gradientLength;
  for (const trees of subtrees) {
    const further = grainsOf(trees, rounding).length - trees.length;
    floats += trees.length * gradientLength + further * (rounding?.elements ?? 0);
  }
  const selected = topKBytesOf(exchange, exchange.hostOf?.[first] ?? 0);
  return { bytes: bytes + 4 * floats + selected, idsBytes };
}
