// Synthetic samples without a cache: generated whenever they are held, equal to those of the cache,
// and verified against their index.

import { statSync } from "node:fs";
import test from "ava";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import { dataOptions, type ResolvedSyntheticOptions } from "../../../src/data/options.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { readPlain, startDirectory } from "../data-files.ts";

const tables = ["a", "b"].map((name) => ({ name, rows: 50 }));

function optionsOf(rest: object): ResolvedSyntheticOptions {
  const section = { kind: "synthetic", samples: 1000, dense: 3, batchSize: 32 };
  const more = { idsPerBag: { min: 0, max: 4 }, weights: "uniform", labels: 2, groups: 9 };
  return checkOptions(dataOptions, { ...section, ...more, ...rest }) as ResolvedSyntheticOptions;
}

test("generated samples without a cache equal those of the cache, split by split", async (t) => {
  const cache = startDirectory(t);
  const open = async (rest: object) => {
    const options = optionsOf({ cache, ...rest });
    const report = await prepareCache(options, tables, realDisk);
    const dataset = await openSamples(report.path, realDisk, { options, tables });
    t.teardown(() => dataset.close());
    return { report, dataset };
  };
  const cached = await open({});
  const streamed = await open({ streamed: true, splitSamples: 96 });
  t.is(streamed.report.digest, cached.report.digest);
  t.is(streamed.report.bestAuc, cached.report.bestAuc);
  t.true(statSync(streamed.report.path).size < statSync(cached.report.path).size / 4);
  const { pieces } = streamed.dataset;
  t.deepEqual([...(pieces ?? [])].slice(0, 3), [0, 96, 192]);
  t.is(pieces?.length, 12);
  for (let first = 0; first < 1000; first += 50) {
    const places = Array.from({ length: 50 }, (_, i) => first + i);
    await holdAt(streamed.dataset, first, 50);
    sameValues(t, readPlain(streamed.dataset, places), readPlain(cached.dataset, places));
  }
});

test("samples that differ from their index are refused", async (t) => {
  const options = optionsOf({ cache: startDirectory(t), streamed: true });
  const { path } = await prepareCache(options, tables, realDisk);
  const others = { options: { ...options, seed: 2 }, tables };
  const dataset = await openSamples(path, realDisk, others);
  t.teardown(() => dataset.close());
  await t.throwsAsync(holdAt(dataset, 0, 32), {
    instanceOf: InputUnusableError,
    message: /^The generated samples of block 0 differ from their index, /,
  });
});

test("`cache: none` streams; a split size without it is refused", (t) => {
  const { streamed, cache } = optionsOf({ cache: "none" });
  t.deepEqual([streamed, cache], [true, ".osiris/cache"]);
  const error = t.throws(() => optionsOf({ splitSamples: 64 }));
  t.regex(error?.message ?? "", /`splitSamples` to be left out, or `cache: none` beside it/);
  t.throws(() => optionsOf({ cache: "none", order: "global" }), { message: /`order`/ });
});
