// Writes generated sessions as JSON Lines: a line per sample, with its session, time and lists.
// Most features belong to the user, and their lists rarely change within a session; the others
// belong to the item, and change with every sample.

import { checkOptions } from "../../ports/check-options.ts";
import { mix32 } from "../murmur-hash.ts";
import { syntheticOptions } from "../options.ts";
import type { Sample } from "../sample.ts";
import { writeGeneratedLines } from "./generated-lines.ts";
import { Sessions } from "./sessions.ts";
import type { GeneratedReport } from "./synthetic.ts";

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
 * Writes generated samples as JSON Lines with `session`, `time`, `label`, the user's lists `user1`
 * … `user8` and the item's `item1` and `item2`.
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
