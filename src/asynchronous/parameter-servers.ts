// The roles of asynchronous parameter-server training (`mode: "async"`), and their ports. It is a
// baseline for comparison with synchronous training. Its results are not reproducible (decision
// 56): weights are read while other threads change them, and rows are updated in the order in which
// gradients arrive.
//
//   sample reader ──batches──▶ trainer thread ──pull: rows──▶ sparse servers (shards of rows)
//                                  │   └─────────push: gradients of rows──────▶
//                                  └──every `everySteps` steps: dense weights──▶ dense server
//
// - A sparse server holds shards of rows. It applies the row rule when gradients arrive.
// - The threads of a trainer share one copy of the dense weights, which all of them change without
//   locks (Hogwild: Recht et al., 2011).
// - The dense server holds the center c. A trainer's weights x and the center attract each other
//   (EASGD: Zhang et al., 2015):  d = a (x - c), x <- x - d, c <- c + d.
// - Trainer n mod trainers trains batch n of the run, on one of its threads (samples.ts).

import type { OptimizerStep } from "../embedding/tables/row-rule.ts";
import type { CutPart } from "../training/checkpoint/parts.ts";
import type { Metrics, Scores } from "../training/loop/metrics.ts";

/** Rows of one shard of the job, relative to its first row, ascending, each once. */
export interface ShardRows {
  readonly shard: number;
  readonly rows: Int32Array;
}

/** Rows of a shard with a vector each (rows, columns). */
export interface ShardVectors extends ShardRows {
  readonly vectors: Float32Array;
}

/** The sender of a push, the number of its batch, and which piece of the batch's push it is. */
export interface PushId {
  readonly sender: number;
  readonly number: number;
  readonly piece: number;
}

export interface SparseCounts {
  /** Pushes applied since the server started, and since its last cut; a crash loses the latter. */
  readonly updates: number;
  readonly updatesSinceCut: number;
  /** Updates of single rows, and repeated pushes that were dropped. */
  readonly rows: number;
  readonly duplicates: number;
}

/** The rows of a server. Calls are synchronous, so that a cut never has a part of a push. */
export interface SparseServer {
  /** Reads the current weights of rows. */
  pull(wanted: readonly ShardRows[]): ShardVectors[];
  /**
   * Applies the row rule once to each row of a push. Ignores a push whose id was applied before.
   * @throws NonFiniteGradientError where a row is no longer finite
   */
  push(id: PushId, at: OptimizerStep, gradients: readonly ShardVectors[]): void;
  /** The checkpoint parts of its rows; no push may be applied until the parts are read. */
  cut(): CutPart[];
  /** Restores the rows of this server from a part of a checkpoint, as `restorePart` does. */
  restore(name: string, layers: readonly Iterable<Uint8Array>[]): Promise<void>;
  readonly counts: SparseCounts;
}

/** The center of the dense weights, flat, and the optimizer state of trainer 0. */
export interface Center {
  readonly weights: Float32Array;
  readonly slots: readonly Float32Array[];
}

/** The server of the center. */
export interface DenseServer {
  /**
   * Returns d = a (x - c) for a trainer's weights x, and adds d to the center c. A repetition of
   * the trainer's last `number` returns the same d, and changes nothing.
   */
  exchange(trainer: number, number: number, weights: Float32Array): Float32Array;
  /** Stores the optimizer state of trainer 0, for the next cut. */
  keep(slots: readonly Float32Array[]): void;
  readonly center: Center;
  /** The checkpoint part "dense": the center, with the stored optimizer state. */
  cut(): CutPart[];
  readonly exchanges: number;
}

/** A range of batches of the run; each thread trains its own batches of it. */
export interface TrainerWindow {
  readonly fromStep: number;
  readonly toStep: number;
  readonly plateau: number;
}

export interface ReachedWindow {
  /** End of the trained batches: `toStep`, or the step of a pause. */
  readonly step: number;
  readonly isPaused: boolean;
  /** Sums over the batches of this thread, to the end of this record. */
  readonly lossSum: number;
  readonly batches: number;
  readonly samples: number;
  readonly repairedIds: readonly number[];
}

/** One thread of a trainer. */
export interface Trainer {
  /** Trains the thread's batches of a window. Resolves when servers have applied all pushes. */
  run(window: TrainerWindow): Promise<ReachedWindow>;
  /** Scores held-out samples with the center's weights; creates no rows. */
  evaluate(part: "evaluation" | "test", samples: number): Promise<Scores>;
}

// Commands and reports of the threads of these roles (actors/threads/asynchronous) ----

export type TrainerCommand =
  | ({ readonly type: "run" } & TrainerWindow)
  | { readonly type: "evaluate"; readonly part: "evaluation" | "test" }
  | { readonly type: "end" };

export type TrainerReport =
  | { readonly type: "ready"; readonly arithmetic: string; readonly set: string }
  | ({ readonly type: "reached" } & ReachedWindow)
  | { readonly type: "evaluated"; readonly metrics: Metrics | null };

export type ServerCommand =
  | { readonly type: "save"; readonly cut: number }
  | { readonly type: "end" };
