// Writes generated samples as lines of text: the click log of docs/tutorial.md, sessions as JSON
// Lines, and Criteo text, to exercise the whole path from text without real data.

import { closeSync, openSync, writeFileSync } from "node:fs";
import { InputUnusableError } from "../../errors/errors.ts";
import { checkOptions, expected } from "../../ports/check-options.ts";
import { mix32 } from "../murmur-hash.ts";
import { type ResolvedSyntheticOptions, syntheticOptions, type TableShape } from "../options.ts";
import type { Sample } from "../sample.ts";
import { criteo } from "../sources.ts";
import { Sessions } from "./sessions.ts";
import { type GeneratedReport, generateSamples } from "./synthetic.ts";

const linesAtOnce = 4096;

/** The samples and the format of a generated text file. */
export interface GeneratedLines {
  readonly options: ResolvedSyntheticOptions;
  readonly tables: readonly TableShape[];
  /** The first line. @default none */
  readonly header?: string | undefined;
  /** The line of the sample at `index`, without the line break. */
  lineOf(sample: Sample, index: number): string;
  /** Called every 4096 samples, with the number of samples written so far. */
  onProgress?: ((samples: number) => void) | undefined;
}

/** Writes the samples to `path`. @throws InputUnusableError if it cannot be written */
export function writeGeneratedLines(from: GeneratedLines, path: string): GeneratedReport {
  const { options, tables, onProgress } = from;
  try {
    const descriptor = openSync(path, "w");
    try {
      let lines: string[] = from.header === undefined ? [] : [from.header];
      let written = 0;
      let index = 0;
      const report = generateSamples(options, tables, (sample) => {
        lines.push(from.lineOf(sample, index++));
        if (lines.length < linesAtOnce) return;
        writeFileSync(descriptor, `${lines.join("\n")}\n`);
        written += lines.length;
        lines = [];
        onProgress?.(written);
      });
      if (lines.length > 0) writeFileSync(descriptor, `${lines.join("\n")}\n`);
      return report;
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot write samples to ${path}: ${reason}`, { cause });
  }
}

/** Options of `writeClickLines`. */
export interface ClickLinesOptions {
  readonly samples: number;
  /** @default 1 */
  readonly seed?: number;
}

const pages = ["home", "shoes", "hats", "sale", "bags", "coats"];
const features = { user: 300, page: pages.length, tags: pages.length };
const tables = Object.entries(features).map(([name, rows]) => ({ name, rows }));

/**
 * Writes generated samples as CSV with `clicked`, `price`, `age`, which is missing in one line of
 * five, `user`, `page` and up to three `tags`. A truth is planted, as in all generated data.
 * @throws InvalidOptionError
 * @throws InputUnusableError if the file cannot be written
 */
export function writeClickLines(given: ClickLinesOptions, path: string): GeneratedReport {
  const options = checkOptions(syntheticOptions, {
    ...{ kind: "synthetic", ...given, dense: 2, batchSize: 1 },
    perFeature: { tags: { idsPerBag: { min: 1, max: 3 } } },
  });
  const header = "clicked,price,age,user,page,tags";
  return writeGeneratedLines({ options, tables, header, lineOf: clickLine }, path);
}

function clickLine({ label, dense, ids }: Sample, index: number): string {
  const [user = 0, page = 0, ...tags] = ids;
  const [price = 0, age = 0] = dense;
  const years = Math.round(Math.min(90, Math.max(16, 38 + 12 * age)));
  const fields = [
    label,
    Math.exp(2.5 + 0.6 * price).toFixed(2),
    index % 5 === 1 ? "" : years,
    `u${1000 + user}`,
    pages[page],
    [...new Set(tags)].map((tag) => pages[tag]).join("|"),
  ];
  return fields.join(",");
}

/** Time of the first sample, in milliseconds since 1970, and milliseconds per tick. */
const [firstTime, tickMs] = [1_750_000_000_000, 10];
/** Probability that a sample repeats the list before, for each list of the user. */
const kept = [0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 1];
const userIds = 26;
const items = 2;
const itemIds = 10;

/** Options of `writeSessionLines`. */
export interface SessionLinesOptions {
  readonly samples: number;
  /** Mean samples of a session. @default 16.5 */
  readonly mean?: number;
  /** Samples of every session, instead of `mean`. */
  readonly fixed?: number | undefined;
  /** Probability that each list of the user stays. @default from 0.9 to 1 */
  readonly d?: number | undefined;
  /** @default "time" */
  readonly order?: "session" | "time";
  /** Distinct ids of each feature. @default 10000 */
  readonly rows?: number;
  /** @default 1.05 */
  readonly zipf?: number;
  /** @default 1 */
  readonly seed?: number;
  /** Called every 4096 samples, with the number of samples written so far. */
  readonly onProgress?: (samples: number) => void;
}

/**
 * Writes generated sessions as JSON Lines, a line per sample, with `session`, `time`, `label`, the
 * user's lists `user1` … `user8`, which rarely change within a session, and the item's `item1` and
 * `item2`, which change with every sample.
 * @throws InvalidOptionError
 * @throws InputUnusableError if the file cannot be written
 */
export function writeSessionLines(options: SessionLinesOptions, path: string): GeneratedReport {
  const { rows = 10_000, onProgress, mean, fixed, d: same, order = "time", ...rest } = options;
  const users = kept.map((d, i) => ({ name: `user${i + 1}`, d: same ?? d, l: userIds }));
  const ofItems = Array.from({ length: items }, (_, i) => `item${i + 1}`);
  const names = [...users.map(({ name }) => name), ...ofItems];
  const tables = names.map((name) => ({ name, rows, dim: 1 }));
  const features = Object.fromEntries(users.map(({ name, d, l }) => [name, { d, l }]));
  const length = fixed === undefined ? { mean: mean ?? 16.5 } : { samples: fixed };
  const checked = checkOptions(syntheticOptions, {
    ...{ kind: "synthetic", ...rest, dense: 0, batchSize: 1, idsPerBag: itemIds },
    sessions: { ...length, order, features },
  });
  const { seed, samples, sessions = { features: {}, order, ...length } } = checked;
  const places = new Sessions({ seed, samples, sessions, features: names });
  const lineOf = (sample: Sample, index: number): string => {
    const place = places.placeOf(index);
    const fields = [
      `"session":${mix32(place.session)}`,
      `"time":${firstTime + tickMs * places.timeOf(place)}`,
      `"label":${sample.label}`,
    ];
    let first = 0;
    for (const [feature, name] of names.entries()) {
      const end = first + (sample.lengths[feature] ?? 0);
      fields.push(`"${name}":[${sample.ids.subarray(first, end).join(",")}]`);
      first = end;
    }
    return `{${fields.join(",")}}`;
  };
  return writeGeneratedLines({ options: checked, tables, lineOf, onProgress }, path);
}

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
