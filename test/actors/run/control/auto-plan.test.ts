// A plan search that fails does not fail the run.

import test from "ava";
import { planOrNone } from "../../../../actors/threads/data/plan-program.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { smallData, smallModel } from "../../../helpers/clusters/clusters.ts";

test("a failed plan search is noted with its reason, and tables are placed as written", async (t) => {
  const job = resolveJob({ model: smallModel, data: smallData });
  const request = { hosts: [2], memoryBytes: 1e9 };
  const found = await planOrNone(job, request, {}, () =>
    Promise.reject(new InvalidOptionError("cores", "Expected `cores` to be there")),
  );
  t.deepEqual(found, {
    report: {
      by: "as-written",
      note:
        "the search for a plan failed (Expected `cores` to be there): " +
        "each table is placed as written",
    },
  });
});
