// The exchange's contract: the collectives of one step, in split phases, over whatever connects the
// devices of a generation. Each collective is a channel with at most one round in flight:
//
//   open ──▶ write the outbox ──▶ start ──▶ … compute … ──▶ finish ──▶ read the inbox ──▶ close
//
// All participants open the same rounds in the same order. Every wait has a name and the step's
// deadline (law 5); a missing peer becomes a StepTimeoutError that names it.

import type { Kernels, Tensor } from "../kernels/kernels.ts";
import type { Subtree } from "../kernels/slices.ts";

/** A stretch of memory that an exchange owns; tensors are made over it by `kernels.view`. */
export interface Region {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** Bytes that `from` sends to `to` in a round: the same function on every device. */
export type PartBytes = (from: number, to: number) => number;

/** Everybody sends a part to everybody. */
export interface AllToAll {
  /** Begins a round, once the receivers have closed the one before. */
  open(bytes: PartBytes): Promise<void>;
  /** Where to write the part for device `to`; valid from `open` to `start`. */
  outbox(to: number): Region;
  /** Sends all parts. */
  start(): void;
  /** The parts of all devices, side by side in rank order; valid until `close`. */
  finish(): Promise<Region>;
  /** Gives the inbox back to the senders. */
  close(): void;
}

/** A sum over the slices of all devices, in the order of the slice tree. */
export interface AllReduce {
  /** Begins a round, once everybody has closed the one before. */
  open(): Promise<void>;
  /** My finished subtrees, each (n), to be written between `open` and `start`. */
  readonly subtrees: readonly Tensor[];
  start(): void;
  /** The sum (n), the same on every device; valid until `close`. */
  finish(): Promise<Tensor>;
  close(): void;
}

/** What one device of a generation exchanges with the others in a step. */
export interface Exchange {
  readonly rank: number;
  readonly devices: number;
  /** Ids and bag lengths, from the slices' devices to the rows' devices. */
  readonly ids: AllToAll;
  /** Pooled embeddings, back to the slices' devices. */
  readonly pooled: AllToAll;
  /** Gradients of pooled embeddings, to the rows' devices. */
  readonly dPooled: AllToAll;
  /** Sums of losses of the slices, to all. */
  readonly losses: AllToAll;
  /** Logits and labels of an evaluation's batch, to device 0. */
  readonly scores: AllToAll;
  /** Dense gradients. */
  readonly gradients: AllReduce;
}

/** What an exchange must have room for; equal on every device of a generation. */
export interface ExchangeShape {
  readonly devices: number;
  /** Largest rounds, in bytes, of the all-to-alls. */
  readonly bytesMax: Readonly<
    Record<"ids" | "pooled" | "dPooled" | "losses" | "scores", PartBytes>
  >;
  /** Length n of the dense gradient. */
  readonly gradientLength: number;
  /** Finished subtrees of each device. */
  readonly subtrees: readonly (readonly Subtree[])[];
  readonly slices: number;
}

/** What an exchange needs besides memory: the arithmetic of its sums. */
export type ExchangeKernels = Pick<Kernels, "view" | "foldSubtrees">;
