// Plans for unequal hosts: rows by the memory and speed of each host, links as they were measured.

import test from "ava";
import { resolveJob } from "../../src/job/job.ts";
import { allReduceSeconds } from "../../src/planner/cost/all-reduce.ts";
import { serverConstants } from "../../src/planner/cost/constants.ts";
import { areAlike, type HostMachine, withLinks } from "../../src/planner/fleet.ts";
import { unpackPlan } from "../../src/planner/packed-plan.ts";
import { planRun, type RunPlanSetting } from "../../src/training/planning/run-plan.ts";
import { bytesForRows } from "../../src/training/topology/private-memory.ts";

const [dim, rowBytes] = [64, 64 * 4 + 4 + 1];

function jobOf(rows: readonly number[], table: object = {}) {
  return resolveJob({
    model: {
      kind: "dlrm",
      tables: rows.map((own, i) => ({ name: `T${i}`, rows: own, dim, rowBlocks: 8, ...table })),
      top: [8, 1],
    },
    data: { kind: "synthetic", samples: 1000, dense: 0, batchSize: 1024, idsPerBag: 40 },
  });
}

const machine: HostMachine = { memoryBytes: 1e12, cores: 8, lookups: 16e9, flops: 2e11 };

/** The plan of a job, and the rows that each device holds. */
function planned(job: ReturnType<typeof jobOf>, setting: Partial<RunPlanSetting>) {
  const hosts = setting.hosts ?? [1, 1];
  const all = { hosts, constants: serverConstants, memoryBytes: 1e12, ...setting };
  const { plan, report } = planRun(job, all);
  const rows = new Float64Array(hosts.reduce((sum, count) => sum + count, 0));
  const shards = plan === undefined ? [] : unpackPlan(plan, job.model.tables).shards;
  for (const { table, device, blocks } of shards) {
    const own = job.model.tables.find(({ name }) => name === table)?.rows ?? 0;
    if (device !== "all") rows[device] = (rows[device] ?? 0) + (own * blocks) / 8;
  }
  return { plan, report, rows, shards };
}

test("a table that fits only on the larger host lies there, and the smaller host is not overfull", (t) => {
  const rows = [1_000_000, 200_000, 200_000, 200_000];
  const [small, large] = [450_000 * rowBytes, 1_300_000 * rowBytes];
  for (const order of [
    [small, large],
    [large, small],
  ]) {
    const machines = order.map((memoryBytes) => ({ ...machine, memoryBytes }));
    const job = jobOf(rows, { sharding: "table-wise" });
    const { shards, report } = planned(job, { machines, memoryBytes: small });
    t.is(report.cached, 0);
    t.is(shards.find(({ table }) => table === "T0")?.device, order.indexOf(large));
    for (const [device, bytes] of (report.memoryBytes ?? []).entries()) {
      t.true(bytes <= (order[device] ?? 0), `device ${device} of ${order}`);
    }
    const { model, optimizer } = job;
    t.deepEqual(
      report.hosts?.map(({ memoryBytes }) => memoryBytes),
      order.map((bytes) => bytesForRows(model.tables, optimizer.sparse, bytes)),
    );
  }
  // If every host had the memory of the small one, the table would not fit.
  const equal = planned(jobOf(rows, { sharding: "table-wise" }), { memoryBytes: small });
  t.is(equal.report.by === "auto" && equal.report.cached === 0, false);
});

test("a host of half the speed gets about half the rows, whatever the scheme", (t) => {
  const even = Array.from({ length: 24 }, (_, i) => 100_000 + (i % 3));
  const slow = { ...machine, lookups: 8e9 };
  for (const sharding of ["table-wise", "row-wise", "auto"] as const) {
    const job = jobOf(even, sharding === "auto" ? {} : { sharding });
    const { rows } = planned(job, { machines: [machine, slow] });
    const share = (rows[1] ?? 0) / (rows[0] ?? 1);
    t.true(share > 0.4 && share < 0.65, `${sharding}: ${share}`);
  }
  // Hosts with unequal numbers of devices, too; eight devices share four cores.
  const many = Array.from({ length: 4 }, () => even).flat();
  const { rows } = planned(jobOf(many, { sharding: "table-wise" }), {
    hosts: [1, 8],
    machines: [machine, { ...machine, cores: 4 }],
  });
  const [first = 0, ...others] = rows;
  const mean = others.reduce((sum, own) => sum + own, 0) / others.length;
  t.true(mean / first > 0.35 && mean / first < 0.65, `${rows}`);
});

test("hosts that differ less than two calibrations have the plan of equal hosts", (t) => {
  const job = jobOf([900_000, 400_000, 300_000, 90_000]);
  const equal = planned(job, {});
  const near = { ...machine, lookups: 14e9, flops: 2.3e11, memoryBytes: 0.9e12 };
  const alike = planned(job, { machines: [machine, near] });
  t.deepEqual(alike.plan, equal.plan);
  t.is(alike.report.hosts, undefined);
  t.deepEqual(planned(job, { machines: [machine, null] }).plan, equal.plan);
  t.true(areAlike([1, 1], [machine, near], [near, machine]));
  t.false(areAlike([1, 1], [machine, near], [machine, { ...near, memoryBytes: 5e11 }]));
  t.false(areAlike([1, 1], [machine, near], [machine, { ...near, lookups: 8e9 }]));
});

test("measured links replace assumed ones, and a link that was not measured is no faster than memory", (t) => {
  const links = { allToAll: 6e8, allReduce: 2e8, roundSeconds: 1e-3 };
  const { insideHost } = serverConstants;
  t.deepEqual(withLinks(serverConstants, [2], links), serverConstants);
  t.is(withLinks(serverConstants, [1, 1], undefined).acrossHosts.allToAll, insideHost.allToAll);
  const shared = withLinks(serverConstants, [2, 2, 2], links);
  t.is(shared.acrossHosts.allToAll, 3e8, "two devices share a host's link");
  for (const hosts of [2, 3]) {
    const constants = withLinks(serverConstants, new Array(hosts).fill(1), links);
    t.true(Math.abs(allReduceSeconds({ hosts, perHost: 1 }, constants, 2e8) - 1) < 1e-9);
  }
  t.is(withLinks(serverConstants, [1, 2], links).insideHost.allToAll, 3e8);

  const job = jobOf([900_000, 400_000, 300_000, 90_000]);
  const [assumed, measured] = [undefined, links].map((own) => planned(job, { links: own }).report);
  t.is(assumed?.links, undefined);
  t.deepEqual(measured?.links, links);
  t.regex(planned(job, { links: "they were not measured (why)" }).report.note ?? "", /\(why\)/);
});
