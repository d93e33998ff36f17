// Reads text files into the cache. Bad lines go to the quarantine and do not affect others.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { InputUnusableError } from "../../errors/errors.ts";
import type { CacheMeta } from "../cache/cache-format.ts";
import type { CacheProgress, CacheWriter } from "../cache/cache-writer.ts";
import { type PlainRecords, plainFrom } from "../columnar/plain-records.ts";
import { linesOf, placeOf } from "../data-kinds.ts";
import type { ResolvedFileOptions, ResolvedTextOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import type { FileFacts } from "../remote/file-facts.ts";
import type { KeyColumn, SplitKeys } from "../split-keys.ts";
import { byteDecoder, type DecodeBytes } from "./bytes/byte-decoder.ts";
import { ChunkFields } from "./bytes/field-values.ts";
import { type LineRecords, lineRecords } from "./bytes/line-records.ts";
import { type Columns, csvColumns } from "./columns.ts";
import { BadLines, type LineFault, named, sentenceOf } from "./faults.ts";
import { headerNames } from "./header.ts";
import { decodeLine } from "./line-decoder.ts";
import type { BagReaders } from "./made-features.ts";
import { lineTransforms, MadeLines } from "./made-lines.ts";
import { KeyCollector } from "./split-keys.ts";
import { TextFacts } from "./text-facts.ts";
import { columnsAtOnce } from "./text-fields.ts";
import { lineBytesMax, readByteLines } from "./text-lines.ts";

/** The part of a cache's description that is derived from the lines of text. */
export type TextMeta = Pick<CacheMeta, "quarantine" | "means" | "warnings" | "values">;

/**
 * Appends every good line of the files, in order, to the cache. `facts`: facts of the files from
 * which the cache's name was derived. Returns the rest of the cache's description, and the SHA-256
 * of each file's text, hex.
 * @throws InvalidOptionError if columns and tables do not match
 * @throws InputUnusableError if a file cannot be read, or there is no good line
 */
export async function writeText(
  writer: CacheWriter,
  options: ResolvedTextOptions,
  tables: readonly TableShape[],
  onProgress: (progress: CacheProgress) => void,
  facts: readonly FileFacts[],
  key?: KeyColumn,
): Promise<
  TextMeta & {
    readonly hashes: readonly string[];
    readonly counts: readonly number[];
    readonly keys?: SplitKeys;
  }
> {
  const sample = writer.newSample();
  const collector = key && new KeyCollector(key);
  const transforms = lineTransforms(options);
  const readers: BagReaders = new Map();
  const bad = new BadLines(options.quarantineMax);
  const about = new TextFacts();
  const bytesTotal = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  let bytesBefore = 0;
  const hashes: string[] = [];
  const counts: number[] = [];
  const delimiter = options.kind === "csv" ? options.delimiter : undefined;
  for (const [place, address] of options.paths.entries()) {
    const path = shownPath(address);
    const hash = createHash("sha256");
    const before = { samples: writer.samples, bad: bad.count };
    const known = columnsAtOnce(options, tables, path, key);
    let columns = known && about.of(known);
    let reader = columns && readerOf(columns, collector);
    for await (const chunk of readByteLines(address, { hash, known: facts[place], delimiter })) {
      const { firstLine, bytesRead } = chunk;
      let next = 0;
      if (columns === undefined || reader === undefined) {
        while (next < chunk.count && chunk.isEmpty(next)) next++;
        if (next === chunk.count) continue;
        assert(options.kind === "csv", "only a CSV file has a header");
        const header = chunk.isTooLong(next) ? undefined : chunk.text(next);
        const names = headerNames(path, header, options.delimiter);
        columns = about.of(csvColumns(options, tables, path, names, key));
        reader = readerOf(columns, collector);
        next++;
      }
      const first = { place, firstLine, header: next };
      const made = transforms && new MadeLines(transforms, columns, chunk.texts(), first, readers);
      const records = made === undefined ? reader.records : undefined;
      let plain: PlainRecords | undefined;
      for (let index = next; index < chunk.count; index++) {
        if (about.needsRecordsAlone) plain ??= records?.(chunk);
        const count = plain === undefined ? 0 : plainFrom(plain, index, chunk.count);
        if (plain !== undefined && count > 0) {
          writer.appendRecords(plain, index, count);
          about.addRecords(plain, index, count);
          index += count - 1;
          continue;
        }
        if (chunk.isEmpty(index) || made?.isKept(index) === false) continue;
        const fault = chunk.isTooLong(index)
          ? tooLong
          : made !== undefined
            ? made.decode(sample, index, collector)
            : about.countsValues
              ? decodeLine(sample, chunk.text(index), columns, collector)
              : reader.decode(sample, chunk, index);
        if (fault === undefined) {
          writer.append(sample);
          about.add(sample);
          collector?.keep();
        } else {
          bad.add(path, chunk.lineOf(index), fault);
          about.drop();
        }
      }
      const fraction = (bytesBefore + bytesRead) / bytesTotal;
      onProgress({ samples: writer.samples, quarantined: bad.count, fraction });
    }
    if (columns === undefined) throw new InputUnusableError(path, `The data file ${path} is empty`);
    if (writer.samples === before.samples) about.addEmptyFile(path, bad.count - before.bad);
    bytesBefore += facts[place]?.bytes ?? 0;
    hashes.push(hash.digest("hex"));
    counts.push(writer.samples - before.samples);
  }
  if (writer.samples === 0) throw noSamples(options, bad);
  const keys = collector && { keys: collector.keys() };
  return { quarantine: bad.summary(), ...about.meta(), hashes, counts, ...keys };
}

interface LineReader {
  readonly decode: DecodeBytes;
  /** Undefined if the fast path does not support the columns. */
  readonly records: LineRecords | undefined;
}

function readerOf(columns: Columns, keys: KeyCollector | undefined): LineReader {
  const chunks = new ChunkFields(columns);
  return { decode: byteDecoder(columns, keys, chunks), records: lineRecords(columns, chunks) };
}

const tooLong: LineFault = { kind: `longer than ${lineBytesMax} bytes` };

/** Message parts for files without any row or line. */
const emptyWords = {
  arrow: "has no row, or none that `where` wants",
  "criteo-tsv": "is empty",
  csv: "has a header, and no line below it",
  jsonl: "has no line",
  parquet: "has no row, or none that `where` wants",
} as const;

/** The error of files without a good line or row. */
export function noSamples(
  { kind, paths }: Pick<ResolvedFileOptions, "kind" | "paths">,
  bad: BadLines,
): InputUnusableError {
  const { count, reasons } = bad.summary();
  const [first] = reasons;
  const path = paths.map(shownPath).join(", ");
  if (count === 0) {
    const rest = emptyWords[kind];
    const message = `${named(paths)} ${rest}`;
    return new InputUnusableError(path, message);
  }
  const example = first === undefined ? "" : `; ${placeOf(first)}: ${sentenceOf(first)}`;
  const advice = first?.advice === undefined ? "" : `; ${first.advice}`;
  const message = `${named(paths)} has no good ${linesOf({ kind }).slice(0, -1)}, and ${count} bad ones${example}${advice}`;
  return new InputUnusableError(path, message);
}
