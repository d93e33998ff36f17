// The channels of a step whose bytes depend on the ids of the batch, as frames of any length.

import { channels, type Exchange } from "../../exchange/exchange.ts";
import { createFrames, type FrameChannel } from "../../exchange/long-frames.ts";

const frameNames = ["ids", "rows", "staleRows", "deferred", "dRows", "rowSums"] as const;

export type Frames = Readonly<Record<(typeof frameNames)[number], FrameChannel>>;

/**
 * The frames of a device over its exchange. `isLong`: as of the topology; deferred embeddings have
 * less room than they may need in any job.
 */
export function framesOver(exchange: Exchange, isLong: boolean): Frames {
  const { rank, devices } = exchange;
  return Object.fromEntries(
    frameNames.map((name) => {
      const options = { channel: exchange[name], what: channels[name], rank, devices };
      return [name, createFrames({ ...options, isLong: isLong || name === "deferred" })];
    }),
  ) as Frames;
}
