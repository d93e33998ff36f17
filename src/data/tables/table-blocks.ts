// Encodes the blocks of streamed samples: reads the row groups of their samples, and encodes the
// rows by the rules that made the index. Each block's checksum is compared with the index, so that
// a changed file is an error and never a different model.

import { crc32 } from "node:zlib";
import { InputUnusableError } from "../../errors/errors.ts";
import { BlockEncoder } from "../cache/block-encoder.ts";
import type { BlockReader } from "../cache/blocks.ts";
import { type BlockTable, blockSamples, type CacheMeta } from "../cache/cache-format.ts";
import { formatOf, pieceNameOf } from "../data-kinds.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import { Sample } from "../sample.ts";
import type { KeyColumn } from "../split-keys.ts";
import { transformsFor } from "../transforms/compile.ts";
import { isDamage } from "./damage.ts";
import { openTable } from "./open-table.ts";
import {
  addHead,
  headEndOf,
  type Run,
  RunHeads,
  RunReaders,
  type SampleSink,
} from "./run-readers.ts";
import { newReport, type TableFile } from "./table-file.ts";

/** The inputs that determine the samples. */
export interface BlockOrigin {
  readonly options: ResolvedTableOptions;
  readonly tables: readonly TableShape[];
  /** The column that splits the data. Rows with a bad key are not samples. */
  readonly key?: KeyColumn | undefined;
}

/**
 * A block reader that encodes blocks on demand. `read` rejects with InputUnusableError if a file
 * cannot be read or has changed.
 */
export function tableBlocks(
  { options, tables, key }: BlockOrigin,
  meta: CacheMeta,
  table: BlockTable,
): BlockReader {
  const runs = runsOf(meta);
  const report = newReport(false);
  const readers = new RunReaders({
    paths: options.paths,
    async open(place) {
      const file = await openTable(options.paths[place] ?? "", options, tables, key);
      try {
        checkSize(file, options, meta, place);
        return file;
      } catch (error) {
        await file.close();
        throw error;
      }
    },
    key,
    transforms: transformsFor(options),
    sample: new Sample({ dense: meta.dense, features: meta.features, targets: meta.targets }),
    limits: { report },
  });
  const heads = new RunHeads(readers, meta);

  /** Appends the samples from .. end-1 of a run. */
  const encode = async (run: Run, from: number, end: number, out: SampleSink) => {
    const headEnd = headEndOf(run);
    if (headEnd > run.first && from === headEnd) await heads.of(run);
    if (from > run.first || end !== headEnd) {
      const rowsFirst = Math.max(blockSamples, end - run.first);
      await readers.use(run, from, rowsFirst, (reader) => reader.read(end, out));
      return;
    }
    addHead(await heads.of(run), meta, out);
  };

  return {
    path: shownPath(options.paths[0] ?? ""),
    isChecked: true,
    async read(bytes, blocks) {
      const first = blocks.first * blockSamples;
      const end = Math.min(blocks.end * blockSamples, meta.samples);
      const encoder = new BlockEncoder(meta);
      let [block, filled] = [blocks.first, 0];
      let run: Run | undefined;
      const add = (words: Int32Array | undefined) => {
        if (words === undefined) return;
        const own = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
        const isSame = 4 * (table[2 * block] ?? 0) === own.length;
        if (!isSame || crc32(own) !== table[2 * block + 1]) throw changed(options, run);
        bytes.set(own, filled);
        filled += own.length;
        block++;
      };
      const out: SampleSink = {
        add: (sample) => add(encoder.append(sample)),
        addRecords(records, from, count) {
          for (let done = 0; done < count; ) {
            const some = Math.min(count - done, encoder.room);
            add(encoder.appendRecords(records, from + done, some));
            done += some;
          }
        },
      };
      for (const one of runs) {
        const [from, to] = [Math.max(first, one.first), Math.min(end, one.first + one.samples)];
        if (from >= to) continue;
        run = one;
        try {
          await encode(run, from, to, out);
        } catch (error) {
          throw isDamage(error) ? unreadable(options, run, error) : error;
        }
      }
      add(encoder.rest());
      if (block !== blocks.end) throw changed(options, run);
      return filled;
    },
    get bytesRead() {
      return report.read;
    },
    close() {
      readers.close().catch(() => {}); // Harmless: the files are only read.
    },
  };
}

/** The row groups that have samples, with their first sample. */
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

/**
 * The error of a piece that was readable when the index was made: the file has probably been
 * rewritten.
 */
function unreadable(
  options: ResolvedTableOptions,
  { rowGroup }: Run,
  { path, cause, message }: InputUnusableError,
): InputUnusableError {
  const why = cause instanceof Error ? cause.message : message;
  const what = `${pieceNameOf(options)} ${rowGroup} can be read no more (${why})`;
  return changedFile(options, path, what);
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
