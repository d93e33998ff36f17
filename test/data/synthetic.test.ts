// The generator of synthetic data: its distributions, and its samples by index.

import { join } from "node:path";
import test from "ava";
import { syntheticOptions } from "../../src/data/options.ts";
import { Sample } from "../../src/data/sample.ts";
import { criteo, synthetic } from "../../src/data/sources.ts";
import { writeSyntheticTsv } from "../../src/data/synthetic/generated-lines.ts";
import { rankAuc } from "../../src/data/synthetic/rank-auc.ts";
import { generateSamples, SyntheticSamples } from "../../src/data/synthetic/synthetic.ts";
import { Zipf } from "../../src/data/synthetic/zipf.ts";
import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { openCached, prepare, readPlain, startDirectory } from "./data-files.ts";

test("ranks are drawn with exactly Zipf's probabilities", (t) => {
  const draws = 100_000;
  for (const exponent of [0, 0.5, 1, 1.05, 2]) {
    const count = 20;
    const stream = new RandomStream(1, purposes.syntheticIds);
    const zipf = new Zipf(count, exponent);
    const seen = new Float64Array(count);
    for (let i = 0; i < draws; i++) {
      const rank = zipf.draw(() => stream.uniform());
      seen[rank] = (seen[rank] ?? 0) + 1;
    }
    const weights = Array.from({ length: count }, (_, rank) => (rank + 1) ** -exponent);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    let chiSquare = 0;
    for (const [rank, weight] of weights.entries()) {
      const mean = (draws * weight) / total;
      chiSquare += ((seen[rank] ?? 0) - mean) ** 2 / mean;
    }
    t.true(chiSquare < 45, `exponent ${exponent}: chi-square ${chiSquare.toFixed(1)}, 19 free`);
  }
});

test("ranks stay within a table of one row and of very many", (t) => {
  const stream = new RandomStream(2, purposes.syntheticIds);
  for (const count of [1, 2, 2 ** 31]) {
    const zipf = new Zipf(count, 1.05);
    for (let i = 0; i < 1000; i++) {
      const rank = zipf.draw(() => stream.uniform());
      t.true(Number.isInteger(rank) && rank >= 0 && rank < count);
    }
  }
});

test("the AUC counts a tie as half", (t) => {
  const positives = [3, 1, 2, 2, 5];
  const negatives = [2, 0, 2, 5, 4, 1];
  let wins = 0;
  for (const p of positives) for (const n of negatives) wins += p > n ? 1 : p === n ? 0.5 : 0;
  t.is(rankAuc(Float64Array.from(positives), Float64Array.from(negatives)), wins / 30);
  t.is(rankAuc(Float64Array.of(1, 1), Float64Array.of(1, 1, 1)), 0.5);
});

const tables = criteo.tables({ dim: 8, rows: 1000 });

test("a sample is a function of seed and index alone", (t) => {
  const options = checkOptions(syntheticOptions, synthetic({ samples: 10, batchSize: 1 }));
  const generator = new SyntheticSamples(options, tables);
  const shape = { dense: 13, features: 26 };
  const draw = (index: number, from = generator) => {
    const sample = new Sample(shape);
    const logit = from.fill(sample, index);
    return { logit, label: sample.label, dense: [...sample.dense], ids: [...sample.ids] };
  };
  const fifth = draw(5);
  draw(3);
  t.deepEqual(draw(5), fifth);
  t.notDeepEqual(draw(6), fifth);
  const other = new SyntheticSamples({ ...options, seed: 2 }, tables);
  t.notDeepEqual(draw(5, other).ids, fifth.ids);
});

test("the best AUC is that of the first samples, in bounded memory", (t) => {
  const made = (samples: number, ranked?: number) => {
    const options = checkOptions(syntheticOptions, synthetic({ samples, batchSize: 1 }));
    return generateSamples(options, tables.slice(0, 2), () => {}, ranked);
  };
  const [many, few] = [made(6000, 5000), made(5000)];
  t.is(many.bestAuc, few.bestAuc);
  t.not(many.bestAuc, made(6000).bestAuc);
  t.is(many.positives, made(6000).positives);
});

test("a cache of generated samples has the best AUC, and a quarter is positive", async (t) => {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const report = await prepare(synthetic({ samples: 20_000, batchSize: 64, cache }), tables);
  t.is(report.samples, 20_000);
  t.true(Math.abs(report.positives / 20_000 - 0.25) < 0.02);
  const bestAuc = report.bestAuc ?? 0;
  t.true(bestAuc > 0.75 && bestAuc < 0.9, `best AUC ${bestAuc}`);
  const again = await prepare(synthetic({ samples: 20_000, batchSize: 1, cache }), tables);
  t.is(again.bestAuc, bestAuc);

  const dataset = openCached(t, report.path);
  const first = readPlain(dataset, [0, 19_999]);
  t.is(first[1]?.bags.length, 26);
  let mean = 0;
  let square = 0;
  const samples = readPlain(dataset);
  for (const { dense } of samples) {
    mean += (dense[4] ?? 0) / samples.length;
    square += (dense[4] ?? 0) ** 2 / samples.length;
  }
  t.true(Math.abs(mean) < 0.03 && Math.abs(square - 1) < 0.05, "dense features are normal");
});

test("labels follow the logits: in each band the positive share is the sigmoid", (t) => {
  const options = checkOptions(syntheticOptions, synthetic({ samples: 1, batchSize: 1 }));
  const generator = new SyntheticSamples(options, tables);
  const sample = new Sample({ dense: 13, features: 26 });
  const bands = new Map<number, { count: number; positives: number; expected: number }>();
  for (let index = 0; index < 20_000; index++) {
    const logit = generator.fill(sample, index);
    const band = Math.floor(logit);
    const found = bands.get(band) ?? { count: 0, positives: 0, expected: 0 };
    found.count++;
    found.positives += sample.label;
    found.expected += 1 / (1 + Math.exp(-logit));
    bands.set(band, found);
  }
  for (const [band, { count, positives, expected }] of bands) {
    const deviation = Math.sqrt((expected * (count - expected)) / count);
    t.true(Math.abs(positives - expected) <= 4 * deviation + 1, `logits from ${band}`);
  }
});

test("bags may be empty or have several ids", async (t) => {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const idsPerBag = { min: 0, max: 3 };
  const section = synthetic({ samples: 500, batchSize: 1, dense: 0, idsPerBag, cache });
  const report = await prepare(section, tables.slice(0, 3));
  t.deepEqual(report.idsMax, [3, 3, 3]);
  const dataset = openCached(t, report.path);
  const lengths = new Set(readPlain(dataset).flatMap(({ bags }) => bags.map((bag) => bag.length)));
  t.deepEqual([...lengths].sort(), [0, 1, 2, 3]);
});

test("generated text reads back with the same labels and as many ids as table rows", async (t) => {
  const directory = startDirectory(t);
  const path = join(directory, "train.tsv");
  const written = writeSyntheticTsv({ samples: 2000, rows: 50, seed: 3 }, path);
  const cache = join(directory, "cache");
  const report = await prepare(
    criteo.tsv(path, { batchSize: 1, cache }),
    criteo.tables({ dim: 4 }),
  );
  t.is(report.samples, 2000);
  t.is(report.quarantine.count, 0);
  t.is(report.positives, written.positives);
  t.true(written.bestAuc > 0.7);
  const dataset = openCached(t, report.path);
  const samples = readPlain(dataset);
  const rows = new Set(samples.map(({ bags }) => bags[0]?.[0]));
  t.true(rows.size > 25 && rows.size <= 50, `${rows.size} rows of feature C1`);
  t.true(samples.some(({ dense }) => (dense[0] ?? 0) > 1.5));
});

test("text that cannot be generated or written is refused", (t) => {
  const path = join(startDirectory(t), "absent", "train.tsv");
  t.throws(() => writeSyntheticTsv({ samples: 1 }, path), { instanceOf: InputUnusableError });
  for (const options of [{ samples: 0 }, { samples: 1, rows: 0 }, { samples: 1, zipf: -1 }]) {
    t.throws(() => writeSyntheticTsv(options, path), { instanceOf: InvalidOptionError });
  }
});

test("features have their own bag lengths and popularity", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const tables = ["plain", "ranged", "long", "few"].map((name) => ({ name, rows: 20_000 }));
  const options = {
    ...synthetic({ samples: 4000, batchSize: 8, dense: 2, cache }),
    perFeature: {
      ranged: { idsPerBag: { min: 2, max: 4 }, zipf: 0 },
      long: { idsPerBag: { mean: 6, spread: 0.7 } },
      few: { idsPerBag: { mean: 0.5 }, zipf: 2 },
    },
  };
  const { statistics = [], idsMax } = await prepare(options, tables);
  for (const [feature, mean] of [1, 3, 6, 0.5].entries()) {
    const found = statistics[feature]?.idsMean ?? 0;
    t.true(Math.abs(found / mean - 1) < 0.05, `feature ${feature}: ${found}, not ${mean}`);
  }
  t.deepEqual([idsMax[0], idsMax[1], idsMax[3]], [1, 4, 1]);
  t.true((idsMax[2] ?? 0) > 30, "lengths vary");
  const [, ranged, long, few] = statistics.map(({ distinctIds, idsSum }) => distinctIds / idsSum);
  t.true((few ?? 1) < (long ?? 0) / 2 && (long ?? 1) < (ranged ?? 0), `${[ranged, long, few]}`);

  const unknown = { ...options, perFeature: { other: { zipf: 1 } } };
  const refused = await t.throwsAsync(prepare(unknown, tables), { instanceOf: InvalidOptionError });
  t.regex(refused.message, /`data.perFeature` to be names of features.*got `other`/);
});

test("a job without `perFeature` has the samples of every earlier version", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const tables = [
    { name: "a", rows: 100 },
    { name: "b", rows: 7 },
  ];
  const idsPerBag = { min: 0, max: 3 };
  const { digest } = await prepare(
    synthetic({ samples: 500, batchSize: 8, dense: 2, idsPerBag, weights: "uniform", cache }),
    tables,
  );
  t.is(digest, "fbd696cfbff0873faccfe16dae02705bc6b84a602a9b685d1d76371d1cec7e5e");
});
