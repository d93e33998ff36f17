// The bench of deduplication: of indexes (tables' `dedup`), and of whole lists (RecD), from the log
// to storage. It joins several parts, and has the options of all.

import type { Bench, Measurement } from "../bench.ts";
import { dedupBench as indexBench } from "../step/dedup.bench.ts";
import { factorBench } from "./factor.bench.ts";
import { logBench } from "./log.bench.ts";
import { offBench } from "./off.bench.ts";
import { readerBench } from "./reader.bench.ts";
import { storageBench } from "./storage.bench.ts";
import { trainBench } from "./train.bench.ts";

/** Each part reads its own options, and ignores those of others. */
const parts: readonly Bench[] = [
  indexBench,
  factorBench,
  logBench,
  storageBench,
  readerBench,
  trainBench,
  offBench,
];

export const dedupBench: Bench = {
  question: "index deduplication, and RecD: repeated lists in logs, tables and batches",
  options: [
    ...new Map(
      parts.flatMap(({ options }) => options).map((option) => [option.long, option]),
    ).values(),
  ],
  full: Object.assign({}, ...parts.map(({ full }) => full)),
  measurements(options) {
    return parts.flatMap((part): readonly Measurement[] => part.measurements(options));
  },
};
