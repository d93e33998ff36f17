// The random jobs of the validation: valid, of all kinds, and the same for the same seed.

import test from "ava";
import { resolveJob } from "../../../../internal.ts";
import { jobIn, placedJob } from "../../bench/measured-steps.ts";

test("random jobs are valid, the same for a seed, and of all kinds", (t) => {
  const jobs = Array.from({ length: 40 }, (_, i) => placedJob(1, i, "alone"));
  t.deepEqual(jobs[7], placedJob(1, 7, "alone"));
  t.notDeepEqual(jobs[7]?.options, placedJob(2, 7, "alone").options);
  const resolved = jobs.map((job) => resolveJob(jobIn("home", job)));
  const seen = (of: (job: (typeof resolved)[number]) => unknown) => new Set(resolved.map(of)).size;
  t.is(
    seen(({ model }) => model.kind),
    4,
  );
  t.is(
    seen(({ pipeline }) => pipeline.depth),
    3,
  );
  t.is(
    seen(({ exchange }) => exchange.forward),
    4,
  );
  t.is(
    seen(({ model }) => model.tables[0]?.tier),
    2,
  );
  t.true(resolved.every(({ data }) => data.batchSize >= 128 && data.batchSize <= 4096));
  t.true(resolved.every(({ model: { tables } }) => tables.length >= 4 && tables.length <= 100));
  t.true(jobs.some(({ devices }) => devices === 1) && jobs.some(({ devices }) => devices === 2));
  t.is(placedJob(1, 3, "10g").devices, 2);
});
