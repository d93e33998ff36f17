// The exchange's contract: the collectives of one step, in split phases, over whatever connects the
// devices of a generation. Each collective is a channel with at most one round in flight:
//
//   open ──▶ write the outbox ──▶ start ──▶ … compute … ──▶ finish ──▶ read the inbox ──▶ close
//
// All participants open the same rounds in the same order. Every wait has a name and the step's
// deadline (law 5); a missing peer becomes a StepTimeoutError that names it.

import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";
import type { Subtree } from "../kernels/contract/slices.ts";

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
  /** Whether `open` would not have to wait. */
  isFree(): boolean;
  /** Where to write the part for device `to`; valid from `open` to `start`. */
  outbox(to: number): Region;
  /** Sends all parts: of each the first `used` bytes; left out, all. */
  start(used?: (to: number) => number): void;
  /** The parts of all devices, side by side in rank order; valid until `close`. */
  finish(): Promise<Region>;
  /** Whether `finish` would not have to wait. */
  isThere(): boolean;
  /** Gives the inbox back to the senders. */
  close(): void;
}

/**
 * Everybody tells everybody the same. A part lies once in each host's memory and travels once to
 * each other host, however many devices read it.
 */
export interface AllGather {
  /**
   * Begins a round, once everybody has closed the one before. `bytes` has for each sender the same
   * to all. Nobody waits for a sender of none: with one sender (`broadcastOf`) it is a broadcast.
   */
  open(bytes: PartBytes): Promise<void>;
  /** Where to write my part; valid from `open` to `start`. */
  outbox(): Region;
  start(): void;
  /** The parts of all devices, mine too, side by side in rank order; valid until `close`. */
  finish(): Promise<Region>;
  close(): void;
}

/** Bytes of an all-gather in which only `root` has something to say: a broadcast. */
export function broadcastOf(root: number, bytes: number): PartBytes {
  return (from) => (from === root ? bytes : 0);
}

/**
 * A sum over the slices of all devices, in the order of the slice tree: a reduce-scatter, after
 * which each device has a range of it, and an all-gather of the ranges.
 */
export interface AllReduce {
  /** Begins a round, once everybody has closed the one before. */
  open(): Promise<void>;
  /** My finished subtrees, each (n), to be written between `open` and `start`. */
  readonly subtrees: readonly Tensor[];
  /** The elements of the sum that this device adds up. */
  readonly range: Elements;
  start(): void;
  /**
   * Ends the round as a reduce-scatter: my range of the sum, valid until a barrier, which must come
   * before the next round.
   */
  scatter(): Promise<Tensor>;
  /** The sum (n), the same on every device; valid until `close`. */
  finish(): Promise<Tensor>;
  close(): void;
}

/** Some elements of a vector, in a row. */
export interface Elements {
  readonly first: number;
  readonly count: number;
}

/** The all-to-alls and all-gathers of an exchange, and what travels on each, as errors name it. */
export const channels = {
  /** Ids and bag lengths, from the slices' devices to the rows' devices. */
  ids: "the ids",
  /** Parts of pooled embeddings, to the device of the same host that adds them up for others. */
  partials: "the partial sums",
  /** Those of tables that a step reads one update late. */
  stalePartials: "the stale partial sums",
  /** What is left of bags of dynamic ids, back to the slices' devices, where these take means. */
  bagLengths: "the lengths of bags",
  /** Pooled embeddings, back to the slices' devices. */
  pooled: "the pooled embeddings",
  /** Those of tables that a step reads one update late. */
  stalePooled: "the stale pooled embeddings",
  /** Gradients of pooled embeddings, to the rows' devices. */
  dPooled: "the gradients of pooled embeddings",
  /** Those that one device of a host took for several, to each of these. */
  dPartials: "the gradients of partial sums",
  /** Distinct rows of tables with `dedup`, to the slices' devices. */
  rows: "the distinct rows",
  /** Those of tables that a step reads one update late. */
  staleRows: "the stale distinct rows",
  /** Sums of their gradients, back to the rows' devices. */
  dRows: "the gradients of distinct rows",
  /** Sums of squares of rows that lie in columns on several devices, to each of those. */
  rowSums: "the sums of rows in columns",
  /** Sums of losses of the slices, to all. */
  losses: "the losses",
  /** Logits and labels of an evaluation's batch, to device 0. */
  scores: "the scores",
} as const;

export type ChannelName = keyof typeof channels;

export const channelNames = Object.keys(channels) as readonly ChannelName[];

/** The all-gathers among the channels. */
export type GatherName = "losses";
export type AllToAllName = Exclude<ChannelName, GatherName>;

export function isGather(name: ChannelName): name is GatherName {
  return name === "losses";
}

export const allToAllNames = channelNames.filter((name) => !isGather(name));

/** Channels between devices of one host: those of others send nothing there and wait for nobody. */
export const insideHost: ReadonlySet<ChannelName> = new Set([
  "partials",
  "stalePartials",
  "dPartials",
] as const);

/** What one device of a generation exchanges with the others in a step. */
export interface Exchange extends Readonly<Record<AllToAllName, AllToAll>> {
  readonly rank: number;
  readonly devices: number;
  readonly losses: AllGather;
  /** Dense gradients. */
  readonly gradients: AllReduce;
  /** Resolves when every device of the generation has called it as often as this one. */
  barrier(): Promise<void>;
  /** Bytes that this device has sent so far. */
  readonly sent: Readonly<Record<ChannelName | "gradients", SentBytes>>;
}

/** Bytes that a device has sent to others, by the way they take. */
export interface SentBytes {
  /** Left in memory for devices of the same host. */
  shared: number;
  /** Handed to the bridge for devices of other hosts. */
  wire: number;
}

/** What an exchange must have room for; equal on every device of a generation. */
export interface ExchangeShape {
  readonly devices: number;
  /** Host of each device; devices of one host have ranks in a row. Left out: all on one. */
  readonly hostOf?: readonly number[];
  /** Largest rounds, in bytes, of the channels. */
  readonly bytesMax: Readonly<Record<ChannelName, PartBytes>>;
  /** Length n of the dense gradient. */
  readonly gradientLength: number;
  /** Finished subtrees of each device. */
  readonly subtrees: readonly (readonly Subtree[])[];
  readonly slices: number;
}

/** What an exchange needs besides memory: the arithmetic of its sums. */
export type ExchangeKernels = Pick<Kernels, "view" | "foldSubtrees">;
