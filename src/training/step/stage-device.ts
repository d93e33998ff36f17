// The parts of a device that every stage of a step uses. Each stage declares the further parts that
// it needs in its own interface, so that a reader of one stage need not know the memory of others.
// Only device-state.ts has all parts. The interfaces cost nothing at run time: every stage gets the
// same device object.

import type { Exchange } from "../../exchange/exchange.ts";
import type { Topology } from "../topology/topology.ts";
import type { Frames } from "./frames.ts";

/**
 * `Channel`: the channels of the exchange that the stage opens and closes; `Frame`: those that it
 * uses through frames of any length.
 */
export interface StageDevice<
  Channel extends keyof Exchange = never,
  Frame extends keyof Frames = never,
> {
  readonly rank: number;
  /** Shared by all devices of the generation; never changes. */
  readonly topology: Topology;
  readonly exchange: Pick<Exchange, Channel>;
  readonly frames: Pick<Frames, Frame>;
}
