// Generates the blocks of streamed samples on each read. Each block's checksum is compared with the
// index, because another release may generate different samples.

import { crc32 } from "node:zlib";
import { InputUnusableError } from "../../errors/errors.ts";
import { BlockEncoder } from "../cache/block-encoder.ts";
import type { BlockTable } from "../cache/block-table.ts";
import type { BlockReader } from "../cache/blocks.ts";
import { blockSamples, type CacheMeta } from "../cache/cache-format.ts";
import type { ResolvedSyntheticOptions, TableShape } from "../options.ts";
import { Sample } from "../sample.ts";
import { SyntheticSamples } from "./synthetic.ts";

/** The inputs that determine the samples. */
export interface GeneratedOrigin {
  readonly options: ResolvedSyntheticOptions;
  readonly tables: readonly TableShape[];
}

/**
 * A block reader that generates blocks on demand. `read` rejects with InputUnusableError if the
 * index describes different samples.
 */
export function generatedBlocks(
  { options, tables }: GeneratedOrigin,
  meta: CacheMeta,
  table: BlockTable,
): BlockReader {
  const generator = new SyntheticSamples(options, tables);
  const sample = new Sample({ dense: meta.dense, features: meta.features, targets: meta.targets });
  const path = "generated samples";
  let bytesRead = 0;
  return {
    path,
    isChecked: true,
    async read(bytes, blocks) {
      const encoder = new BlockEncoder(meta);
      let filled = 0;
      for (let block = blocks.first; block < blocks.end; block++) {
        const end = Math.min((block + 1) * blockSamples, meta.samples);
        let words: Int32Array | undefined;
        for (let index = block * blockSamples; index < end; index++) {
          generator.fill(sample, index);
          words = encoder.append(sample);
        }
        words ??= encoder.rest();
        if (words === undefined) throw new RangeError(`There is no block ${block}`);
        const own = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
        const isSame = 4 * table.wordsOf(block) === own.length;
        if (!isSame || crc32(own) !== table.crcOf(block)) {
          throw otherSamples(path, block);
        }
        bytes.set(own, filled);
        filled += own.length;
      }
      bytesRead += filled;
      return filled;
    },
    get bytesRead() {
      return bytesRead;
    },
    close() {},
  };
}

function otherSamples(path: string, block: number): InputUnusableError {
  const message =
    `The ${path} of block ${block} differ from their index, which another release ` +
    "made: clear the data caches (`osiris cache`), and train a new run";
  return new InputUnusableError(path, message);
}
