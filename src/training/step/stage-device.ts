// A device as every stage of a step sees it. Each stage adds what else it needs of the device in an
// interface of its own, so that a reader of one stage need not know the others' memory. Only
// device-state.ts knows all of it. The interfaces cost nothing: every stage is handed the one
// object of the device.

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
