// Writes generated samples as a Criteo text file, to exercise the whole path from text without real
// data.

import { checkOptions, expected } from "../../ports/check-options.ts";
import { mix32 } from "../murmur-hash.ts";
import { syntheticOptions } from "../options.ts";
import type { Sample } from "../sample.ts";
import { criteo } from "../sources.ts";
import { writeGeneratedLines } from "./generated-lines.ts";
import type { GeneratedReport } from "./synthetic.ts";

/** Options of `writeSyntheticTsv`. */
export interface SyntheticTsvOptions {
  readonly samples: number;
  /** Distinct ids of each of the 26 features. @default 10000 */
  readonly rows?: number;
  /** @default 1.05 */
  readonly zipf?: number;
  /** @default 1 */
  readonly seed?: number;
  /** Called every 4096 samples, with the number of samples written so far. */
  readonly onProgress?: (samples: number) => void;
}

/**
 * Writes generated samples as a Criteo text file: integers from the dense features, and eight hex
 * digits for each id.
 * @throws InvalidOptionError
 * @throws InputUnusableError if the file cannot be written
 */
export function writeSyntheticTsv(options: SyntheticTsvOptions, path: string): GeneratedReport {
  const { rows = 10_000, onProgress, ...rest } = options;
  if (!(Number.isInteger(rows) && rows >= 1)) throw expected("rows", "an integer >= 1", rows);
  const tables = criteo.tables({ dim: 1, rows });
  const checked = checkOptions(syntheticOptions, { kind: "synthetic", ...rest, batchSize: 1 });
  return writeGeneratedLines({ options: checked, tables, lineOf: criteoLine, onProgress }, path);
}

function criteoLine(sample: Sample): string {
  const fields = [String(sample.label)];
  // Approximately the inverse of the reader's log(1 + x), with the dense feature shifted up by one.
  for (const value of sample.dense) {
    fields.push(String(Math.max(0, Math.round(Math.expm1(value + 1)))));
  }
  for (let feature = 0; feature < sample.lengths.length; feature++) {
    fields.push(hexOf(mix32((sample.ids[feature] ?? 0) + 1)));
  }
  return fields.join("\t");
}

/** The byte values as two hex digits. */
const hexBytes = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Eight hex digits, by table: `toString(16)` is many times slower beyond 31 bits. */
function hexOf(bits: number): string {
  const [a, b] = [hexBytes[bits >>> 24] ?? "", hexBytes[(bits >>> 16) & 255] ?? ""];
  const [c, d] = [hexBytes[(bits >>> 8) & 255] ?? "", hexBytes[bits & 255] ?? ""];
  return `${a}${b}${c}${d}`;
}
