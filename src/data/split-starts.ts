// The starts of the splits of a run, in the form in which messages and manifests carry them. Up to
// `packedMax` splits are written out: as runs of equal distances, because row groups mostly have
// equal numbers of samples. More splits are only identified: each host derives them from the pieces
// of the data (cache/pieces.ts), and compares their digest.
//
//   starts      0  4096  8192  12288  13000        distances 4096 × 3, 712 × 1
//   packed      varints, base64: distance, count, distance, count, …

import { createHash } from "node:crypto";
import { InputUnusableError } from "../errors/errors.ts";
import type { SampleNumbers } from "./dataset.ts";

/** Most splits that a message and a manifest write out: at most about 80 kB. */
export const packedMax = 16_384;

/** The splits of a run, in a form for messages and manifests. One of the two is set. */
export interface SplitStarts {
  /** The starts, packed. */
  readonly packed?: string | undefined;
  /** Number of splits, and SHA-256 of their starts, hex: they are the pieces of the data. */
  readonly derived?: { readonly count: number; readonly digest: string } | undefined;
}

/** Describes splits. `starts`: first sample of each split, then the end. */
export function describeStarts(starts: SampleNumbers): SplitStarts {
  const count = starts.length - 1;
  if (count <= packedMax) return { packed: packStarts(starts) };
  return { derived: { count, digest: digestOf(starts) } };
}

/**
 * The first sample of each split. `pieces`: the first sample of each piece of the data, from which
 * splits are computed that the description does not list.
 * @throws InputUnusableError if the pieces of the data are others, or unknown
 */
export function startsIn(
  { packed, derived }: SplitStarts,
  pieces: SampleNumbers | undefined,
): SampleNumbers {
  if (packed !== undefined) return unpackStarts(packed);
  if (derived === undefined) throw new RangeError("Expected splits that are packed or derived");
  if (pieces !== undefined && digestOf(pieces) === derived.digest) return pieces;
  const found = pieces === undefined ? "none" : `${pieces.length - 1} others`;
  const message =
    `Expected the data to have the ${derived.count} splits in whose order the run was trained, ` +
    `found ${found}: put the files back as they were, or train a new run`;
  throw new InputUnusableError("data", message);
}

/** The starts as varints of (distance, count), base64. */
export function packStarts(starts: SampleNumbers): string {
  const bytes: number[] = [];
  const put = (value: number) => {
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128));
    bytes.push(rest);
  };
  for (let i = 1; i < starts.length; ) {
    const distance = (starts[i] ?? 0) - (starts[i - 1] ?? 0);
    let count = 1;
    while ((starts[i + count] ?? -1) - (starts[i + count - 1] ?? 0) === distance) count++;
    put(distance);
    put(count);
    i += count;
  }
  return Buffer.from(bytes).toString("base64");
}

/** The starts that `packStarts` packed. */
export function unpackStarts(packed: string): SampleNumbers {
  const bytes = Buffer.from(packed, "base64");
  let at = 0;
  const next = () => {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = bytes[at++] ?? 0;
      value += (byte % 128) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
  const starts = [0];
  while (at < bytes.length) {
    const distance = next();
    // A damaged text must not fill the memory.
    for (let left = Math.min(next(), packedMax); left > 0; left--) {
      starts.push((starts.at(-1) ?? 0) + distance);
    }
  }
  return Float64Array.from(starts);
}

function digestOf({ buffer, byteOffset, byteLength }: SampleNumbers): string {
  return createHash("sha256")
    .update(new Uint8Array(buffer, byteOffset, byteLength))
    .digest("hex");
}
