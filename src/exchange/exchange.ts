// The contract of the exchange: the collectives of one step, in split phases, over any connection
// between the devices of a generation. Each collective is a channel with at most one round in
// flight:
//
//   open ──▶ write the outbox ──▶ start ──▶ … compute … ──▶ finish ──▶ read the inbox ──▶ close
//
// All participants open the same rounds in the same order. Every wait has a name and the step's
// deadline (law 5); a missing peer becomes a StepTimeoutError that names it.

import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";
import type { Subtree } from "../kernels/contract/slices.ts";

/** A range of memory that an exchange owns; `kernels.view` makes tensors over it. */
export interface Region {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** A range of bytes in a host's exchange memory. */
export interface Extent {
  readonly first: number;
  readonly bytes: number;
}

/** Bytes that `from` sends to `to` in a round. Must return the same on every device. */
export type PartBytes = (from: number, to: number) => number;

/** Each device sends a part to each device. */
export interface AllToAll {
  /** Begins a round, once the receivers have closed the round before. */
  open(bytes: PartBytes): Promise<void>;
  /** Whether `open` would resolve without waiting. */
  isFree(): boolean;
  /** Where to write the part for device `to`. Valid from `open` to `start`. */
  outbox(to: number): Region;
  /**
   * Sends the first `bytes` bytes of the part for device `to`, which are already written, before
   * `start`. `total`: bytes of the part that `start` will send. Small parts wait for `start`, so
   * that several share a frame.
   */
  sendAhead(to: number, bytes: number, total: number): void;
  /** Sends all parts. `used`: how many leading bytes of each part to send; left out: all. */
  start(used?: (to: number) => number): void;
  /** The parts of all devices, contiguous, in rank order; valid until `close`. */
  finish(): Promise<Region>;
  /** Whether `finish` would resolve without waiting. */
  isThere(): boolean;
  /**
   * Releases the inbox to the senders. The bridge reports it to other hosts with its next frame,
   * which a step sends soon; with `isUrgent` at once, because those senders wait for it.
   */
  close(isUrgent?: boolean): void;
}

/**
 * Each device sends the same part to all devices. A part is stored once in each host's memory and
 * is sent once to each other host, however many devices read it.
 */
export interface AllGather {
  /**
   * Begins a round, once all devices have closed the round before. For each sender, `bytes` must be
   * equal for all receivers. `finish` does not wait for senders of 0 bytes: with one sender
   * (`broadcastOf`) the round is a broadcast.
   */
  open(bytes: PartBytes): Promise<void>;
  /** Where to write this device's part. Valid from `open` to `start`. */
  outbox(): Region;
  start(): void;
  /** The parts of all devices, including this one, in rank order. Valid until `close`. */
  finish(): Promise<Region>;
  /** See `AllToAll.close`. */
  close(isUrgent?: boolean): void;
}

/** Bytes of an all-gather in which only `root` sends: a broadcast. */
export function broadcastOf(root: number, bytes: number): PartBytes {
  return (from) => (from === root ? bytes : 0);
}

/**
 * A sum over the slices of all devices, in the order of the slice tree: a reduce-scatter, after
 * which each device has one range of the sum, and an all-gather of the ranges.
 */
export interface AllReduce {
  /**
   * The part of this device's sums that was not sent; the next round adds it (top-k-all-reduce.ts).
   */
  readonly residuals: readonly Residual[];
  /** Begins a round, once all devices have closed the round before. */
  open(): Promise<void>;
  /**
   * This device's finished subtrees, each (n), to be written between `open` and `start`. Where
   * gradients are rounded, further ones have the rounded elements only.
   */
  readonly subtrees: readonly Tensor[];
  /** The elements of the sum that this device folds: a range of each bucket. */
  readonly ranges: readonly Elements[];
  /** Sends the first `buckets` buckets, whose elements are written; left out: all. */
  start(buckets?: number): void;
  /** Folds and sends what other devices have made ready. Never waits; a step calls it often. */
  progress(): void;
  /**
   * Ends the round as a reduce-scatter, if there was no `progress`. Returns this device's ranges of
   * the sum, valid until a barrier, which must come before the next round.
   */
  scatter(): Promise<readonly Tensor[]>;
  /** The sum (n), the same on every device; valid until `close`. */
  finish(): Promise<Tensor>;
  close(): void;
}

/** The part of a group's sum that was not sent, over one range of elements. */
export interface Residual {
  /** The slice whose device keeps it. */
  readonly slice: number;
  readonly values: Tensor;
}

/** Consecutive elements of a vector. */
export interface Elements {
  readonly first: number;
  readonly count: number;
}

/** The all-to-alls and all-gathers of an exchange, with the names of their contents in errors. */
export const channels = {
  /** Input dist: ids and bag lengths, from the slices' devices to the rows' devices. */
  ids: "the ids",
  /**
   * Host reduce: partial sums of pooled embeddings, to the device of the same host that sums them
   * for devices of other hosts.
   */
  partials: "the partial sums",
  /** Partial sums of tables that a step reads one update late. */
  stalePartials: "the stale partial sums",
  /** For bags of dynamic ids: the number of ids with a row, to the slices' devices, for means. */
  bagLengths: "the lengths of bags",
  /** Output dist: pooled embeddings, back to the slices' devices. */
  pooled: "the pooled embeddings",
  /** Pooled embeddings of tables that a step reads one update late. */
  stalePooled: "the stale pooled embeddings",
  /**
   * Pooled embeddings and rows that were read ahead and then changed by the previous step's update.
   */
  deferred: "the deferred embeddings",
  /** Gradients of pooled embeddings, to the rows' devices. */
  dPooled: "the gradients of pooled embeddings",
  /** Gradients that one device of a host received for several devices, to each of these. */
  dPartials: "the gradients of partial sums",
  /** Dedup dist: distinct rows of tables with `dedup`, to the slices' devices. */
  rows: "the distinct rows",
  /** Distinct rows of tables that a step reads one update late. */
  staleRows: "the stale distinct rows",
  /** Sums of the gradients of distinct rows, back to the rows' devices. */
  dRows: "the gradients of distinct rows",
  /** Sums of squares of rows with columns on several devices, to each of these devices. */
  rowSums: "the sums of rows in columns",
  /** Sums over samples that batch normalisation needs in mid-step, to all devices. */
  statistics: "the sums of batch normalisation",
  /** Sums of losses of the slices, to all devices. */
  losses: "the losses",
  /** Logits and labels of an evaluation's batch, to device 0. */
  scores: "the scores",
} as const;

export type ChannelName = keyof typeof channels;

export const channelNames = Object.keys(channels) as readonly ChannelName[];

/** The all-gathers among the channels. */
export type GatherName = "losses" | "statistics";
export type AllToAllName = Exclude<ChannelName, GatherName>;

/** All-to-alls with parts that are large and take long to write: they may leave piece by piece. */
export const leavesAhead: ReadonlySet<ChannelName> = new Set([
  "pooled",
  "stalePooled",
  "dPooled",
] as const);

export function isGather(name: ChannelName): name is GatherName {
  return name === "losses" || name === "statistics";
}

export const allToAllNames = channelNames.filter((name) => !isGather(name));

/** Channels inside a host: their parts do not cross hosts, and no device waits for another host. */
export const insideHost: ReadonlySet<ChannelName> = new Set([
  "partials",
  "stalePartials",
  "dPartials",
] as const);

/** The exchange of one device with the other devices of its generation. */
export interface Exchange extends Readonly<Record<AllToAllName, AllToAll>> {
  readonly rank: number;
  readonly devices: number;
  readonly losses: AllGather;
  readonly statistics: AllGather;
  /** The all-reduce of dense gradients. */
  readonly gradients: AllReduce;
  /** Resolves when every device of the generation has called `barrier` as often as this one. */
  barrier(): Promise<void>;
  /** Bytes that this device has sent so far. */
  readonly sent: Readonly<Record<ChannelName | "gradients", SentBytes>>;
}

/** Bytes that a device has sent to others, by path. */
export interface SentBytes {
  /** Written to memory for devices of the same host. */
  shared: number;
  /** Handed to the bridge for devices of other hosts. */
  wire: number;
}

/**
 * Rounding of dense gradients, which sends them in half the bytes. Each node of the slice tree with
 * at least `grain` slices is rounded, whether or not it leaves its device, so that no bit depends
 * on devices and hosts. Nodes with fewer slices are float32, also between hosts.
 */
export interface GradientRounding {
  readonly precision: "float16" | "bfloat16";
  /** A power of two. */
  readonly grain: number;
  /** How many of the first elements are rounded. No bucket crosses their end. */
  readonly elements: number;
}

/** The sizes of an exchange; equal on every device of a generation. */
export interface ExchangeShape {
  readonly devices: number;
  /** Host of each device; devices of one host have consecutive ranks. Left out: all on one host. */
  readonly hostOf?: readonly number[];
  /** Bytes of the largest round of each channel. */
  readonly bytesMax: Readonly<Record<ChannelName, PartBytes>>;
  /** Length n of the dense gradient. */
  readonly gradientLength: number;
  /**
   * Buckets of the dense gradient, in the order in which they are ready: together all its elements.
   * Each is sent on its own. Left out: one.
   */
  readonly buckets?: readonly Elements[];
  /** Left out: dense gradients are sent in float32. */
  readonly rounding?: GradientRounding | undefined;
  /** Finished subtrees of each device. Those of rounded elements are cut into grains. */
  readonly subtrees: readonly (readonly Subtree[])[];
  readonly slices: number;
  /** Left out: all elements of the dense gradient are sent. */
  readonly topK?: TopKShape | undefined;
}

/** Elements of the dense gradient of which only the largest are sent (top-k-layout.ts). */
export interface TopKShape {
  /** How many of the first elements. */
  readonly length: number;
  /** The share of them that is sent of each group's sum. */
  readonly share: number;
  /** Groups of slices, a power of two. No finished subtree crosses groups. */
  readonly groups: number;
}

/** The kernels that an exchange needs for its sums. */
export type ExchangeKernels = Pick<
  Kernels,
  | "addSelected"
  | "fill"
  | "foldPooled"
  | "foldSubtrees"
  | "packColumns"
  | "part"
  | "recorded"
  | "reshape"
  | "selectLargest"
  | "tensor"
  | "unpackColumns"
  | "view"
>;
