// Plans of jobs by learned costs: whole columns, in the job's order, with room on every device.

import test from "ava";
import { resolveJob } from "../../../src/job/job.ts";
import { checkCover } from "../../../src/planner/assess.ts";
import { defaultConstants } from "../../../src/planner/cost/constants.ts";
import { planLearned } from "../../../src/training/planning/learned-plan.ts";
import { planJob } from "../../../src/training/planning/plan-job.ts";
import { workloadOf } from "../../../src/training/planning/workload.ts";
import { drawnNetworks } from "../../helpers/cost-networks.ts";

const tables = [
  { name: "wide", rows: 200_000, dim: 256 },
  { name: "odd", rows: 1000, dim: 96 },
  { name: "narrow", rows: 5000, dim: 16 },
];
const job = resolveJob({
  model: { kind: "dlrm", dense: 0, dim: 16, tables, top: [8, 1] },
  data: { kind: "synthetic", samples: 1000, dense: 0, batchSize: 64, idsPerBag: 4 },
});
const devices = { hosts: 1, perHost: 4 };

test("tables that fit no device are cut by whole quanta, each of which lies once", (t) => {
  const workload = workloadOf(job);
  // A quarter of the wide table fits, a half does not.
  const constants = { ...defaultConstants, memoryBytes: 90e6 };
  const setting = { workload, devices, constants };
  const { plan, search } = planLearned(job, setting, { costs: drawnNetworks(4, 2) });
  if (plan === undefined) return t.fail();
  t.is(checkCover(workload.tables, plan), undefined);
  const wide = plan.shards.filter(({ table }) => table === "wide");
  t.true(wide.length >= 4);
  t.true(wide.every(({ scheme, quanta }) => scheme === "column-wise" && quanta <= 2));
  t.true(plan.shards.some(({ table, scheme }) => table === "odd" && scheme === "table-wise"));
  t.is(search.whole, undefined);
  const found = planJob(job, { devices, constants, costs: drawnNetworks(4, 2) });
  if (!found.isFeasible) return t.fail();
  t.is(found.assessment.lacksBytes, 0);
  t.deepEqual(found.plan, plan);
  t.deepEqual(planLearned(job, setting, { costs: drawnNetworks(4, 2) }).plan, plan);
});

test("where learned costs find no room, formulas plan, and say so", (t) => {
  // The rows of a quantum of `wide` are too many for a device: only row blocks fit.
  const constants = { ...defaultConstants, memoryBytes: 15e6 };
  const blocks = tables.map((table) => ({ ...table, rowBlocks: 16 }));
  const { model } = job;
  const own = {
    ...job,
    model: resolveJob({ ...job, model: { ...model, tables: blocks } } as never).model,
  };
  const many = { hosts: 1, perHost: 32 };
  const costs = drawnNetworks(32, 2);
  const found = planJob(own, { devices: many, constants, costs });
  if (!found.isFeasible) return t.fail();
  t.is(found.learned, undefined);
  t.regex(found.missing.join(), /By learned costs nothing that was tried has room/);
});
