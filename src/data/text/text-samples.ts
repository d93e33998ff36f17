// Reads text files into the cache. Bad lines go to the quarantine and do not affect others.

import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { InputUnusableError } from "../../errors/errors.ts";
import type { CacheMeta, QuarantinedLine } from "../cache/cache-format.ts";
import type { CacheProgress, CacheWriter } from "../cache/cache-writer.ts";
import type { ResolvedCriteoTsvOptions, ResolvedCsvOptions, TableShape } from "../options.ts";
import { type Columns, criteoColumns, csvColumns } from "./columns.ts";
import { decodeLine, decodeText, splitLine } from "./line-decoder.ts";
import { lineBytesMax, readLines } from "./text-lines.ts";

/**
 * Appends every good line of the files, in order, to the cache. Returns the quarantined lines.
 * @throws InvalidOptionError where columns and tables do not match
 * @throws InputUnusableError where a file cannot be read, or there is no good line
 */
export async function writeText(
  writer: CacheWriter,
  options: ResolvedCriteoTsvOptions | ResolvedCsvOptions,
  tables: readonly TableShape[],
  onProgress: (progress: CacheProgress) => void,
): Promise<CacheMeta["quarantine"]> {
  const sample = writer.newSample();
  const kept: QuarantinedLine[] = [];
  let count = 0;
  const sizes = options.paths.map((path) => statSync(path).size);
  const bytesTotal = sizes.reduce((sum, size) => sum + size, 0);
  let bytesBefore = 0;
  for (const [place, path] of options.paths.entries()) {
    let columns = options.kind === "csv" ? undefined : criteoColumns(tables);
    for await (const { firstLine, lines, bytesRead } of readLines(path)) {
      for (const [index, line] of lines.entries()) {
        if (line === "") continue;
        if (columns === undefined) {
          assert(options.kind === "csv", "only a CSV file has a header");
          columns = headerColumns(options, tables, path, line);
          continue;
        }
        const tooLong = `longer than ${lineBytesMax} bytes`;
        const reason = line === undefined ? tooLong : decodeLine(sample, line, columns);
        if (reason === undefined) {
          writer.append(sample);
          continue;
        }
        count++;
        if (count > options.quarantineMax) continue;
        kept.push({ file: path, line: firstLine + index, reason });
      }
      const fraction = (bytesBefore + bytesRead) / bytesTotal;
      onProgress({ samples: writer.samples, quarantined: count, fraction });
    }
    if (columns === undefined) throw new InputUnusableError(path, `The data file ${path} is empty`);
    bytesBefore += sizes[place] ?? 0;
  }
  if (writer.samples === 0) throw noSamples(options.paths, count, kept[0]);
  return { count, kept };
}

function headerColumns(
  options: ResolvedCsvOptions,
  tables: readonly TableShape[],
  path: string,
  line: string | undefined,
): Columns {
  const names = line === undefined ? "it is too long" : splitLine(line, options.delimiter, true);
  if (typeof names === "string") {
    throw new InputUnusableError(path, `The header of the data file ${path} is unusable: ${names}`);
  }
  return csvColumns(options, tables, path, names.map(decodeText));
}

function noSamples(
  paths: readonly string[],
  count: number,
  first: QuarantinedLine | undefined,
): InputUnusableError {
  const path = paths.join(", ");
  const why = first === undefined ? "" : `; ${first.file}, line ${first.line}: ${first.reason}`;
  return new InputUnusableError(path, `${path} has no good line, and ${count} bad ones${why}`);
}
