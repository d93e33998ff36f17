// Reads the files of a job into the cache, and previews their first rows. Bad rows go to the
// quarantine, with file, piece and row, and do not affect others.

import { InputUnusableError, InvalidOptionError } from "../errors/errors.ts";
import type { CacheMeta, Piece } from "./cache/cache-format.ts";
import type { CacheProgress, CacheWriter } from "./cache/cache-writer.ts";
import { noRecords, type PlainRecords, plainFrom } from "./columnar/plain-records.ts";
import { createRowEncoder, type RowEncoder } from "./columnar/row-encoder.ts";
import { isTable, linesOf, placeOf } from "./data-kinds.ts";
import { type OpenRows, openRows } from "./file-rows.ts";
import type { ResolvedFileOptions, TableShape } from "./options.ts";
import { shownPath } from "./remote/addresses.ts";
import { type FileFacts, factsOf } from "./remote/file-facts.ts";
import { Sample } from "./sample.ts";
import type { FileRows } from "./source-rows.ts";
import { KeyCollector, type KeyColumn, type SplitKeys } from "./split-keys.ts";
import { DamageCount } from "./tables/damage.ts";
import { targetsOf } from "./targets.ts";
import { denseOf } from "./text/columns.ts";
import { BadLines, named, sentenceOf } from "./text/faults.ts";
import { TextFacts } from "./text/text-facts.ts";
import { type CompiledTransforms, transformsFor } from "./transforms/compile.ts";

/** The part of a cache's description that is derived from the rows of files. */
export interface WrittenFiles
  extends Pick<CacheMeta, "quarantine" | "means" | "warnings" | "values" | "pieces"> {
  /** SHA-256 of each file, hex, as `OpenRows.sha256`; undefined for a file that was left out. */
  readonly hashes: readonly (string | undefined)[];
  /** Samples of each file. */
  readonly counts: readonly number[];
  /** The keys of the samples, if a column splits the data. */
  readonly keys?: SplitKeys;
}

/**
 * Appends every good row of the files, in order, to the cache. `facts`: facts of the files from
 * which the cache's name was derived. Returns the rest of the cache's description.
 * @throws InvalidOptionError if columns and tables do not match
 * @throws InputUnusableError if a file cannot be read, or there is no good row
 */
export async function writeFiles(
  writer: CacheWriter,
  options: ResolvedFileOptions,
  tables: readonly TableShape[],
  onProgress: (progress: CacheProgress) => void,
  facts: readonly FileFacts[],
  key?: KeyColumn,
): Promise<WrittenFiles> {
  const collector = key && new KeyCollector(key);
  const bad = new BadLines(options.quarantineMax);
  const damage = isTable(options) ? new DamageCount(options, bad) : undefined;
  const about = new TextFacts();
  const transforms = transformsFor(options);
  const given = { sink: writer, sample: writer.newSample(), about, bad, collector, transforms };
  const bytesTotal = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  let bytesBefore = 0;
  const hashes: (string | undefined)[] = [];
  const counts: number[] = [];
  const pieces: Piece[] = [];
  for (const [place, address] of options.paths.entries()) {
    const before = { samples: writer.samples, bad: bad.count };
    const file = await openRows(address, options, tables, { key, facts: facts[place], damage });
    if (file !== undefined) {
      try {
        await appendFile(file, place, given, (rows, samples) => {
          addPiece(pieces, place, pieceNumberOf(rows), samples);
          const fraction = (bytesBefore + rows.bytesRead) / bytesTotal;
          onProgress({ samples: writer.samples, quarantined: bad.count, fraction });
          return false;
        });
        if (writer.samples === before.samples) {
          const word = isTable(options) ? "row" : "line";
          about.addEmptyFile(file.path, bad.count - before.bad, word);
        }
      } finally {
        await file.close();
      }
    }
    bytesBefore += facts[place]?.bytes ?? 0;
    hashes.push(file?.sha256());
    counts.push(writer.samples - before.samples);
  }
  if (writer.samples === 0) throw noSamples(options, bad);
  const keys = collector && { keys: collector.keys() };
  const own = { quarantine: bad.summary(), ...about.meta(), hashes, counts };
  return { ...own, ...(isTable(options) && { pieces }), ...keys };
}

/** Receives samples in order. */
export interface SampleSink {
  readonly samples: number;
  append(sample: Sample): void;
  appendRecords(records: PlainRecords, first: number, count: number): void;
}

/** The receivers of the rows of a file. */
export interface RowsTo {
  readonly sink: SampleSink;
  /** Scratch memory for a sample. */
  readonly sample: Sample;
  readonly about: TextFacts;
  readonly bad: BadLines;
  readonly collector?: KeyCollector | undefined;
  readonly transforms: CompiledTransforms | undefined;
  /** Called before the rows of a batch. */
  begin?(rows: FileRows): void;
}

/**
 * Appends every good row of an open file. `place`: its index among the files. `onBatch` is called
 * after each batch with the number of its samples, and returns true to stop.
 * @throws as the batches of `OpenRows`
 */
export async function appendFile(
  file: OpenRows,
  place: number,
  { sink, sample, about, bad, collector, transforms, begin }: RowsTo,
  onBatch: (rows: FileRows, samples: number) => boolean,
): Promise<void> {
  let encoder: RowEncoder | undefined;
  for await (const rows of file.batches) {
    begin?.(rows);
    encoder ??= createRowEncoder(about.of(rows.columns), rows.header, collector, transforms);
    const { batch, isWanted } = rows;
    const { isKept, encode, records } = encoder;
    encoder.begin(batch, place);
    const samplesBefore = sink.samples;
    const isTaken = (row: number) => isWanted(row) && isKept(row);
    let plain: PlainRecords | undefined;
    for (let row = 0; row < batch.rows; row++) {
      // The fast path does not collect split keys.
      if (collector === undefined && about.needsRecordsAlone) {
        plain ??= records() ?? noRecords;
      }
      const count = plain === undefined ? 0 : plainFrom(plain, row, batch.rows, isTaken);
      if (plain !== undefined && count > 0) {
        sink.appendRecords(plain, row, count);
        about.addRecords(plain, row, count);
        row += count - 1;
        continue;
      }
      if (!isTaken(row)) continue;
      const fault = encode(sample, row);
      if (fault === undefined) {
        sink.append(sample);
        about.add(sample);
        collector?.keep();
      } else {
        bad.add(file.path, rows.lineOf(row), fault, rows.place);
        about.drop();
      }
    }
    if (onBatch(rows, sink.samples - samplesBefore) === true) return;
  }
}

/** Index of the row group or record batch of a batch; 0 in text. */
export function pieceNumberOf({ place: { rowGroup, recordBatch } }: FileRows): number {
  return recordBatch ?? rowGroup ?? 0;
}

/** Adds samples to a piece, whose rows may come in several batches. */
function addPiece(pieces: Piece[], file: number, rowGroup: number, samples: number): void {
  const last = pieces.at(-1);
  const isSame = last?.file === file && last.rowGroup === rowGroup;
  const before = isSame ? (pieces.pop()?.samples ?? 0) : 0;
  pieces.push({ file, rowGroup, samples: before + samples });
}

/** Message parts for files without any row or line. */
const emptyWords = {
  arrow: "has no row, or none that `where` wants",
  "criteo-tsv": "is empty",
  csv: "has a header, and no line below it",
  jsonl: "has no line",
  parquet: "has no row, or none that `where` wants",
} as const;

/** The error of files without a good line or row. */
export function noSamples(options: ResolvedFileOptions, bad: BadLines): InputUnusableError {
  const { kind, paths } = options;
  const { count, reasons } = bad.summary();
  const [first] = reasons;
  const path = paths.map(shownPath).join(", ");
  if (count === 0) return new InputUnusableError(path, `${named(paths)} ${emptyWords[kind]}`);
  const example = first === undefined ? "" : `; ${placeOf(first)}: ${sentenceOf(first)}`;
  const advice = first?.advice === undefined ? "" : `; ${first.advice}`;
  const message = `${named(paths)} has no good ${linesOf({ kind }).slice(0, -1)}, and ${count} bad ones${example}${advice}`;
  return new InputUnusableError(path, message);
}

/** The result of a preview. */
export interface FilesLook {
  readonly files: number;
  /** Total size of the readable files, in bytes. */
  readonly bytes: number;
  /** A sentence for each unusable file, and for each column that a file lacks. */
  readonly problems: readonly string[];
  /** Number of good rows among the previewed rows. */
  readonly samples: number;
  readonly labels: LabelLook;
  readonly rejected: Pick<CacheMeta["quarantine"], "count" | "reasons">;
  /** Value counts of columns whose values may share rows of tables, in the previewed rows. */
  readonly values: CacheMeta["values"];
  readonly warnings: CacheMeta["warnings"];
}

/** Statistics of the labels of the previewed rows. */
export class LabelLook {
  /** Rows whose first label is 1, if it is a class. */
  positives = 0;
  /** Least and greatest value of the first label. */
  readonly range: [number, number] = [Infinity, -Infinity];
  /** Number of rows that have each label. */
  readonly labelled: number[] = [];

  /** Adds the labels of the next good row; a missing label is NaN. */
  add({ labels, label }: Pick<Sample, "labels" | "label">): void {
    for (const [i, one] of labels.entries()) {
      this.labelled[i] = (this.labelled[i] ?? 0) + (Number.isNaN(one) ? 0 : 1);
    }
    if (Number.isNaN(label)) return;
    if (label === 1) this.positives++;
    this.range[0] = Math.min(this.range[0], label);
    this.range[1] = Math.max(this.range[1], label);
  }
}

/** Least number of rows previewed per file, however many files there are. */
const rowsMin = 100;

/**
 * Previews the first rows of all files, about `rowsMax` in total. All problems are found in one go:
 * unreadable files, missing columns, and bad rows.
 */
export async function lookAtFiles(
  options: ResolvedFileOptions,
  tables: readonly TableShape[],
  rowsMax: number,
  key?: KeyColumn,
): Promise<FilesLook> {
  const keys = key && new KeyCollector(key);
  const problems: string[] = [];
  const transforms = transformsFor(options);
  const bad = new BadLines(0);
  const damage = isTable(options) ? new DamageCount(options, bad) : undefined;
  const targets = targetsOf(options);
  const sample = new Sample({ dense: denseOf(options), features: tables.length, targets });
  const ofFile = Math.max(rowsMin, Math.floor(rowsMax / options.paths.length));
  const about = new TextFacts();
  let [bytes, samples] = [0, 0];
  const labels = new LabelLook();
  for (const address of options.paths) {
    try {
      bytes += (await factsOf(address)).bytes;
      const file = await openRows(address, options, tables, { key, damage });
      let encoder: RowEncoder | undefined;
      let left = ofFile;
      try {
        for await (const rows of file?.batches ?? []) {
          encoder ??= createRowEncoder(about.of(rows.columns), rows.header, keys, transforms);
          encoder.begin(rows.batch);
          for (let row = 0; row < rows.batch.rows && left > 0; row++) {
            if (!rows.isWanted(row)) continue;
            left--;
            const fault = encoder.encode(sample, row);
            if (fault !== undefined) {
              bad.add(shownPath(address), rows.lineOf(row), fault, rows.place);
              about.drop();
            } else {
              about.add(sample);
              samples++;
              labels.add(sample);
            }
          }
          if (left === 0) break;
        }
      } finally {
        await file?.close();
      }
    } catch (error) {
      problems.push(...problemsOf(error, address));
    }
  }
  const { count, reasons } = bad.summary();
  if (problems.length + samples + count === 0) problems.push(noSamples(options, bad).message);
  const { values, warnings } = about.meta();
  const found = { bytes, problems, samples, labels, rejected: { count, reasons } };
  return { files: options.paths.length, ...found, values, warnings };
}

/** The messages of an error about a file. @throws the error itself, if the file is not at fault */
function problemsOf(error: unknown, path: string): string[] {
  if (error instanceof InvalidOptionError) return error.problems.map(({ message }) => message);
  if (error instanceof InputUnusableError) return [error.message];
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined || !(error instanceof Error)) throw error;
  return [`Cannot read the data file ${shownPath(path)}: ${error.message}`];
}
