// Unpooled features: each position of a sequence becomes a lookup of its own. Its bag has the id at
// that position, or is empty after the sequence's end. All later stages treat a position like a
// pooled feature.

import type { BagTable, SampleRows } from "./sample-rows.ts";

/** Grow-only memory for the rows of positions. */
export class SequenceMemory {
  #lengths = new Int32Array(0);
  #rows = new Int32Array(0);
  #highs = new Int32Array(0);
  #blocks = new Uint8Array(0);
  #weights = new Float32Array(0);
  /** Where the bags of one feature begin. */
  #begins = new Int32Array(0);

  /**
   * The bags by lookup: pooled features, and in place of each unpooled feature its positions. If a
   * bag has more ids than positions, its first or last ids are used (`kept`), in their order. Valid
   * until the next call.
   */
  byPosition(all: SampleRows, tables: readonly BagTable[]): SampleRows {
    if (tables.every(({ positions }) => positions === undefined)) return all;
    const { samples } = all;
    const lookups = tables.reduce((sum, { positions = 1 }) => sum + positions, 0);
    this.#reserve(samples, lookups, all);
    const lengths = this.#lengths.subarray(0, lookups * samples);
    const starts = new Int32Array(lookups + 1);
    let [lookup, total] = [0, 0];
    for (const [feature, { positions, kept }] of tables.entries()) {
      const own = all.lengths.subarray(feature * samples, (feature + 1) * samples);
      const first = all.starts[feature] ?? 0;
      if (positions === undefined) {
        starts[lookup] = total;
        lengths.set(own, lookup * samples);
        total = this.#copy(all, total, first, all.starts[feature + 1] ?? 0);
        lookup++;
        continue;
      }
      let begin = first;
      for (let sample = 0; sample < samples; sample++) {
        const length = own[sample] ?? 0;
        this.#begins[sample] = begin + (kept === "last" ? Math.max(0, length - positions) : 0);
        begin += length;
      }
      for (let position = 0; position < positions; position++, lookup++) {
        starts[lookup] = total;
        for (let sample = 0; sample < samples; sample++) {
          const has = (own[sample] ?? 0) > position;
          lengths[lookup * samples + sample] = has ? 1 : 0;
          if (!has) continue;
          const at = (this.#begins[sample] ?? 0) + position;
          total = this.#copy(all, total, at, at + 1);
        }
      }
    }
    starts[lookups] = total;
    return {
      samples,
      lengths,
      starts,
      rows: this.#rows.subarray(0, total),
      highs: all.highs && this.#highs.subarray(0, total),
      blocks: all.blocks && this.#blocks.subarray(0, total),
      weights: all.weights && this.#weights.subarray(0, total),
    };
  }

  /** Copies the ids `from`..`to`-1 to `at`. Returns the end of the copy. */
  #copy({ rows, highs, blocks, weights }: SampleRows, at: number, from: number, to: number) {
    let next = at;
    for (let i = from; i < to; i++, next++) {
      this.#rows[next] = rows[i] ?? 0;
      if (highs) this.#highs[next] = highs[i] ?? 0;
      if (blocks) this.#blocks[next] = blocks[i] ?? 0;
      if (weights) this.#weights[next] = weights[i] ?? 0;
    }
    return next;
  }

  #reserve(samples: number, lookups: number, { rows, highs, blocks, weights }: SampleRows): void {
    if (this.#begins.length < samples) this.#begins = new Int32Array(samples);
    if (this.#lengths.length < lookups * samples) {
      this.#lengths = new Int32Array(lookups * samples);
    }
    if (this.#rows.length >= rows.length) return;
    const room = rows.length + (rows.length >> 1);
    this.#rows = new Int32Array(room);
    if (highs) this.#highs = new Int32Array(room);
    if (blocks) this.#blocks = new Uint8Array(room);
    if (weights) this.#weights = new Float32Array(room);
  }
}
