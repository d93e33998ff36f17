// Folded records: a bag that equals the bag of the sample before it in the same block is stored as
// one word, the distance back to the full bag (cache-format.ts has the format). Samples of one
// session repeat most of their bags, so their blocks become much smaller on disk, in memory and on
// the way from a preprocessing worker to a reader (RecD: Zhao et al., MLSys 2023, section 4.2).
// Distinct bags within a slice of a batch are found separately, in sessions/ikjt.ts. The addon
// folds identically and faster (native/ingest/folded-records.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { type BlockShape, sampleHeadWords } from "./cache-format.ts";

/** Layout of a record. The bag lengths are the last words of its head. */
export interface RecordLayout {
  readonly headWords: number;
  readonly features: number;
  /** (features): 0: ids of 32 bits alone, 1: with upper halves, 2: with weights, 3: with both. */
  readonly kinds: Uint8Array;
}

/** Memory of a block that is being filled. */
export interface OpenBlock {
  words: Int32Array;
  /**
   * (3, features): for each feature, the word where the full bag of the last record starts, or -1;
   * its number of ids; and whether the record being folded repeats that bag.
   */
  readonly last: Int32Array;
}

/** Unfolded records, back to back. */
export interface WholeRecords {
  readonly words: Int32Array;
  /** First word of each record, then the end of the last record. */
  readonly starts: Int32Array;
}

export interface Folder {
  /**
   * Folds the record in words start .. end-1, in place. The block must have `repeatWords` free
   * words after it. Returns its new end, as `~end` if the record was folded.
   */
  fold(block: OpenBlock, start: number, end: number): number;
  /**
   * Appends `count` records, from record `first` on, at word `used` of a block that holds `samples`
   * records, and folds them; free words as for `fold`. Writes their starts into the first words of
   * the block. Returns their end.
   */
  append(
    block: OpenBlock,
    place: { readonly samples: number; readonly used: number },
    records: WholeRecords,
    first: number,
    count: number,
  ): number;
}

export function layoutOf(shape: BlockShape): RecordLayout {
  const kinds = Uint8Array.from({ length: shape.features }, (_, t) => {
    return (shape.wide[t] === true ? 1 : 0) + (shape.weighted[t] === true ? 2 : 0);
  });
  return { headWords: sampleHeadWords(shape), features: shape.features, kinds };
}

/** Words after the head of a folded record that mark the repeated bags: one bit per feature. */
export function repeatWords({ features }: Pick<RecordLayout, "features">): number {
  return Math.ceil(features / 32);
}

/** Words per id of a feature. */
export function wordsOfId(kind = 0): number {
  return 1 + (kind & 1) + (kind >> 1);
}

/** Number of ids in a bag of the record whose lengths begin at word `at`. */
export function lengthAt(words: Int32Array, at: number, feature: number): number {
  return ((words[at + (feature >> 1)] ?? 0) >>> ((feature & 1) * 16)) & 0xffff;
}

/** The reference folder, in TypeScript, which defines the results. */
export function plainFolder(layout: RecordLayout): Folder {
  const { headWords, features, kinds } = layout;
  const lengthWords = Math.ceil(features / 2);
  const more = repeatWords(layout);
  const folder: Folder = {
    append(block, { samples, used: before }, { words, starts }, first, count) {
      let used = before;
      for (let i = 0; i < count; i++) {
        const record = words.subarray(starts[first + i], starts[first + i + 1]);
        block.words.set(record, used);
        const end = folder.fold(block, used, used + record.length);
        if (end < 0) block.words[samples + i] = ~used;
        used = end < 0 ? ~end : end;
        block.words[samples + i + 1] = used;
      }
      return used;
    },
    fold({ words, last }, start, end) {
      const repeats = last.subarray(2 * features);
      const lengthsAt = start + headWords - lengthWords;
      let [at, saved] = [start + headWords, 0];
      for (let t = 0; t < features; t++) {
        const length = lengthAt(words, lengthsAt, t);
        const size = length * wordsOfId(kinds[t]);
        const before = last[t] ?? -1;
        const mayRepeat = size > 1 && before >= 0 && last[features + t] === length;
        repeats[t] = mayRepeat && areSame(words, before, at, size) ? 1 : 0;
        if (repeats[t] === 1) saved += size - 1;
        at += size;
      }
      const isFolded = saved > more;
      let [from, to] = [start + headWords, start + headWords];
      if (isFolded) {
        words.copyWithin(from + more, from, end);
        words.fill(0, from, from + more);
        from += more;
        to += more;
      }
      for (let t = 0; t < features; t++) {
        const length = lengthAt(words, lengthsAt, t);
        const size = length * wordsOfId(kinds[t]);
        if (isFolded && repeats[t] === 1) {
          const bits = start + headWords + (t >> 5);
          words[bits] = (words[bits] ?? 0) | (1 << (t & 31));
          words[to] = to - (last[t] ?? 0);
          to++;
        } else {
          if (from !== to) words.copyWithin(to, from, from + size);
          last[t] = to;
          last[features + t] = length;
          to += size;
        }
        from += size;
      }
      return isFolded ? ~to : to;
    },
  };
  return folder;
}

function areSame(words: Int32Array, a: number, b: number, size: number): boolean {
  for (let i = 0; i < size; i++) if (words[a + i] !== words[b + i]) return false;
  return true;
}

/** Length in words of the folded record at `from` once it is unfolded. */
export function unfoldedWords(
  words: Int32Array,
  from: number,
  { headWords, features, kinds }: RecordLayout,
): number {
  const lengthsAt = from + headWords - Math.ceil(features / 2);
  let count = headWords;
  for (let t = 0; t < features; t++) count += lengthAt(words, lengthsAt, t) * wordsOfId(kinds[t]);
  return count;
}

/** Unfolds the folded record at word `from` of `words` into `out`, from word `at` on. */
export function unfold(
  out: Int32Array,
  at: number,
  words: Int32Array,
  from: number,
  layout: RecordLayout,
): void {
  const { headWords, features, kinds } = layout;
  const bits = from + headWords;
  const lengthsAt = bits - Math.ceil(features / 2);
  out.set(words.subarray(from, bits), at);
  let [to, next] = [at + headWords, bits + repeatWords(layout)];
  for (let t = 0; t < features; t++) {
    const size = lengthAt(words, lengthsAt, t) * wordsOfId(kinds[t]);
    const repeats = ((words[bits + (t >> 5)] ?? 0) >>> (t & 31)) & 1;
    const source = repeats === 1 ? next - (words[next] ?? 0) : next;
    assert(source >= 0 && source + size <= words.length, "a bag of the block");
    out.set(words.subarray(source, source + size), to);
    next += repeats === 1 ? 1 : size;
    to += size;
  }
}

/** The fastest available folder: the addon's if it is built, otherwise `plainFolder`. */
export function folderOf(layout: RecordLayout, addon: Addon | undefined = loadAddon()): Folder {
  if (addon === undefined) return plainFolder(layout);
  const { foldRecord: fold, appendRecords: append } = addon;
  const { headWords, kinds } = layout;
  const more = repeatWords(layout);
  return {
    fold({ words, last }, start, end) {
      // The addon checks array types only: a wrong offset would make it touch memory outside the
      // block.
      assert(start >= 0 && start + headWords <= end && end + more <= words.length, "a record");
      return wholeRecord(Number(fold(words, last, start, end, headWords, kinds)));
    },
    append({ words, last }, { samples, used }, { words: records, starts }, first, count) {
      const [from, to] = [starts[first] ?? Infinity, starts[first + count] ?? Infinity];
      assert(samples + count < words.length, "room for where the records begin");
      assert(used + to - from + more <= words.length && to <= records.length, "whole records");
      const own = starts.subarray(first, first + count + 1);
      for (let i = 0; i < count; i++) {
        assert((own[i + 1] ?? 0) - (own[i] ?? 0) >= headWords, "a head for each record");
      }
      return wholeRecord(
        Number(append(words, last, samples, used, records, own, headWords, kinds)),
      );
    },
  };
}

function wholeRecord(end: number): number {
  assert(end > -2_147_483_648, "a record as long as its bags");
  return end;
}
