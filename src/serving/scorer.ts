// The forward pass of serving, in one process: the kernels of training, in the same order, without
// the exchange between devices. Scores equal those of an evaluation bit for bit.
//
// A call is synchronous, and allocates nothing that grows with the batch except its result. `rank`
// scores many candidates for one user: values that depend only on the user are computed for one
// sample and copied to all. No bit of a sample depends on the other samples.
//
// B = samples, K = logits, T = predicted labels, C = columns of concatenated vectors.
//
// Invariants
//   P1. A call reads rows and dense parameters of one version: calls are synchronous, so nothing
//       changes them during a call.
//   P2. Within a call, the user's values are written before the candidates read them.

import assert from "node:assert/strict";
import type { EncodedBatch } from "../data/batch-rows.ts";
import type { SparseOptimizerSpec } from "../embedding/tables/options.ts";
import type { RowDecay } from "../embedding/tables/row-decay.ts";
import { rowDecayOf } from "../embedding/tables/row-decay.ts";
import type { Bags, Kernels, Rows, Tensor } from "../kernels/contract/kernels.ts";
import type { RowAverage } from "../kernels/contract/row-average.ts";
import { slicesOf } from "../kernels/contract/slices.ts";
import type { Graph, Pass } from "../model/graph/graph.ts";
import { createNetwork, type Network } from "../model/graph/network.ts";
import { predictedBy } from "../model/loss.ts";
import { graphOf } from "../model/model.ts";
import type { ModelSpec } from "../model/options.ts";
import {
  type LookupRun,
  type LookupSet,
  lookupSet,
  type ServedLookups,
  servedLookups,
} from "./lookups.ts";
import { packedKernels } from "./packed-kernels.ts";
import { BagMaker, type RowPlaces } from "./served-bags.ts";
import { type UserSide, userSideOf } from "./user-side.ts";

/** Most samples of a call: enough to use the processor fully, at a low memory cost. */
export const batchSamplesMax = 1024;

/** A table in one version of the model. */
export interface ServedTable extends RowPlaces {
  readonly rows: Rows;
}

/** The rows that a call reads. */
export interface ServedRows {
  /** The tables, in the order of the model. */
  readonly tables: readonly ServedTable[];
  /** Training steps of this version: rows with a moving average or decay depend on them. */
  readonly steps: number;
}

/** A user with candidates, and which features and dense values belong to the user. */
export interface RankedBatch {
  /** One sample with the user's features; the candidates' features may be empty. */
  readonly user: EncodedBatch;
  /** The candidates; the user's features are empty. Dense values are complete. */
  readonly candidates: EncodedBatch;
  /** By feature: whether it belongs to the user. */
  readonly isOfUser: readonly boolean[];
  /** Whether all candidates share the dense values: those of `user` are then used. */
  readonly isDenseOfUser: boolean;
}

/** The model, optimizer and kernels of a scorer. */
export interface ScorerOptions {
  readonly model: ModelSpec;
  readonly optimizer: SparseOptimizerSpec;
  /** By feature: whether its ids have weights. */
  readonly weighted: readonly boolean[];
  readonly kernels: Kernels;
}

/**
 * The rows of each lookup and each run of a set, cached because kernels recognise a list by
 * identity.
 */
interface LookedUp {
  /** Rows of the first lookup's table: the cache key. */
  readonly of: Rows;
  readonly rows: Rows[];
  readonly byRun: readonly Rows[][];
  /** For each run of lookups that share memory and pooling: one `Rows` for the whole run. */
  readonly joint: readonly (Rows[] | undefined)[];
}

export class Scorer {
  readonly graph: Graph;
  /** The lookups of a sample, and the tables that their ids are checked against. */
  readonly lookups: ServedLookups;
  readonly #kernels: Kernels;
  readonly #forget: () => void;
  readonly #network: Network;
  readonly #all: LookupSet;
  readonly #decays: readonly (RowDecay | undefined)[];
  readonly #ema: { readonly decay: number } | undefined;
  readonly #bags: BagMaker;
  readonly #ofUser: BagMaker;
  /** The rows that each set of lookups reads; rebuilt when a table's memory changes. */
  readonly #lookedUp = new WeakMap<LookupSet, LookedUp>();
  readonly #sides = new Map<string, UserSide>();
  #vectors: Tensor;

  constructor({ model, optimizer, weighted, kernels: inner }: ScorerOptions) {
    const { kernels, forget } = packedKernels(inner);
    this.#kernels = kernels;
    this.#forget = forget;
    this.graph = graphOf(model);
    const { precision } = model;
    const samplesMax = batchSamplesMax;
    this.#network = createNetwork({ kernels, graph: this.graph, precision, samplesMax, flats: [] });
    this.lookups = servedLookups(model, this.graph, weighted);
    this.#all = lookupSet(this.lookups.lookups);
    this.#decays = model.tables.map((table) => rowDecayOf(optimizer, table));
    this.#ema = optimizer.ema;
    this.#bags = new BagMaker(this.lookups);
    this.#ofUser = new BagMaker(this.lookups);
    this.#vectors = kernels.tensor([0]);
  }

  /** Copies the dense parameters, flat in the graph's layout. */
  setDense(parameters: Float32Array): void {
    this.#kernels.write(this.#network.flat, parameters);
    this.#forget();
  }

  /**
   * Scores at most `batchSamplesMax` samples. `first`: index of the first sample, for error
   * messages. Returns logits (B), or (B,T) for several labels. @throws IdOutOfRangeError naming
   * table, feature and sample
   */
  score(batch: EncodedBatch, rows: ServedRows, first = 0): Float32Array {
    const { samples } = batch;
    const { bags, lengths } = this.#bags.take(batch, this.#all, rows.tables, first);
    this.#lookUp(this.#all, bags, samples, rows);
    const pass = this.#passOf(samples, (lookup, row) => lengths[lookup * samples + row] ?? 0);
    this.#takeDense(batch);
    for (const { block } of this.#network.cells) isDone(block?.forward(pass));
    return this.#logits(samples);
  }

  /**
   * Scores candidates; the logits equal those of `score` on samples that include the user's
   * features.
   */
  rank(batch: RankedBatch, rows: ServedRows, first = 0): Float32Array {
    const { user, candidates } = batch;
    const side = this.#sideOf(batch);
    const { samples } = candidates;
    const ofUser = this.#computeUser(side, user, samples, rows, batch.isDenseOfUser);
    const own = this.#bags.take(candidates, side.others, rows.tables, first);
    this.#lookUp(side.others, own.bags, samples, rows);
    const pass = this.#passOf(samples, (lookup, row) => {
      const isOfUser = side.isLookupOfUser[lookup] === true;
      return (isOfUser ? ofUser[lookup] : own.lengths[lookup * samples + row]) ?? 0;
    });
    if (!batch.isDenseOfUser) this.#takeDense(candidates);
    for (const node of side.later) isDone(this.#network.cells[node]?.block?.forward(pass));
    return this.#logits(samples);
  }

  /**
   * Computes the user's nodes and vectors for one sample, and copies them to all samples. Returns
   * the lengths of the user's bags by lookup. P2
   */
  #computeUser(
    side: UserSide,
    user: EncodedBatch,
    samples: number,
    rows: ServedRows,
    isDenseOfUser: boolean,
  ): Int32Array {
    const { bags, lengths } = this.#ofUser.take(user, side.ofUser, rows.tables);
    const pass = this.#passOf(1, (lookup) => {
      assert(side.isLookupOfUser[lookup] === true, "a block says which lengths it reads");
      return lengths[lookup] ?? 0;
    });
    this.#lookUp(side.ofUser, bags, 1, rows);
    if (isDenseOfUser) this.#takeDense(user, samples);
    for (const node of side.early) isDone(this.#network.cells[node]?.block?.forward(pass));
    for (const { node, column, columns } of side.copied) {
      this.#copyToAll(node, column, columns, samples);
    }
    return lengths;
  }

  /** Copies columns of a node's first row to all of its rows. */
  #copyToAll(node: number, column: number, columns: number, samples: number): void {
    if (samples < 2) return;
    const kernels = this.#kernels;
    const { out } = this.#cell(node);
    const width = sizeOf(out) / (out.shape[0] ?? 1);
    const all = kernels.reshape(out, [samples, width]);
    const [one, others] = [kernels.part(all, 0, 1), kernels.part(all, 1, samples - 1)];
    kernels.expandColumns(others, column, one, column, columns, zerosOf(samples - 1));
  }

  /** Pools the rows of a set, and writes the vectors where the graph reads them. */
  #lookUp(set: LookupSet, bags: Bags<Int32Array>, samples: number, served: ServedRows): void {
    if (set.lookups.length === 0) return;
    const kernels = this.#kernels;
    const { rows, byRun, joint } = this.#rowsOf(set, served);
    const average: RowAverage | undefined = this.#ema && {
      decay: this.#ema.decay,
      steps: served.steps,
    };
    // The vectors of one sample are pooled straight into the node. With several samples, the
    // columns of a node are strided, so vectors are pooled to a buffer first.
    if (samples === 1 && set.runs.every(({ isFolded }) => !isFolded)) {
      for (const [i, run] of set.runs.entries()) {
        const { out } = this.#cell(run.node);
        const to = kernels.reshape(out, [1, run.columns], run.column);
        const own = bagsOf(run, bags);
        const one = joint[i];
        // Tables in one memory act as one table: each lookup's bag counts as a sample of it.
        if (one === undefined) kernels.pool(to, byRun[i] ?? rows, own, 0, 1, average);
        else {
          const count = run.count;
          const flat = kernels.reshape(to, [count, run.columns / count]);
          kernels.pool(flat, one, { ...own, tables: 1, samples: count }, 0, count, average);
        }
      }
    } else {
      const vectors = this.#vectorsOf(samples, set.columns);
      kernels.pool(vectors, rows, bags, 0, samples, average);
      for (const run of set.runs) this.#place(run, set, vectors, bags, samples);
    }
    for (const { table, node, column, dim } of set.lookups) {
      const decay = this.#decays[table];
      if (decay === undefined) continue;
      const to = this.#out(node, samples);
      kernels.scaleColumns(to, column, dim, decay.shareAt(served.steps));
    }
  }

  #place(
    { node, column, columns, from, first, isFolded }: LookupRun,
    set: LookupSet,
    vectors: Tensor,
    { offsets }: Bags,
    samples: number,
  ): void {
    const kernels = this.#kernels;
    const to = this.#out(node, samples);
    const lookup = set.lookups[first];
    if (!isFolded || lookup === undefined) {
      kernels.copyColumns(to, column, vectors, from, columns);
      return;
    }
    const { rowBlocks, isMean } = lookup;
    const tree = { first: 0, count: rowBlocks };
    const lengths = isMean ? lengthsIn(offsets, first * samples, samples) : undefined;
    const part = { from: vectors, first: from, tree };
    kernels.foldPooled(to, column, [part], rowBlocks, columns, lengths);
  }

  /**
   * The rows of each lookup of a set, in a list that keeps its identity as long as the memory does.
   */
  #rowsOf(set: LookupSet, { tables }: ServedRows): LookedUp {
    const of = tables[set.lookups[0]?.table ?? -1]?.rows;
    assert(of !== undefined, "a table of the first lookup");
    const known = this.#lookedUp.get(set);
    if (known?.of === of) return known;
    const rows = set.lookups.map(({ table, pooling }): Rows => {
      const own = tables[table]?.rows;
      assert(own !== undefined, "a table of each lookup");
      return { ...own, pooling };
    });
    const byRun = set.runs.map(({ first, count }) => rows.slice(first, first + count));
    const joint = byRun.map((own) => {
      const [first] = own;
      const isJoint = (one: Rows) =>
        one.touched === first?.touched && one.pooling === first.pooling;
      return first !== undefined && own.length > 1 && own.every(isJoint) ? [first] : undefined;
    });
    const made = { of, rows, byRun, joint };
    this.#lookedUp.set(set, made);
    return made;
  }

  #sideOf({ isOfUser, isDenseOfUser }: RankedBatch): UserSide {
    const key = `${isDenseOfUser} ${isOfUser.map(Number).join("")}`;
    const known = this.#sides.get(key);
    if (known !== undefined) return known;
    const side = userSideOf(this.graph, this.lookups, isOfUser, isDenseOfUser);
    if (this.#sides.size >= sidesMax) this.#sides.clear();
    this.#sides.set(key, side);
    return side;
  }

  #passOf(samples: number, lengthAt: Pass["lengthAt"]): Pass {
    return {
      ...{ samples, lengthAt, groups: [], draw: undefined, batch: undefined },
      slices: slicesOf(0, 1, 1, samples),
    };
  }

  /** Sets the dense features. `samples`: rows to allocate, of which the first is written. */
  #takeDense({ dense, samples: own }: EncodedBatch, samples = own): void {
    const at = this.graph.dense?.node;
    if (at === undefined) return;
    const kernels = this.#kernels;
    const width = dense.length / own;
    const cell = this.#cell(at);
    if (samples === own) {
      cell.out = kernels.view(dense.buffer, dense.byteOffset, [own, width]);
      return;
    }
    cell.out = kernels.tensor([samples, width]);
    kernels.write(kernels.part(cell.out, 0, 1), dense);
  }

  #logits(samples: number): Float32Array {
    const logits = this.#kernels.read(this.#out(this.graph.output.node, samples));
    return predictedBy(this.graph, logits);
  }

  #vectorsOf(samples: number, columns: number): Tensor {
    const kernels = this.#kernels;
    if (sizeOf(this.#vectors) < samples * columns) {
      this.#vectors = kernels.tensor([samples * columns]);
    }
    return kernels.reshape(this.#vectors, [samples, columns]);
  }

  #out(node: number, samples: number): Tensor {
    return this.#kernels.part(this.#cell(node).out, 0, samples);
  }

  #cell(node: number) {
    const cell = this.#network.cells[node];
    assert(cell !== undefined, "a node of the graph");
    return cell;
  }
}

/** Most cached divisions of features between user and candidates: a caller has few. */
const sidesMax = 64;

/** The bags of a run of lookups. */
function bagsOf({ first, count }: LookupRun, bags: Bags<Int32Array>): Bags<Int32Array> {
  const { samples, tables } = bags;
  if (count === tables) return bags;
  const offsets = bags.offsets.subarray(first * samples, (first + count) * samples + 1);
  return { ...bags, tables: count, offsets };
}

function lengthsIn(offsets: Int32Array, first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => {
    return (offsets[first + i + 1] ?? 0) - (offsets[first + i] ?? 0);
  });
}

function sizeOf({ shape }: Tensor): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

let zeros = new Int32Array(0);

function zerosOf(count: number): Int32Array {
  if (zeros.length < count) zeros = new Int32Array(count);
  return zeros.subarray(0, count);
}

/** Asserts that a block ran synchronously: without other devices, no block has to wait. */
function isDone(waiting: Promise<void> | undefined | void): void {
  assert(waiting === undefined, "a block waits for other devices in an evaluation");
}
