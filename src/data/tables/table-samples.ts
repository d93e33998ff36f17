// Reads columnar files into the cache, and previews their first rows. Bad rows go to the
// quarantine, with file, piece and row, and do not affect other rows.

import type { Piece } from "../cache/cache-format.ts";
import type { CacheProgress, CacheWriter } from "../cache/cache-writer.ts";
import { noRecords, type PlainRecords, plainFrom } from "../columnar/plain-records.ts";
import { createRowEncoder } from "../columnar/row-encoder.ts";
import { pieceOf } from "../data-kinds.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import { type FileFacts, factsOf } from "../remote/file-facts.ts";
import { changed } from "../remote/web-requests.ts";
import { Sample } from "../sample.ts";
import type { KeyColumn, SplitKeys } from "../split-keys.ts";
import { targetsOf } from "../targets.ts";
import { denseOf } from "../text/columns.ts";
import { BadLines } from "../text/faults.ts";
import { lineTransforms } from "../text/made-lines.ts";
import { LabelLook, problemsOf, type TextLook } from "../text/sample-text.ts";
import { KeyCollector } from "../text/split-keys.ts";
import { TextFacts } from "../text/text-facts.ts";
import { noSamples, type TextMeta } from "../text/text-samples.ts";
import { DamageCount } from "./damage.ts";
import { openTable } from "./open-table.ts";
import { newReport, type TableFile } from "./table-file.ts";
import { isInWanted, wantedRows } from "./wanted-rows.ts";

/**
 * Appends every good row of the files, in order, to the cache. Returns the rest of the cache's
 * description, and for each file the SHA-256 of its schema and wanted columns, hex; undefined for a
 * file in an unwanted partition.
 * @throws InvalidOptionError if columns and tables do not match
 * @throws InputUnusableError if a file cannot be read, or there is no good row
 */
export async function writeTables(
  writer: CacheWriter,
  options: ResolvedTableOptions,
  tables: readonly TableShape[],
  onProgress: (progress: CacheProgress) => void,
  facts: readonly FileFacts[],
  key?: KeyColumn,
): Promise<
  TextMeta & {
    readonly hashes: readonly (string | undefined)[];
    readonly counts: readonly number[];
    readonly pieces: readonly Piece[];
    readonly keys?: SplitKeys;
  }
> {
  const sample = writer.newSample();
  const collector = key && new KeyCollector(key);
  const transforms = lineTransforms(options);
  const bad = new BadLines(options.quarantineMax);
  const damage = new DamageCount(options, bad);
  const about = new TextFacts();
  const sizes = facts.map(({ bytes }) => bytes);
  const bytesTotal = sizes.reduce((sum, size) => sum + size, 0);
  let bytesBefore = 0;
  const hashes: (string | undefined)[] = [];
  const pieces: Piece[] = [];
  for (const [place, path] of options.paths.entries()) {
    if (!isInWanted(path, options)) {
      bytesBefore += sizes[place] ?? 0;
      hashes.push(undefined);
      continue;
    }
    const opened = await openTable(path, options, tables, key).catch((error) => {
      damage.addFile(shownPath(path), error);
    });
    if (opened === undefined) {
      bytesBefore += sizes[place] ?? 0;
      hashes.push(undefined);
      continue;
    }
    const { columns, header } = opened;
    try {
      checkSame(opened, facts[place]);
      const encoder = createRowEncoder(about.of(columns), header, collector, transforms);
      const before = { samples: writer.samples, bad: bad.count };
      const report = newReport();
      const rows = wantedRows(opened, { report, onDamage: damage.of(opened.path) });
      for await (const { batch, isWanted } of rows) {
        encoder.begin(batch, place);
        const samplesBefore = writer.samples;
        const isTaken = (row: number) => isWanted(row) && encoder.isKept(row);
        let plain: PlainRecords | undefined;
        for (let row = 0; row < batch.rows; row++) {
          // The fast path does not collect split keys.
          if (collector === undefined && about.needsRecordsAlone) {
            plain ??= encoder.records() ?? noRecords;
          }
          const count = plain === undefined ? 0 : plainFrom(plain, row, batch.rows, isTaken);
          if (plain !== undefined && count > 0) {
            writer.appendRecords(plain, row, count);
            about.addRecords(plain, row, count);
            row += count - 1;
            continue;
          }
          if (!isTaken(row)) continue;
          const fault = encoder.encode(sample, row);
          if (fault === undefined) {
            writer.append(sample);
            about.add(sample);
            collector?.keep();
          } else {
            bad.add(opened.path, batch.firstRow + row + 1, fault, pieceOf(options, batch.rowGroup));
            about.drop();
          }
        }
        addPiece(pieces, place, batch.rowGroup ?? 0, writer.samples - samplesBefore);
        const done = (batch.firstRow + batch.rows) / opened.rows;
        const fraction = (bytesBefore + (sizes[place] ?? 0) * done) / bytesTotal;
        onProgress({ samples: writer.samples, quarantined: bad.count, fraction });
      }
      const { samples } = writer;
      if (samples === before.samples)
        about.addEmptyFile(opened.path, bad.count - before.bad, "row");
      bytesBefore += sizes[place] ?? 0;
      hashes.push(report.sha256);
    } finally {
      await opened.close();
    }
  }
  if (writer.samples === 0) throw noSamples(options, bad);
  const keys = collector && { keys: collector.keys() };
  const counts = options.paths.map(() => 0);
  for (const { file, samples } of pieces) counts[file] = (counts[file] ?? 0) + samples;
  return { quarantine: bad.summary(), ...about.meta(), hashes, counts, pieces, ...keys };
}

/** Checks that a remote file is still the version by which the cache is named. */
function checkSame({ path, size, tag }: TableFile, facts: FileFacts | undefined): void {
  if (tag === undefined || (size === facts?.bytes && tag === facts.version)) return;
  throw changed(path);
}

/** Adds samples to a piece, whose rows may come in several batches. */
function addPiece(pieces: Piece[], file: number, rowGroup: number, samples: number): void {
  const last = pieces.at(-1);
  const isSame = last?.file === file && last.rowGroup === rowGroup;
  const before = isSame ? (pieces.pop()?.samples ?? 0) : 0;
  pieces.push({ file, rowGroup, samples: before + samples });
}

/** Least number of rows previewed per file, however many files there are. */
const rowsMin = 100;

/** Previews the first rows of all files, about `rowsMax` in total. */
export async function lookAtTables(
  options: ResolvedTableOptions,
  tables: readonly TableShape[],
  rowsMax: number,
  key?: KeyColumn,
): Promise<TextLook> {
  const keys = key && new KeyCollector(key);
  const problems: string[] = [];
  const transforms = lineTransforms(options);
  const bad = new BadLines(0);
  const damage = new DamageCount(options, bad);
  const sample = new Sample({
    dense: denseOf(options),
    features: tables.length,
    targets: targetsOf(options),
  });
  const ofFile = Math.max(rowsMin, Math.floor(rowsMax / options.paths.length));
  const about = new TextFacts();
  let [bytes, samples] = [0, 0];
  const labels = new LabelLook();
  for (const path of options.paths) {
    try {
      bytes += (await factsOf(path)).bytes;
      if (!isInWanted(path, options)) continue;
      const opened = await openTable(path, options, tables, key).catch((error) => {
        damage.addFile(shownPath(path), error);
      });
      if (opened === undefined) continue;
      const { columns, header } = opened;
      try {
        const encoder = createRowEncoder(about.of(columns), header, keys, transforms);
        let left = ofFile;
        const rows = wantedRows(opened, { onDamage: damage.of(opened.path) });
        for await (const { batch, isWanted } of rows) {
          encoder.begin(batch);
          for (let row = 0; row < batch.rows && left > 0; row++) {
            if (!isWanted(row)) continue;
            left--;
            const fault = encoder.encode(sample, row);
            if (fault !== undefined) {
              const piece = pieceOf(options, batch.rowGroup);
              bad.add(opened.path, batch.firstRow + row + 1, fault, piece);
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
        await opened.close();
      }
    } catch (error) {
      problems.push(...problemsOf(error, path));
    }
  }
  const { count, reasons } = bad.summary();
  const rejected = { count, reasons };
  const { values, warnings } = about.meta();
  const found = { bytes, problems, samples, labels, rejected, values, warnings };
  return { files: options.paths.length, ...found };
}
