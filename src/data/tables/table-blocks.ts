// Encodes the blocks of streamed samples: reads the row groups of their samples, and encodes the
// rows by the rules that made the index. Each block's checksum is compared with the index, so that
// a changed file is an error and never a different model.

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { InputUnusableError } from "../../errors/errors.ts";
import { BlockEncoder } from "../cache/block-encoder.ts";
import type { BlockTable } from "../cache/block-table.ts";
import type { BlockReader } from "../cache/blocks.ts";
import { blockSamples, type CacheMeta } from "../cache/cache-format.ts";
import { hasRuns, type Run } from "../cache/file-tables.ts";
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
  hasSharedHead,
  headEndOf,
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
  assert(hasRuns(table), "a table of row groups");
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
    let next = from;
    if (from === run.first && (hasSharedHead(run) || end === headEndOf(run))) {
      addHead(await heads.of(run), meta, out);
      next = headEndOf(run);
    }
    if (next === end) return;
    const rowsFirst = Math.max(blockSamples, end - run.first);
    await readers.use(run, next, rowsFirst, (reader) => reader.read(end, out));
  };

  return {
    path: shownPath(options.paths[0] ?? ""),
    isChecked: true,
    async read(bytes, blocks) {
      const encoder = new BlockEncoder(meta);
      let [block, filled] = [blocks.first, 0];
      let run: Run | undefined;
      const add = (words: Int32Array | undefined) => {
        if (words === undefined) return;
        const own = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
        const isSame = 4 * table.wordsOf(block) === own.length;
        if (!isSame || crc32(own) !== table.crcOf(block)) throw changed(options, run);
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
      while (block < blocks.end) {
        run = table.runAt(block);
        const [from, before] = [table.firstOf(block), block];
        const to = Math.min(table.firstOf(blocks.end), run.first + run.samples);
        try {
          await encode(run, from, to, out);
        } catch (error) {
          throw isDamage(error) ? unreadable(options, run, error) : error;
        }
        add(encoder.rest()); // Blocks end with each row group.
        if (block === before) throw changed(options, run);
      }
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
