// The Zipf exponent fitted to counted ids, against the exponent that they were drawn with.

import test from "ava";
import { StatisticsCollector } from "../../../src/data/cache/feature-statistics.ts";
import { Sample } from "../../../src/data/sample.ts";
import { Zipf } from "../../../src/data/synthetic/zipf.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { fittedZipf } from "../../../src/training/planning/workload.ts";

/** The statistics of bags of three random ids each. */
function countedOf(rows: number, exponent: number, samples: number) {
  const [random, zipf] = [new RandomStream(9, 1), new Zipf(rows, exponent)];
  const collector = new StatisticsCollector([false]);
  const sample = new Sample({ dense: 0, features: 1 });
  for (let i = 0; i < samples; i++) {
    sample.clear();
    for (let n = 0; n < 3; n++)
      sample.push(
        0,
        zipf.draw(() => random.uniform()),
      );
    collector.add(sample);
  }
  const [counted] = collector.finish();
  if (counted === undefined) throw new Error("one feature");
  return counted;
}

test("the exponent is found to 0.03 from exact counts, and to 0.06 from sampled ones", (t) => {
  for (const exponent of [0.6, 0.8, 1.05, 1.3]) {
    // Full windows of up to 200,000 draws: a few thousand distinct ids, and tens of thousands.
    for (const [rows, samples, tolerance] of [
      [5000, 5000, 0.03],
      [1_000_000, 65_536, 0.06],
    ] as const) {
      const fitted = fittedZipf(countedOf(rows, exponent, samples), rows) ?? Number.NaN;
      t.true(Math.abs(fitted - exponent) < tolerance, `${exponent} of ${rows} rows: ${fitted}`);
    }
  }
});

test("without ids there is no exponent; equal ids give the largest, distinct ids 0", (t) => {
  const [none, one, each] = [0, 1, 3].map((ids) => {
    const collector = new StatisticsCollector([false]);
    const sample = new Sample({ dense: 0, features: 1 });
    for (let i = 0; i < 900; i++) {
      sample.clear();
      if (ids > 0) sample.push(0, ids === 1 ? 4 : i);
      collector.add(sample);
    }
    return collector.finish()[0];
  });
  const fitted = [none, one, each].map((counted) => counted && fittedZipf(counted, 1000));
  t.is(fitted[0], undefined);
  t.true((fitted[1] ?? 0) > 1.99 && (fitted[2] ?? 1) < 0.01, `${fitted}`);
});
