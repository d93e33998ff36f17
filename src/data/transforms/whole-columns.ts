// The most expensive transforms, as functions over whole columns. The addon computes them
// identically and faster (native/ingest/transforms.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { lowerBound } from "../../ports/lower-bound.ts";
import { hashCombine, Modulus, twangMix64, upperHalf } from "./hash64.ts";

/** Arguments of SigridHash: a salt as halves, and `max`, at most 2^48. */
export interface HashArguments {
  readonly saltLow: number;
  readonly saltHigh: number;
  readonly max: number;
  readonly modulus: Modulus;
}

/** Functions over columns, output first. N = entries, R = rows. */
export interface WholeColumns {
  /** TorchArrow's sigrid_hash of each of ids (N): in 0 .. max - 1. */
  sigridHash(out: BigInt64Array, ids: BigInt64Array, hash: HashArguments): void;
  /** The bucket of each of values (N) among borders in ascending order. */
  bucketize(out: BigInt64Array, values: Float64Array, borders: Float64Array): void;
  /**
   * Each window of n consecutive ids of a row as one id. Row r's ids start at offsets[r], its
   * windows at outOffsets[r].
   */
  nGram(
    out: BigInt64Array,
    outOffsets: Int32Array,
    ids: BigInt64Array,
    offsets: Int32Array,
    n: number,
    hash: HashArguments,
  ): void;
}

/** The fastest available functions: the addon's if it is built, otherwise `referenceColumns`. */
export function wholeColumns(addon: Addon | undefined = loadAddon()): WholeColumns {
  if (addon === undefined) return referenceColumns;
  const { sigridHash, bucketize, nGram } = addon;
  // The addon checks array types only: a wrong length would make it touch memory outside them.
  return {
    sigridHash(out, ids, { saltLow, saltHigh, max }) {
      assert(ids.length >= out.length, "an id for each result");
      sigridHash(out, ids, saltLow, saltHigh, max);
    },
    bucketize(out, values, borders) {
      assert(values.length >= out.length, "a value for each result");
      bucketize(out, values, borders);
    },
    nGram(out, outOffsets, ids, offsets, n, { saltLow, saltHigh, max }) {
      assert(outOffsets.length >= offsets.length, "an end for each list");
      assert((offsets.at(-1) ?? 0) <= ids.length, "ids of all lists");
      assert((outOffsets[offsets.length - 1] ?? 0) <= out.length, "room for all results");
      nGram(out, outOffsets, ids, offsets, n, saltLow, saltHigh, max);
    },
  };
}

/** The reference functions, in TypeScript, which define the results. */
export const referenceColumns: WholeColumns = {
  sigridHash(out, ids, hash) {
    const [from, halves] = [halvesIn(ids), halvesIn(out)];
    for (let i = 0; i < out.length; i++) {
      setId(halves, i, sigridHashOf(from[2 * i] as number, from[2 * i + 1] as number, hash));
    }
  },
  bucketize(out, values, borders) {
    const halves = halvesIn(out);
    for (let i = 0; i < out.length; i++) {
      halves[2 * i] = bucketOf(values[i] as number, borders);
    }
  },
  nGram(out, outOffsets, ids, offsets, n, hash) {
    const mixed = mixedHalves(halvesIn(ids));
    const halves = halvesIn(out);
    for (let row = 0; row + 1 < offsets.length; row++) {
      let first = 2 * (offsets[row] as number);
      const end = outOffsets[row + 1] as number;
      for (let at = outOffsets[row] as number; at < end; at++, first += 2) {
        let [low, high] = [mixed[first] as number, mixed[first + 1] as number];
        for (let i = first + 2; i < first + 2 * n; i += 2) {
          low = hashCombine(low, high, mixed[i] as number, mixed[i + 1] as number);
          high = upperHalf();
        }
        setId(halves, at, sigridHashOf(low, high, hash));
      }
    }
  },
};

/** (2 N): lower and upper halves, interleaved; a view of the same memory. */
function halvesIn(ids: BigInt64Array): Int32Array {
  return new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
}

/** The hash arguments of validated options. */
export function hashArguments({
  salt,
  max,
}: {
  readonly salt: string;
  readonly max: number;
}): HashArguments {
  const bits = BigInt.asIntN(64, BigInt(salt));
  const [saltLow, saltHigh] = [Number(BigInt.asIntN(32, bits)), Number(bits >> 32n)];
  return { saltLow, saltHigh, max, modulus: new Modulus(max) };
}

/** TorchArrow's sigrid_hash of an id, in 0 .. max - 1. */
export function sigridHashOf(
  low: number,
  high: number,
  { saltLow, saltHigh, modulus }: HashArguments,
): number {
  const mixed = twangMix64(low, high);
  const hash = hashCombine(saltLow, saltHigh, mixed, upperHalf());
  return modulus.of(hash, upperHalf());
}

/** Sets an entry of halves to an id below 2^53. */
export function setId(halves: Int32Array, entry: number, id: number): void {
  halves[2 * entry] = id;
  halves[2 * entry + 1] = id / 0x1_0000_0000;
}

/** (2 N): the mixed ids. Each id is mixed once, however many windows or pairs contain it. */
export function mixedHalves(from: Int32Array): Int32Array {
  const out = new Int32Array(from.length);
  for (let i = 0; i < from.length; i += 2) {
    out[i] = twangMix64(from[i] as number, from[i + 1] as number);
    out[i + 1] = upperHalf();
  }
  return out;
}

/**
 * The bucket of a value: the number of borders below it. A border that occurs twice makes a bucket
 * for exactly its value (TorchArrow's Bucketize). NaN is in bucket 0.
 */
function bucketOf(value: number, borders: Float64Array): number {
  const last = borders.length - 1;
  const low = lowerBound(borders, value);
  return low >= last || value < (borders[low + 1] as number) || Number.isNaN(value) ? low : low + 1;
}
