// Reads runs of samples from columnar files, a part at a time, by the rules that made their index.
// A reader that stops within a run is kept, because the next piece mostly continues there. Idle
// files stay open for a while. A run is the samples of one row group; its head is its first block,
// which the previous split needs, too, where splits begin at multiples of 32 samples:
//
//   runs     |------- 70 -------|----- 50 -----|
//   splits   |---------- 96 ------|---- 24 ---|   the first has 26 of the second run
//
// Both splits are often read concurrently, and both need the head.
//
// Invariants
//   R1. A file is read by one reader at a time.
//   R2. A local file is reopened if it was replaced or changed, because an old descriptor would
//       hide the change. A server refuses ranges of a changed file (remote/web-ranges.ts).

import { stat } from "node:fs/promises";
import { copierOf } from "../cache/batch-copies.ts";
import { BlockEncoder } from "../cache/block-encoder.ts";
import { type BlockShape, blockSamples } from "../cache/cache-format.ts";
import type { Run } from "../cache/file-tables.ts";
import { layoutOf, unfoldedWords } from "../cache/folded-records.ts";
import { noRecords, type PlainRecords, plainFrom } from "../columnar/plain-records.ts";
import { createRowEncoder, type RowEncoder } from "../columnar/row-encoder.ts";
import { isAddress } from "../remote/addresses.ts";
import type { Sample } from "../sample.ts";
import { KeyCollector, type KeyColumn } from "../split-keys.ts";
import type { CompiledTransforms } from "../transforms/compile.ts";
import { type TableFile, type TableLimits, type WantedRows, wantedRows } from "./table-file.ts";

/** Receives samples, or their records, in order. */
export interface SampleSink {
  add(sample: Sample): void;
  /** Adds `count` records, from record `first` on, which are stored back to back. */
  addRecords(records: Omit<PlainRecords, "isPlain">, first: number, count: number): void;
}

/** Dependencies of `RunReaders`. */
export interface RunReadersOptions {
  /** The paths of the files. */
  readonly paths: readonly string[];
  /** Opens a file. @throws InputUnusableError */
  readonly open: (file: number) => Promise<TableFile>;
  /** The column that splits the data. */
  readonly key: KeyColumn | undefined;
  readonly transforms: CompiledTransforms | undefined;
  /** Scratch memory for a sample. */
  readonly sample: Sample;
  readonly limits: TableLimits;
}

/** An open file, and its version when it was opened. */
interface OpenFile {
  readonly place: number;
  readonly table: TableFile;
  readonly version: string;
  /**
   * Its encoder, whose memory is reused; undefined if a key column requires a new encoder per run.
   */
  readonly encoder: RowEncoder | undefined;
}

/** Rows per batch: its columns and records fit into a core's L2 cache. */
const rowsTogether = 4096;
/** Most idle open files, because each keeps the memory of a piece. */
const idleFilesMax = 2;
/**
 * Most readers that are stopped within a run, because each holds a batch and a page of every
 * column.
 */
const stoppedMax = 1;
/** Discards samples. */
const nowhere: SampleSink = { add() {}, addRecords() {} };

/** Readers of the runs of a set of files. The owner closes them. */
export class RunReaders {
  readonly #options: RunReadersOptions;
  readonly #idle: OpenFile[] = [];
  /** Readers that are stopped within their runs. */
  readonly #stopped: RunReader[] = [];
  #isOpen = true;

  constructor(options: RunReadersOptions) {
    this.#options = options;
  }

  /**
   * Calls `work` with a reader that is positioned at sample `from` of a run. `rowsFirst`: as in
   * `TableLimits`. @throws InputUnusableError
   */
  async use<Result>(
    run: Run,
    from: number,
    rowsFirst: number,
    work: (reader: RunReader) => Promise<Result>,
  ): Promise<Result> {
    const reader = await this.#take(run, from, rowsFirst);
    let result: Result;
    try {
      await reader.read(from, nowhere);
      result = await work(reader);
    } catch (error) {
      await this.#end(reader, false);
      throw error;
    }
    await this.#giveBack(reader);
    return result;
  }

  /** Closes all files, except those being read: their readers close them. */
  async close(): Promise<void> {
    this.#isOpen = false;
    for (const reader of this.#stopped.splice(0)) await this.#end(reader, false);
    for (const { table } of this.#idle.splice(0)) await table.close();
  }

  /** A reader positioned at sample `from` of a run, or before it. */
  async #take(run: Run, from: number, rowsFirst: number): Promise<RunReader> {
    const at = this.#stopped.findIndex(
      (reader) => reader.run.first === run.first && reader.at <= from,
    );
    const [stopped] = at < 0 ? [] : this.#stopped.splice(at, 1);
    if (stopped !== undefined) {
      if (await this.#isAsItWas(stopped.file)) return stopped;
      await this.#end(stopped, false);
    }
    return new RunReader(run, await this.#file(run.file), rowsFirst, this.#options);
  }

  /** Takes back a reader, and keeps it if it is stopped within its run. */
  async #giveBack(reader: RunReader): Promise<void> {
    const { first, samples } = reader.run;
    if (!this.#isOpen || reader.at === first + samples) {
      await this.#end(reader, this.#isOpen);
      return;
    }
    this.#stopped.push(reader);
    const oldest = this.#stopped.length > stoppedMax ? this.#stopped.shift() : undefined;
    if (oldest !== undefined) await this.#end(oldest, true);
  }

  /** A file for exclusive use by one reader. */
  async #file(place: number): Promise<OpenFile> {
    const at = this.#idle.findIndex((one) => one.place === place); // R1
    const [found] = at < 0 ? [] : this.#idle.splice(at, 1);
    if (found !== undefined) {
      if (await this.#isAsItWas(found)) return found;
      await found.table.close();
    }
    const { open, key, transforms } = this.#options;
    const table = await open(place);
    const { columns, header } = table;
    try {
      const version = await this.#version(place);
      const encoder =
        key === undefined ? createRowEncoder(columns, header, undefined, transforms) : undefined;
      return { place, table, version, encoder };
    } catch (error) {
      await table.close();
      throw error;
    }
  }

  async #end(reader: RunReader, isKept: boolean): Promise<void> {
    await reader.end();
    if (isKept) this.#idle.push(reader.file);
    else await reader.file.table.close();
    while (this.#idle.length > idleFilesMax) await this.#idle.shift()?.table.close();
  }

  /** R2 */
  async #isAsItWas({ place, version }: OpenFile): Promise<boolean> {
    return version === (await this.#version(place));
  }

  /**
   * Inode, size and modification time of a local file now, all 0 if it does not exist; `""` for a
   * remote file.
   */
  async #version(place: number): Promise<string> {
    const path = this.#options.paths[place] ?? "";
    if (isAddress(path)) return "";
    const { ino, size, mtimeMs } = await stat(path).catch(() => none);
    return `${ino} ${size} ${mtimeMs}`;
  }
}

/** Version of a file that does not exist. */
const none = { ino: 0, size: 0, mtimeMs: 0 };

/** Reads the samples of a run in order. */
export class RunReader {
  readonly run: Run;
  readonly file: OpenFile;
  readonly #encoder: RowEncoder;
  readonly #sample: Sample;
  readonly #batches: AsyncGenerator<WantedRows>;
  #batch: WantedRows | undefined;
  #records: PlainRecords = noRecords;
  /** The next row of the batch. */
  #row = 0;
  #at: number;

  constructor(run: Run, file: OpenFile, rowsFirst: number, options: RunReadersOptions) {
    const { key, transforms, limits, sample } = options;
    const { columns, header } = file.table;
    this.run = run;
    this.file = file;
    const keys = key && new KeyCollector(key);
    this.#encoder = file.encoder ?? createRowEncoder(columns, header, keys, transforms);
    this.#sample = sample;
    const rows = { only: run.rowGroup, rowsFirst, rowsMax: rowsTogether };
    this.#batches = wantedRows(file.table, { ...limits, ...rows });
    this.#at = run.first;
  }

  /** Index of the next sample. */
  get at(): number {
    return this.#at;
  }

  /**
   * Reads until sample `end`. If the file has changed, there may be fewer samples.
   * @throws InputUnusableError
   */
  async read(end: number, out: SampleSink): Promise<void> {
    while (this.#at < end) {
      if (this.#row === (this.#batch?.batch.rows ?? 0)) {
        const { value, done } = await this.#batches.next();
        if (done === true) return;
        this.#batch = value;
        this.#encoder.begin(value.batch, this.run.file);
        this.#records = this.#encoder.records() ?? noRecords;
        this.#row = 0;
      }
      if (this.#batch !== undefined) this.#encode(this.#batch, end, out);
    }
  }

  async end(): Promise<void> {
    await this.#batches.return(undefined);
  }

  /** Encodes rows of the batch until sample `end`. */
  #encode({ batch: { rows }, isWanted }: WantedRows, end: number, out: SampleSink): void {
    const { isPlain } = this.#records;
    const encoder = this.#encoder;
    let row = this.#row;
    while (row < rows && this.#at < end) {
      if (!isWanted(row) || !encoder.isKept(row)) row++;
      else if (isPlain[row] === 1) {
        const first = row++;
        const last = Math.min(rows, first + end - this.#at);
        row += plainFrom(this.#records, row, last, (at) => isWanted(at) && encoder.isKept(at));
        out.addRecords(this.#records, first, row - first);
        this.#at += row - first;
      } else if (encoder.encode(this.#sample, row++) === undefined) {
        out.add(this.#sample); // Bad rows are skipped, as in the index.
        this.#at++;
      }
    }
    this.#row = row;
  }
}

/** Most cached heads. */
const headsMax = 64;

/** Reads heads, and caches the most recently read. */
export class RunHeads {
  readonly #readers: RunReaders;
  readonly #shape: BlockShape;
  /** By the first sample of the run. */
  readonly #heads = new Map<number, Promise<Int32Array>>();

  constructor(readers: RunReaders, shape: BlockShape) {
    this.#readers = readers;
    this.#shape = shape;
  }

  /** The head of a run, as a block. The run's reader stops after it. @throws InputUnusableError */
  of(run: Run): Promise<Int32Array> {
    const known = this.#heads.get(run.first);
    if (known !== undefined) return known;
    const head = this.#read(run);
    this.#heads.set(run.first, head);
    head.catch(() => this.#heads.delete(run.first)); // The next request retries.
    const [oldest] = this.#heads.keys();
    if (this.#heads.size > headsMax && oldest !== undefined) this.#heads.delete(oldest);
    return head;
  }

  #read(run: Run): Promise<Int32Array> {
    return this.#readers.use(run, run.first, blockSamples, async (reader) => {
      const encoder = new BlockEncoder(this.#shape);
      let block: Int32Array | undefined;
      await reader.read(headEndOf(run), {
        add(sample) {
          block = encoder.append(sample);
        },
        addRecords(records, first, count) {
          block = encoder.appendRecords(records, first, count);
        },
      });
      return (block ?? encoder.rest())?.slice() ?? Int32Array.of(1);
    });
  }
}

/** The first sample after the head of a run, which is its first block. */
export function headEndOf({ first, samples }: Run): number {
  return first + Math.min(blockSamples, samples);
}

/** Whether the split before a run ends within the run's first block (pieces.ts). */
export function hasSharedHead({ first }: Run): boolean {
  return first % blockSamples !== 0;
}

/**
 * Adds the samples of a head. Its records are unfolded first, because they refer to neighbours
 * within the head's own block.
 */
export function addHead(head: Int32Array, shape: BlockShape, out: SampleSink): void {
  const layout = layoutOf(shape);
  const copier = copierOf(shape);
  const samples = (head[0] ?? 1) - 1;
  const starts = new Int32Array(samples + 1);
  for (let i = 0; i < samples; i++) {
    const [at, next] = [head[i] ?? 0, head[i + 1] ?? 0];
    const size = at < 0 ? unfoldedWords(head, ~at, layout) : (next < 0 ? ~next : next) - at;
    starts[i + 1] = (starts[i] ?? 0) + size;
  }
  const words = new Int32Array(starts[samples] ?? 0);
  copier.gather({ words, starts }, head, head.subarray(0, samples), 0, samples);
  out.addRecords({ words, starts, width: undefined }, 0, samples);
}
