// Copies samples from the blocks of a cache into the memory of a batch. First their records are
// gathered back to back; then labels, dense features and bags are copied out, and bags become
// feature-major. The addon does the same, faster (native/ingest/batches.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import type { BatchMemory } from "../dataset.ts";
import { oneLabel, targetWords } from "../targets.ts";
import { type BlockShape, sampleHeadWords } from "./cache-format.ts";
import { layoutOf, unfold } from "./folded-records.ts";

/** The records of a batch's samples, back to back. */
export interface BatchRecords {
  readonly words: Int32Array;
  /** (B + 1): first word of each record, then the end of the last record. */
  readonly starts: Int32Array;
}

/** Copies samples of one block shape. */
export interface BatchCopier {
  /**
   * Copies records first .. end-1. Record i starts in `words` at word froms[i]; a folded record
   * (folded-records.ts) starts at ~froms[i] and is unfolded.
   */
  gather(out: BatchRecords, words: Int32Array, froms: Int32Array, first: number, end: number): void;
  /**
   * Copies the labels, dense features and bags of B records. Returns the number of ids; if `batch`
   * is too small for them, the ids are copied incompletely.
   */
  copy(batch: BatchMemory, records: BatchRecords, B: number): number;
}

/** The fastest available copier: the addon's if it is built, otherwise `copierOf`. */
export function batchCopier(
  shape: BlockShape,
  addon: Addon | undefined = loadAddon(),
): BatchCopier {
  if (addon === undefined) return copierOf(shape);
  const { copyRecords: gather, copyBatch: copy } = addon;
  const { kinds, headWords } = layoutOf(shape);
  const { labels } = shape.targets ?? oneLabel;
  const denseAt = targetWords(shape.targets ?? oneLabel);
  return {
    gather({ words: out, starts }, words, froms, first, end) {
      // The addon checks array types and offsets in `words` only; these assertions cover the rest,
      // so that it never touches memory outside the arrays.
      assert(out.length >= (starts[end] ?? Infinity), "room for the records");
      for (let i = first; i < end; i++) {
        const at = froms[i] ?? 0;
        const from = at < 0 ? ~at : at;
        const size = (starts[i + 1] ?? 0) - (starts[i] ?? 0);
        assert(size >= headWords && from + headWords <= words.length, "a whole record");
      }
      const own = [out, starts.subarray(first, end + 1), words, froms.subarray(first, end)];
      assert(gather(...own, headWords, kinds) === 1, "whole records");
    },
    copy({ labels: to, dense, lengths, ids, highs, weights }, { words, starts }, B) {
      assert(starts.length > B && words.length >= (starts[B] ?? 0), "B records");
      assert(to.length >= B * labels && dense.length >= B * shape.dense, "room for B samples");
      assert(lengths.length >= B * shape.features, "room for the lengths of bags");
      const room = Math.min(ids.length, (highs ?? ids).length, (weights ?? ids).length);
      const places = [labels, denseAt, shape.dense, headWords];
      const own = [to, dense, lengths, ids, highs, weights, room];
      const count = copy(...own, words, starts.subarray(0, B + 1), kinds, ...places);
      assert(typeof count === "number" && count >= 0, "bags as long as their samples");
      return count;
    },
  };
}

/** The reference copier, in TypeScript, which defines the results. */
export function copierOf(shape: BlockShape): BatchCopier {
  const layout = layoutOf(shape);
  return {
    gather({ words: out, starts }, words, froms, first, end) {
      for (let i = first; i < end; i++) {
        let from = froms[i] ?? 0;
        if (from < 0) {
          unfold(out, starts[i] ?? 0, words, ~from, layout);
          continue;
        }
        const last = starts[i + 1] ?? 0;
        for (let to = starts[i] ?? 0; to < last; to++) out[to] = words[from++] ?? 0;
      }
    },
    copy(batch, records, B) {
      copyHeads(batch, records, B, shape);
      return copyBags(batch, records, B, shape);
    },
  };
}

function copyHeads(
  { labels, dense }: BatchMemory,
  { words, starts }: BatchRecords,
  B: number,
  shape: BlockShape,
): void {
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  const targets = shape.targets ?? oneLabel;
  const denseAt = targetWords(targets);
  for (let b = 0; b < B; b++) {
    const start = starts[b] ?? 0;
    for (let l = 0; l < targets.labels; l++)
      labels[b * targets.labels + l] = floats[start + l] ?? 0;
    for (let i = 0; i < shape.dense; i++) {
      dense[b * shape.dense + i] = floats[start + denseAt + i] ?? 0;
    }
  }
}

/** Reorders sample-major bags into feature-major ones. Returns the number of ids. */
function copyBags(
  { lengths, ids, highs, weights }: BatchMemory,
  { words, starts }: BatchRecords,
  B: number,
  shape: BlockShape,
): number {
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  const headWords = sampleHeadWords(shape);
  /** Word of the next id of each sample. Its bag lengths start `back` words before its first id. */
  const next = Int32Array.from(starts.subarray(0, B), (start) => start + headWords);
  const back = Math.ceil(shape.features / 2);
  const heads = next.slice();
  let out = 0;
  for (let t = 0; t < shape.features; t++) {
    const shift = (t & 1) * 16;
    const head = (t >> 1) - back;
    const [isWide, isWeighted] = [shape.wide[t] === true, shape.weighted[t] === true];
    for (let b = 0; b < B; b++) {
      const length = ((words[(heads[b] ?? 0) + head] ?? 0) >>> shift) & 0xffff;
      lengths[t * B + b] = length;
      let from = next[b] ?? 0;
      for (let i = 0; i < length; i++) ids[out + i] = words[from++] ?? 0;
      if (isWide) {
        for (let i = 0; i < length; i++, from++) {
          if (highs !== undefined) highs[out + i] = words[from] ?? 0;
        }
      }
      if (isWeighted) {
        for (let i = 0; i < length; i++, from++) {
          if (weights !== undefined) weights[out + i] = floats[from] ?? 0;
        }
      } else weights?.fill(1, out, out + length);
      out += length;
      next[b] = from;
    }
  }
  const isWhole = next.every((end, b) => end === starts[b + 1]);
  assert(isWhole, "bags as long as their samples");
  return out;
}
