// The texts of jobs in messages, and jobs of thousands of tables.

import test from "ava";
import { synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import {
  type JobOptions,
  jobIdentity,
  jobOfText,
  jobTextOf,
  resolveJob,
  resolvingJob,
} from "../../src/job/job.ts";
import { adam } from "../../src/model/options.ts";

const table = { name: "T0", rows: 10, dim: 4 };
const model = { dense: 2, tables: [table], bottom: [4], top: [3, 1] };
const data = synthetic({ samples: 100, batchSize: 10, dense: 2 });
const job: JobOptions = { model: { kind: "dlrm", ...model }, data };

test("a job's text gives back the job; valid text is checked once, invalid text always", (t) => {
  const evaluation = { data: synthetic({ samples: 10, batchSize: 10, dense: 2 }) };
  const resolved = resolveJob({ ...job, evaluation, optimizer: { sparse: adam({}) } });
  const text = JSON.stringify(resolved);
  const read = jobOfText(text);
  t.not(read, resolved);
  t.deepEqual(read, resolved);
  t.is(jobIdentity(read), jobIdentity(resolved));
  t.is(jobOfText(text), read, "the second reading is cached");
  t.is(jobOfText(jobTextOf(resolved)), resolved, "a job resolved here is cached, too");
  const wrong = JSON.stringify({ ...job, seed: -1 });
  for (let time = 0; time < 2; time++) {
    t.throws(() => jobOfText(wrong), { instanceOf: InvalidOptionError });
  }
  for (let seed = 1; seed <= 4; seed++) jobOfText(JSON.stringify({ ...job, seed }));
  t.not(jobOfText(text), resolved, "only the latest jobs are cached");
});

test("thousands of tables are checked in steps; a wrong one is refused as in a short list", (t) => {
  const tables = Array.from({ length: 3000 }, (_, i) => ({ ...table, name: `T${i}` }));
  const wide = (own: readonly object[]) => ({ ...job, model: { ...job.model, tables: own } });
  const steps = resolvingJob(wide(tables));
  let turns = 0;
  let result = steps.next();
  for (; result.done !== true; result = steps.next()) turns++;
  t.true(turns > 3, `${turns}`);
  const { tables: checked } = resolveJob(job).model;
  t.deepEqual(result.value.model.tables[2999], { ...checked[0], name: "T2999" } as never);
  t.true(Object.isFrozen(result.value.model.tables[2999]));
  const wrong = tables.map((one, i) => (i === 2500 ? { ...one, rows: 0 } : one));
  t.throws(() => resolveJob(wide(wrong)), {
    message: /^Expected `model\.tables\[2500\]\.rows` to be .*, got `0`/,
  });
});
