// Writes the generated click log of docs/tutorial.md as CSV: a price, an age that is missing in one
// line of five, a user, a page and up to three tags. A truth is planted, as in all generated data.

import { checkOptions } from "../../ports/check-options.ts";
import { syntheticOptions } from "../options.ts";
import type { Sample } from "../sample.ts";
import { writeGeneratedLines } from "./generated-lines.ts";
import type { GeneratedReport } from "./synthetic.ts";

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
 * Writes generated samples as CSV with `clicked`, `price`, `age`, `user`, `page` and `tags`.
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
