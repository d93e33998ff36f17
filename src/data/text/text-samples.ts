// Reads text files into the cache. Bad lines go to the quarantine and do not affect others.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { InputUnusableError } from "../../errors/errors.ts";
import type { CacheMeta } from "../cache/cache-format.ts";
import type { CacheProgress, CacheWriter } from "../cache/cache-writer.ts";
import type { ResolvedCriteoTsvOptions, ResolvedCsvOptions, TableShape } from "../options.ts";
import type { Sample } from "../sample.ts";
import { type Columns, criteoColumns, csvColumns, meanFeatures } from "./columns.ts";
import { BadLines, type Fault, named, sentenceOf } from "./faults.ts";
import { headerNames } from "./header.ts";
import { LeakageWatch } from "./leakage.ts";
import { decodeLine } from "./line-decoder.ts";
import { lineBytesMax, readLines } from "./text-lines.ts";

/** The description of text in a cache, beside that of its samples. */
export type TextMeta = Pick<CacheMeta, "quarantine" | "means" | "warnings">;

/**
 * Appends every good line of the files, in order, to the cache. Returns what else is to be known,
 * and the SHA-256 of each file's text, hex.
 * @throws InvalidOptionError where columns and tables do not match
 * @throws InputUnusableError where a file cannot be read, or there is no good line
 */
export async function writeText(
  writer: CacheWriter,
  options: ResolvedCriteoTsvOptions | ResolvedCsvOptions,
  tables: readonly TableShape[],
  onProgress: (progress: CacheProgress) => void,
): Promise<TextMeta & { readonly hashes: readonly string[] }> {
  const sample = writer.newSample();
  const bad = new BadLines(options.quarantineMax);
  const about = new TextFacts();
  const sizes = options.paths.map((path) => statSync(path).size);
  const bytesTotal = sizes.reduce((sum, size) => sum + size, 0);
  let bytesBefore = 0;
  const hashes: string[] = [];
  for (const [place, path] of options.paths.entries()) {
    const hash = createHash("sha256");
    let columns = options.kind === "csv" ? undefined : about.of(criteoColumns(tables));
    for await (const { firstLine, lines, bytesRead } of readLines(path, hash)) {
      for (const [index, line] of lines.entries()) {
        if (line === "") continue;
        if (columns === undefined) {
          assert(options.kind === "csv", "only a CSV file has a header");
          columns = about.of(
            csvColumns(options, tables, path, headerNames(path, line, options.delimiter)),
          );
          continue;
        }
        const fault = line === undefined ? tooLong : decodeLine(sample, line, columns);
        if (fault === undefined) {
          writer.append(sample);
          about.add(sample);
        } else {
          bad.add(path, firstLine + index, fault);
        }
      }
      const fraction = (bytesBefore + bytesRead) / bytesTotal;
      onProgress({ samples: writer.samples, quarantined: bad.count, fraction });
    }
    if (columns === undefined) throw new InputUnusableError(path, `The data file ${path} is empty`);
    bytesBefore += sizes[place] ?? 0;
    hashes.push(hash.digest("hex"));
  }
  if (writer.samples === 0) throw noSamples(options.paths, bad);
  return { quarantine: bad.summary(), ...about.meta(), hashes };
}

const tooLong: Fault = { kind: `longer than ${lineBytesMax} bytes` };

/** What is found out about the good lines of all files while they are read. */
class TextFacts {
  #columns: Columns | undefined;
  #leakage: LeakageWatch | undefined;
  #meanFeatures: readonly number[] = [];
  /** Sums and counts of the values of each of these features. */
  #sums: number[] = [];
  #counts: number[] = [];

  /** Takes the columns of the next file, and returns them. Names and features are those of all. */
  of(columns: Columns): Columns {
    if (this.#columns !== undefined) return columns;
    this.#columns = columns;
    this.#leakage = new LeakageWatch(columns);
    this.#meanFeatures = meanFeatures(columns);
    this.#sums = this.#meanFeatures.map(() => 0);
    this.#counts = this.#meanFeatures.map(() => 0);
    return columns;
  }

  add(sample: Sample): void {
    this.#leakage?.add(sample);
    for (let i = 0; i < this.#meanFeatures.length; i++) {
      const value = sample.dense[this.#meanFeatures[i] ?? 0] ?? 0;
      if (Number.isNaN(value)) continue;
      this.#sums[i] = (this.#sums[i] ?? 0) + value;
      this.#counts[i] = (this.#counts[i] ?? 0) + 1;
    }
  }

  meta(): Pick<CacheMeta, "means" | "warnings"> {
    const warnings = this.#leakage?.warnings() ?? [];
    if (this.#meanFeatures.length === 0) return { warnings };
    const means: { [feature: number]: number } = {};
    for (const [i, at] of this.#meanFeatures.entries()) {
      const count = this.#counts[i] ?? 0;
      means[at] = count === 0 ? 0 : (this.#sums[i] ?? 0) / count;
      if (count > 0) continue;
      const name = this.#columns?.dense.find((column) => column.at === at)?.name;
      const message = `The column \`${name}\` has no value in any line: its mean is taken as 0`;
      warnings.push({ code: "COLUMN_EMPTY", message });
    }
    return { means, warnings };
  }
}

function noSamples(paths: readonly string[], bad: BadLines): InputUnusableError {
  const { count, reasons } = bad.summary();
  const [first] = reasons;
  const path = paths.join(", ");
  const example =
    first === undefined ? "" : `; ${first.file}, line ${first.line}: ${sentenceOf(first)}`;
  const advice = first?.advice === undefined ? "" : `; ${first.advice}`;
  const message = `${named(paths)} has no good line, and ${count} bad ones${example}${advice}`;
  return new InputUnusableError(path, message);
}
