// How the library that reads Parquet for tables unpacks pages: within the bounds that our own
// reader has, and with our own readers of Snappy and LZ4, as its own believe lengths below zero.

import type { Compressors } from "hyparquet";
import { Damage } from "../../tables/damage.ts";
import { checkUnpacked } from "../../tables/memory-budget.ts";
import { pageBytesMax } from "./codecs.ts";
import { unpackLz4Hadoop, unpackLz4Raw } from "./lz4.ts";
import { pageDecoders } from "./page-decoders.ts";

type Unpack = (packed: Uint8Array, size: number) => Uint8Array;

/** Snappy, LZ4, and the `others`; each throws Damage where a page claims too much. */
export function libraryCodecs(others: Compressors = {}): Compressors {
  const own: Record<string, Unpack> = {
    SNAPPY: filled((out, packed) => pageDecoders().unpackSnappy(out, packed)),
    LZ4: filled(unpackLz4Hadoop),
    LZ4_RAW: filled(unpackLz4Raw),
  };
  return Object.fromEntries(
    Object.entries({ ...others, ...own }).map(([codec, unpack]) => [
      codec,
      (packed: Uint8Array, size: number) => {
        if (size > pageBytesMax) throw new Damage(`a page says that it has ${size} bytes`);
        checkUnpacked("a page", size, packed.length);
        return unpack(packed, size);
      },
    ]),
  );
}

function filled(unpack: (out: Uint8Array, packed: Uint8Array) => void): Unpack {
  return (packed, size) => {
    const out = new Uint8Array(size);
    unpack(out, packed);
    return out;
  };
}
