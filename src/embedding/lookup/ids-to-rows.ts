// Turns ids into rows of their tables, once, on the device with the samples. Every later stage
// works on rows, which fit 32 bits. Dynamic ids stay ids: only the device with their rows can
// resolve them (shard-ids.ts).
//
// b = samples of the device, N = ids of all its bags.

import assert from "node:assert/strict";
import { mix32, mix64Low, mix64Modulo } from "../../data/murmur-hash.ts";
import { FrameCorruptError, IdOutOfRangeError } from "../../errors/errors.ts";
import { blockOf } from "../dynamic-ids/shard-ids.ts";
import type { BagTable, SampleRows } from "./sample-rows.ts";
import { SequenceMemory } from "./sequences.ts";

/** The ids of one device: all features, for its own samples. */
export interface LocalIds {
  readonly samples: number;
  /** (features, b) */
  readonly lengths: Int32Array;
  /** (N), feature-major. */
  readonly ids: Int32Array;
  /** (N): upper halves, read for features with 64-bit ids only; required where there are such. */
  readonly highs?: Int32Array | undefined;
  /** (N): weights, read for features with weights only; required where a feature has them. */
  readonly weights?: Float32Array | undefined;
}

/** Grow-only memory for rows, so that a steady step allocates nothing that grows with the batch. */
export class LocalRows {
  #rows = new Int32Array(0);
  #blocks = new Uint8Array(0);
  readonly #sequences = new SequenceMemory();
  readonly #repaired = new Map<string, number>();

  /** Ids clamped or hashed so far, by table; tables without any are left out. */
  get repaired(): ReadonlyMap<string, number> {
    return this.#repaired;
  }

  /**
   * Maps the ids of a batch to rows. The result is valid until the next call; where every feature
   * is pooled, its lengths and weights are the batch's own arrays. `tables`: the table of each
   * feature. `firstSample`: the first sample's index in the whole batch. `firstWith`: the first
   * sample that has the bag at a given place; left out, bag i is that of sample i.
   * @throws IdOutOfRangeError naming table, feature and sample
   * @throws FrameCorruptError where lengths and ids disagree
   */
  take(
    local: LocalIds,
    tables: readonly BagTable[],
    firstSample: number,
    firstWith: (feature: number, place: number) => number = (_, place) => place,
  ): SampleRows {
    const { samples, lengths, ids, highs, weights } = local;
    const starts = featureStarts(local, tables.length);
    const total = starts[tables.length] ?? 0;
    if (total > ids.length) {
      throw new FrameCorruptError("ids", `lengths of ${total} ids, ${ids.length} ids`);
    }
    if (this.#rows.length < total) this.#rows = new Int32Array(total + (total >> 1));
    const rows = this.#rows.subarray(0, total);
    rows.set(total === ids.length ? ids : ids.subarray(0, total));
    const isDynamic = tables.some(({ dynamic }) => dynamic !== undefined);
    if (isDynamic && this.#blocks.length < total) {
      this.#blocks = new Uint8Array(total + (total >> 1));
    }
    for (let feature = 0; feature < tables.length; feature++) {
      const table = tables[feature] as BagTable;
      assert(table.idBits === 32 || highs !== undefined, "upper halves for a wide feature");
      assert(
        table.isWeighted !== true || weights !== undefined,
        "weights where a feature has them",
      );
      const place = { first: starts[feature] ?? 0, end: starts[feature + 1] ?? 0 };
      const upper = table.idBits === 64 ? highs : undefined;
      if (table.dynamic !== undefined) {
        assert(upper !== undefined, "dynamic ids have 64 bits");
        findBlocks(this.#blocks, rows, place, upper, table.rowBlocks ?? 1);
        continue;
      }
      const repaired = repairIds(rows, place, upper, table, (id, at) => {
        const bag = sampleOf(local, feature, at - place.first);
        const sample = firstSample + firstWith(feature, bag);
        return new IdOutOfRangeError({ ...table, feature, table: table.name, sample, id });
      });
      if (repaired > 0) {
        this.#repaired.set(table.name, (this.#repaired.get(table.name) ?? 0) + repaired);
      }
    }
    const taken = { samples, lengths, rows, starts, weights };
    const all = isDynamic ? { ...taken, highs, blocks: this.#blocks } : taken;
    return this.#sequences.byPosition(all, tables);
  }
}

/** (features + 1): where the ids of each feature begin. @throws FrameCorruptError */
function featureStarts(local: LocalIds, features: number): Int32Array {
  const starts = new Int32Array(features + 1);
  let total = 0;
  for (let feature = 0; feature < features; feature++) {
    starts[feature] = total;
    const end = (feature + 1) * local.samples;
    for (let i = feature * local.samples; i < end; i++) {
      const length = local.lengths[i] ?? 0;
      if (length < 0) throw new FrameCorruptError("ids", `a bag of ${length} ids`);
      total += length;
    }
  }
  starts[features] = total;
  return starts;
}

/** Finds the row blocks of the dynamic ids at `first`..`end`-1. */
function findBlocks(
  blocks: Uint8Array,
  lows: Int32Array,
  { first, end }: { first: number; end: number },
  highs: Int32Array,
  rowBlocks: number,
): void {
  for (let i = first; i < end; i++) {
    blocks[i] = rowBlocks === 1 ? 0 : blockOf(mix64Low(lows[i] ?? 0, highs[i] ?? 0), rowBlocks);
  }
}

/**
 * Turns the ids at `first`..`end`-1 into rows: applies the table's policy to ids outside the table,
 * and returns the number of repaired ids. `highs`: upper halves of 64-bit ids, at the same indices.
 */
function repairIds(
  ids: Int32Array,
  { first, end }: { first: number; end: number },
  highs: Int32Array | undefined,
  { rows, ids: policy }: BagTable,
  refusal: (id: number | bigint, at: number) => IdOutOfRangeError,
): number {
  let repaired = 0;
  for (let i = first; i < end; i++) {
    const id = ids[i] ?? -1;
    if (id >= 0 && id < rows && (highs === undefined || highs[i] === 0)) continue;
    const high = highs === undefined ? id >> 31 : (highs[i] ?? -1);
    if (policy === "reject") throw refusal(highs === undefined ? id : wholeId(id, high), i);
    if (policy === "clamp") ids[i] = high < 0 ? 0 : rows - 1;
    else ids[i] = highs === undefined ? mix32(id) % rows : mix64Modulo(id, high, rows);
    repaired++;
  }
  return repaired;
}

/** The 64-bit id with these halves. */
export function wholeId(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low >>> 0);
}

/** The sample whose bag contains the feature's id number `at`. */
function sampleOf({ samples, lengths }: LocalIds, feature: number, at: number): number {
  let left = at;
  let sample = 0;
  while (sample < samples - 1 && left >= (lengths[feature * samples + sample] ?? 0)) {
    left -= lengths[feature * samples + sample] ?? 0;
    sample++;
  }
  return sample;
}
