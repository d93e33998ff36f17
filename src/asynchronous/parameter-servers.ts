// The roles of asynchronous parameter-server training (`mode: "async"`), the baseline that
// synchronous training replaced, and their ports. It promises no bits (decision 56): weights are
// read while others change them, and rows are updated in the order in which gradients arrive.
//
//   sample reader ──batches──▶ trainer thread ──pull: rows──▶ sparse servers (shards of rows)
//                                  │   └─────────push: gradients of rows──────▶
//                                  └──every `everySteps` steps: dense weights──▶ dense server
//
// - A sparse server holds shards of rows. It applies the row rule when gradients arrive.
// - The threads of a trainer share one copy of the dense weights, which all of them change without
//   locks (Hogwild: Recht et al., 2011).
// - The dense server holds the center, to which trainers are drawn, and it to them (EASGD: Zhang et
//   al., 2015):  d = a (x - c), x <- x - d, c <- c + d.
// - Batch n of the run's order belongs to trainer n mod trainers, there to one thread (samples.ts).

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
  /** Pushes applied since the server started, and since its last cut: lost if it ends now. */
  readonly updates: number;
  readonly updatesSinceCut: number;
  /** Rows updated, and pushes that had been applied before. */
  readonly rows: number;
  readonly duplicates: number;
}

/** The rows of a server. All calls are synchronous: a cut between two calls has whole updates. */
export interface SparseServer {
  /** The current weights of rows; changes nothing. */
  pull(wanted: readonly ShardRows[]): ShardVectors[];
  /**
   * Applies the row rule at a step once to each row; a push with a known id is dropped.
   * @throws NonFiniteGradientError where a row is no longer finite
   */
  push(id: PushId, at: OptimizerStep, gradients: readonly ShardVectors[]): void;
  /** The parts of its rows with their state; no push may arrive until they are read. */
  cut(): CutPart[];
  /** Restores a part of a checkpoint, if it has rows of this server. As `restorePart`. */
  restore(name: string, layers: readonly Iterable<Uint8Array>[]): Promise<void>;
  readonly counts: SparseCounts;
}

/** The dense weights that trainers meet at: flat, and the optimizer state of trainer 0. */
export interface Center {
  readonly weights: Float32Array;
  readonly slots: readonly Float32Array[];
}

/** The center of dense weights. */
export interface DenseServer {
  /**
   * d = a (x - c) for a trainer's weights; adds d to the center. If the number is that of the
   * trainer's last exchange, it gets the same answer again.
   */
  exchange(trainer: number, number: number, weights: Float32Array): Float32Array;
  /** Keeps the optimizer state of trainer 0 for the next cut. */
  keep(slots: readonly Float32Array[]): void;
  readonly center: Center;
  /** The part "dense": the center, with the kept state. */
  cut(): CutPart[];
  readonly exchanges: number;
}

/** A window of batches of the run, of which a thread trains its own. */
export interface TrainerWindow {
  readonly fromStep: number;
  readonly toStep: number;
  readonly plateau: number;
}

export interface ReachedWindow {
  /** The batches of the run before this one are trained: `toStep`, or where a pause ended it. */
  readonly step: number;
  readonly isPaused: boolean;
  /** Of this thread. */
  readonly lossSum: number;
  readonly batches: number;
  readonly samples: number;
  readonly repairedIds: readonly number[];
}

/** One thread of a trainer. */
export interface Trainer {
  /** Trains the thread's batches of a window. All its pushes are applied when it resolves. */
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
