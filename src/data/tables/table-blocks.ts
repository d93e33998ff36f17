// Makes the blocks of a cache that has none: reads the pieces that their samples lie in, and
// encodes their rows as when the index was made. Each block is compared with the index, so that a
// file that has changed since is one error and never another model.

import { crc32 } from "node:zlib";
import { InputUnusableError } from "../../errors/errors.ts";
import { BlockEncoder } from "../cache/block-encoder.ts";
import type { BlockReader } from "../cache/blocks.ts";
import {
  type BlockTable,
  blockSamples,
  type CacheMeta,
  type Piece,
} from "../cache/cache-format.ts";
import type { PlainRecords } from "../columnar/plain-records.ts";
import { createRowEncoder } from "../columnar/row-encoder.ts";
import { formatOf, pieceNameOf } from "../data-kinds.ts";
import type { SampleRange } from "../dataset.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import { Sample } from "../sample.ts";
import type { KeyColumn } from "../split-keys.ts";
import { lineTransforms } from "../text/made-lines.ts";
import { KeyCollector } from "../text/split-keys.ts";
import { openTable } from "./open-table.ts";
import { newReport, type TableFile } from "./table-file.ts";
import { wantedRows } from "./wanted-rows.ts";

/** What decides the samples of the blocks. */
export interface BlockOrigin {
  readonly options: ResolvedTableOptions;
  readonly tables: readonly TableShape[];
  /** The column that splits the data: rows without a key of it are no samples. */
  readonly key?: KeyColumn | undefined;
}

/** Takes samples, or their records, in order. */
interface SampleSink {
  add(sample: Sample): void;
  addRecord(words: Int32Array, from: number, count: number): void;
}

const noRecords: PlainRecords = {
  isPlain: new Uint8Array(0),
  words: new Int32Array(0),
  width: 0,
};

/** A run of samples within a piece. */
interface Run extends Piece {
  /** Its first sample among all. */
  readonly first: number;
}

/**
 * Blocks that are made when they are read. Reading them throws InputUnusableError where a file
 * cannot be read or has changed.
 */
export function tableBlocks(
  { options, tables, key }: BlockOrigin,
  meta: CacheMeta,
  table: BlockTable,
): BlockReader {
  const runs = runsOf(meta);
  const transforms = lineTransforms(options);
  const report = newReport();
  const sample = new Sample({ dense: meta.dense, features: meta.features, targets: meta.targets });

  /** Appends the samples of a run that lie in the range. */
  const encode = async (run: Run, range: SampleRange, out: SampleSink) => {
    const path = options.paths[run.file] ?? "";
    const { first } = range;
    const end = Math.min(range.end, run.first + run.samples); // Damaged rows may lie behind it.
    const opened = await openTable(path, options, tables, key);
    try {
      checkSize(opened, options, meta, run.file);
      const keys = key && new KeyCollector(key);
      const encoder = createRowEncoder(opened.columns, opened.header, keys, transforms);
      let at = run.first;
      const rowsFirst = Math.max(blockSamples, end - run.first);
      const ofRun = wantedRows(opened, { report, only: run.rowGroup, rowsFirst });
      for await (const { batch, isWanted } of ofRun) {
        encoder.begin(batch, run.file);
        const { isPlain, words, width } = encoder.records() ?? noRecords;
        for (let row = 0; row < batch.rows && at < end; row++) {
          if (!isWanted(row) || !encoder.isKept(row)) continue;
          const isRecord = isPlain[row] === 1;
          if (!isRecord && encoder.encode(sample, row) !== undefined) continue; // As the index did.
          if (at++ < first) continue;
          if (isRecord) out.addRecord(words, row * width, width);
          else out.add(sample);
        }
        if (at >= end) break;
      }
    } finally {
      await opened.close();
    }
  };

  return {
    path: shownPath(options.paths[0] ?? ""),
    async read(bytes, blocks) {
      const first = blocks.first * blockSamples;
      const end = Math.min(blocks.end * blockSamples, meta.samples);
      const encoder = new BlockEncoder(meta);
      let [block, filled] = [blocks.first, 0];
      const add = (words: Int32Array | undefined, run: Run | undefined) => {
        if (words === undefined) return;
        const own = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
        const isSame = 4 * (table[2 * block] ?? 0) === own.length;
        if (!isSame || crc32(own) !== table[2 * block + 1]) throw changed(options, run);
        bytes.set(own, filled);
        filled += own.length;
        block++;
      };
      for (const run of runs) {
        if (run.first >= end || run.first + run.samples <= first) continue;
        await encode(
          run,
          { first, end },
          {
            add: (of) => add(encoder.append(of), run),
            addRecord: (words, from, count) => add(encoder.appendRecord(words, from, count), run),
          },
        );
      }
      add(encoder.rest(), runs.at(-1));
      if (block !== blocks.end)
        throw changed(
          options,
          runs.findLast((run) => run.first < end),
        );
      return filled;
    },
    get bytesRead() {
      return report.read;
    },
    close() {},
  };
}

/** The pieces with samples, and where they begin. */
function runsOf({ pieces = [] }: CacheMeta): Run[] {
  let first = 0;
  return pieces.flatMap((piece) => {
    const run = { ...piece, first };
    first += piece.samples;
    return piece.samples === 0 ? [] : [run];
  });
}

function checkSize(
  { path, size }: TableFile,
  { kind }: ResolvedTableOptions,
  { sources = [] }: CacheMeta,
  place: number,
): void {
  const then = sources[place]?.bytes;
  if (then === undefined || size === then) return;
  throw changedFile({ kind }, path, `it has ${size} bytes, and had ${then}`);
}

function changed(options: ResolvedTableOptions, run: Run | undefined): InputUnusableError {
  const what = `the samples of ${pieceNameOf(options)} ${run?.rowGroup} are other ones`;
  return changedFile(options, shownPath(options.paths[run?.file ?? 0] ?? ""), what);
}

function changedFile(
  { kind }: Pick<ResolvedTableOptions, "kind">,
  path: string,
  what: string,
): InputUnusableError {
  const message =
    `The ${formatOf({ kind })} file ${path} has changed since its index was made: ${what}; put the file back as ` +
    "it was, or train a new run on the changed data";
  return new InputUnusableError(path, message);
}
