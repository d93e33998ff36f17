// Which jobs may send only the largest elements of their dense gradients.

import test from "ava";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { jobIdentity, resolveJob } from "../../src/job/job.ts";
import { smallData, smallModel } from "../helpers/clusters/clusters.ts";

const given = (mode: string, topk?: object, slices = 8) => ({
  ...{ data: smallData, model: smallModel, mode, slices },
  ...(topk && { exchange: { topk } }),
});

test("the top-k all-reduce is for bounded jobs, with at most as many groups as slices", (t) => {
  const refusal = (job: object) =>
    t.throws(() => resolveJob(job), { instanceOf: InvalidOptionError })?.message ?? "";
  t.regex(
    refusal(given("exact", { share: 0.01 })),
    /`exchange.topk` to be left out in an exact job, .*set `mode: "bounded"` to allow it/,
  );
  t.regex(
    refusal(given("bounded", { share: 0.01, groups: 8 }, 4)),
    /groups` to be at most `slices`, 4/,
  );
  t.regex(refusal(given("bounded", { share: 0.6 })), /`exchange.topk.share` to be a number <= 0.5/);
  t.regex(
    refusal(given("bounded", { share: 0.01, groups: 3 })),
    /`exchange.topk.groups` to be one of/,
  );
  t.deepEqual(resolveJob(given("bounded", { share: 0.01 })).exchange.topk, { share: 0.01 });
});

test("share and groups are a part of the job's identity", (t) => {
  const identities = [undefined, { share: 0.01 }, { share: 0.02 }, { share: 0.01, groups: 2 }].map(
    (topk) => jobIdentity(resolveJob(given("bounded", topk))),
  );
  t.is(new Set(identities).size, identities.length);
});
