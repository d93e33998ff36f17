// The channels of a step whose bytes depend on the ids of the batch, as frames of any length.

import { channels, type Exchange } from "../../exchange/exchange.ts";
import { createFrames, type FrameChannel } from "../../exchange/long-frames.ts";

const frameNames = ["ids", "rows", "staleRows", "dRows", "rowSums"] as const;

export type Frames = Readonly<Record<(typeof frameNames)[number], FrameChannel>>;

/** The frames of a device over its exchange. `isLong`: as of the topology. */
export function framesOver(exchange: Exchange, isLong: boolean): Frames {
  const { rank, devices } = exchange;
  return Object.fromEntries(
    frameNames.map((name) => {
      const options = { channel: exchange[name], what: channels[name], rank, devices, isLong };
      return [name, createFrames(options)];
    }),
  ) as Frames;
}
