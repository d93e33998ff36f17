// The planner's caches (embedding offloading, "Toward 100TB", RecSys 2024): the share of each table
// in device memory.

import test from "ava";
import { Zipf } from "../../src/data/synthetic/zipf.ts";
import { cacheWays } from "../../src/kernels/contract/row-cache.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { assessPlan } from "../../src/planner/assess.ts";
import { priorityOf, shareBytes, withCurve } from "../../src/planner/cache-share.ts";
import { placeBytesOf, type Setting } from "../../src/planner/cost/cost.ts";
import { distinctRows } from "../../src/planner/cost/distinct-rows.ts";
import { type CachePolicy, missRatioAt, zipfCurve } from "../../src/planner/cost/miss-curve.ts";
import { relaxations } from "../../src/planner/relax.ts";
import type { Devices, PlannedTable } from "../../src/planner/shards.ts";
import {
  amountsOf,
  planAt,
  planWithCaches,
  withCurves,
  withLeastCaches,
} from "../../src/planner/size-caches.ts";
import { plannedTiers } from "../../src/planner/table-tiers.ts";
import { unmetNeeds } from "../../src/planner/unmet.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { testAll, testIf } from "../helpers/needs.ts";
import { plannedTable, settingOf } from "../helpers/stores/plans.ts";
import { rounds, someOrAll } from "../helpers/thinned.ts";

test("a miss curve by Zipf's law equals that of a cache over random batches", (t) => {
  const [rows, draws] = [10_000, 800];
  for (const policy of ["lru", "lfu"] as const) {
    for (const zipf of [0.5, 1.05]) {
      const curve = zipfCurve({ rows, draws, zipf, policy });
      const sampler = new Zipf(rows, zipf);
      for (const sets of someOrAll("sizes of caches on a curve", [128], [64, 128, 220])) {
        const stream = new RandomStream(1, 2, sets);
        const kernels = createReference();
        const cache = kernels.rowCache({ policy, sets, spares: 2000, rows });
        let [distinct, missed] = [0, 0];
        for (let tick = 1; tick <= 300; tick++) {
          const ids = Int32Array.from({ length: draws }, () => {
            return (sampler.draw(() => stream.uniform()) * 7919) % rows;
          });
          const placed = kernels.placeRows(cache, ids.slice(), ids, tick);
          if (tick > 150) {
            distinct += placed.distinct; // Warm: every popular row is initialised.
            missed += placed.missed.length;
          }
          kernels.freeSpares(cache, kernels.releaseRows(cache, placed.placed));
        }
        const off = Math.abs(missed / distinct - missRatioAt(curve, sets * cacheWays));
        t.true(off < 0.03, `${policy}, Zipf ${zipf}, ${sets} sets: off by ${off}`);
      }
    }
  }
});

test("a memory budget is used up, and each cache keeps to its table and its minimum", (t) => {
  for (let seed = 0; seed < 200; seed++) {
    const stream = new RandomStream(seed, 1, 2);
    const claims = Array.from({ length: 1 + stream.below(9) }, () => {
      const wholeBytes = Math.ceil(1e6 * stream.uniform() ** 3) + 100;
      return { leastBytes: 100, wholeBytes, priority: stream.below(4) * stream.uniform() };
    });
    const whole = claims.reduce((sum, claim) => sum + claim.wholeBytes, 0);
    const budget = Math.floor(1.2 * whole * stream.uniform());
    const bytes = shareBytes(claims, budget);
    const used = bytes.reduce((sum, own) => sum + own, 0);
    const least = 100 * claims.length;
    const expected = Math.max(least, Math.min(whole, budget));
    t.true(used <= expected && used > expected - 1 - claims.length, `${used} of ${expected}`);
    for (const [i, { leastBytes, wholeBytes }] of claims.entries()) {
      t.true((bytes[i] ?? 0) >= leastBytes && (bytes[i] ?? 0) <= wholeBytes);
    }
  }
});

/** Tables of different exponents, sizes and widths. */
function heterogeneous(seed: number): PlannedTable[] {
  const stream = new RandomStream(seed, 1, 1);
  return Array.from({ length: 8 }, (_, i) =>
    plannedTable(`T${i}`, {
      rows: Math.round(Math.exp(8 + 3 * stream.uniform())),
      dim: [16, 32, 64][stream.below(3)] ?? 16,
      poolingFactor: 1 + stream.below(5),
      zipf: 0.3 + 1.2 * stream.uniform(),
      rowBytes: 5,
      schemes: ["table-wise"],
      tiers: ["memory", "cached"],
    }),
  );
}

function withBudgets(
  tables: readonly PlannedTable[],
  devices: Devices,
  memoryBytes: number,
  hbmBytes: number,
  policy: CachePolicy = "lru",
): Setting {
  const setting = settingOf(tables, devices, { memoryBytes, denseReserve: 0, idReserve: 0 }, 512);
  const budgets = { hbmBytes, ddrBytes: 4 * hbmBytes, policy, indexBytes: 9 };
  return withCurves({ ...setting, workload: { ...setting.workload, budgets } });
}

test("the planner's caches miss strictly fewer rows than one load factor for all tables", (t) => {
  for (const policy of ["lru", "lfu"] as const) {
    for (let seed = 0; seed < 10; seed++) {
      const setting = withBudgets(heterogeneous(seed), { hosts: 1, perHost: 1 }, 1e9, 1, policy);
      const tables = setting.workload.tables.map((table) => withCurve(setting, table));
      const places = tables.map((table) => placeBytesOf(setting, table, table.dim));
      const whole = tables.map(({ rows }, i) => rows * (places[i] ?? 0));
      const missed = (bytes: readonly number[]) =>
        tables.reduce((sum, table, i) => {
          const rows = (bytes[i] ?? 0) / (places[i] ?? 1);
          return sum + distinctRows(table, 512) * missRatioAt(table.missCurve, rows);
        }, 0);
      const claims = tables.map((table, i) => {
        const [leastBytes, wholeBytes] = [32 * (places[i] ?? 0), whole[i] ?? 0];
        return { leastBytes, wholeBytes, priority: priorityOf(setting, table) };
      });
      for (const load of [0.1, 0.25, 0.5]) {
        const budget = Math.floor(load * whole.reduce((sum, own) => sum + own, 0));
        const [shared, uniform] = [
          missed(shareBytes(claims, budget)),
          missed(whole.map((own) => own * load)),
        ];
        t.true(shared < 0.97 * uniform, `${policy}, ${seed}, ${load}: ${shared} of ${uniform}`);
      }
    }
  }
});

testIf(testAll)("the best cache memory is no worse than the least and the most", (t) => {
  let better = 0;
  const seeds = rounds("models of heterogeneous tables", 2, 6);
  for (let seed = 0; seed < seeds; seed++) {
    const tables = heterogeneous(seed);
    const bytes = tables.reduce((sum, { rows, dim }) => sum + rows * (4 * dim + 5), 0);
    for (const share of [0.15, 0.3, 0.6]) {
      const setting = withBudgets(tables, { hosts: 1, perHost: 2 }, share * bytes, share * bytes);
      const found = planWithCaches(setting).best;
      const { low, high } = amountsOf(setting);
      const ends = [low, high].map((amount) => planAt(setting, amount).best?.score ?? Infinity);
      t.true((found?.score ?? Infinity) <= Math.min(...ends));
      if ((found?.score ?? Infinity) < Math.min(...ends)) better++;
      if (found === undefined) continue;
      // The result is repeatable.
      if (share === 0.3) t.deepEqual(planWithCaches(setting).best, found);
      t.is(assessPlan(setting, found.plan).lacksBytes, 0);
    }
  }
  t.true(better >= seeds, `${better}`);
});

test("caches use the memory of their device, and small tables stay in memory", (t) => {
  const big = plannedTable("big", { rows: 100_000, dim: 64, tiers: ["cached"] });
  const flat = { ...big, name: "flat", zipf: 0.4 };
  const tiny = { ...big, name: "tiny", rows: 40, tiers: ["memory", "cached"] as const };
  const tables = [big, flat, tiny].map((table) => ({ ...table, schemes: ["table-wise"] as const }));
  const setting = withBudgets(tables, { hosts: 1, perHost: 1 }, 1e9, 4_000_000);
  const plan = planWithCaches(setting).best?.plan;
  const used = (size: "hbmBytes" | "ddrBytes") =>
    plan?.shards.reduce((sum, { cache }) => sum + (cache?.[size] ?? 0), 0) ?? 0;
  t.true(used("hbmBytes") <= 4_000_000 && used("hbmBytes") > 4_000_000 - 4);
  t.true(used("ddrBytes") <= 16_000_000 && used("ddrBytes") > 16_000_000 - 4);
  if (plan === undefined) return;
  const found = plannedTiers(setting, plan);
  t.deepEqual(
    found.map(({ table, tier }) => [table, tier]),
    [
      ["big", "cached"],
      ["flat", "cached"],
      ["tiny", "memory"],
    ],
  );
  const [popular, uniform] = found;
  // A table that benefits less from a cache, and so needs more rows cached, gets more memory.
  t.true((uniform?.hbmBytes ?? 0) > 2 * (popular?.hbmBytes ?? 0));
  t.true((popular?.rows?.hbm ?? 0) > (uniform?.rows?.hbm ?? 1));
  for (const { rows, moreHbm, moreDdr } of found) {
    if (rows === undefined) continue;
    t.is(moreHbm?.hbm, 1); // All rows fit into a GiB.
    t.is(moreDdr?.hbm, rows.hbm);
    t.is(moreDdr?.ssd, 0);
    t.true(rows.ssd > 0 && Math.abs(rows.hbm + rows.ddr + rows.ssd - 1) < 1e-12);
  }
  // A plan file without sizes of caches: they share the memory in the same way.
  const unsized = plan.shards.map(({ cache: _, ...shard }) => shard);
  t.deepEqual(plannedTiers(setting, { ...plan, shards: unsized }), found);
});

test("tables below caches share their host's memory, and what hosts lack is refused", (t) => {
  const tables = ["A", "B", "C", "D", "E", "F"].map((name, i) => {
    const cut = { schemes: ["table-wise", "row-wise"], rowBlocks: 4 } as const;
    return plannedTable(name, { rows: 10_000 * (i + 1), tiers: ["memory", "cached"], ...cut });
  });
  const bytes = tables.reduce((sum, { rows, dim }) => sum + rows * (4 * dim + 8), 0);
  const of = (hostMemoryBytes: number, memoryBytes = 12e6): Setting => {
    const setting = withBudgets(tables, { hosts: 2, perHost: 2 }, memoryBytes, 4_000_000);
    return { ...setting, constants: { ...setting.constants, hostMemoryBytes } };
  };
  // Together with the devices' memory there is room, but not for all rows on the hosts.
  const setting = of(0.35 * bytes);
  const plan = planWithCaches(setting).best?.plan;
  if (plan === undefined) return t.fail();
  const { hostBytes, lacksBytes } = assessPlan(setting, plan);
  t.is(lacksBytes, 0);
  t.true(hostBytes.every((held) => held > 0 && held <= 0.35 * bytes));
  t.true(plan.shards.some(({ tier }) => tier === "memory"));
  const ddr = plan.shards.reduce((sum, { cache }) => sum + (cache?.ddrBytes ?? 0), 0);
  t.is(
    ddr,
    hostBytes.reduce((sum, held) => sum + held, 0),
  );
  for (const { rows } of plannedTiers(setting, plan)) t.true(rows === undefined || rows.ssd === 0);
  t.true(assessPlan(of(0.1 * bytes), plan).lacksBytes > 0);
  const lacking = of(0.1 * bytes, 8e6);
  t.is(planWithCaches(lacking).best, undefined);
  const [need] = unmetNeeds(withLeastCaches(lacking));
  t.is(need?.kind, "host");
  t.regex(need?.sentence ?? "", /All tables need \d+ bytes at least.*2 hosts have \d+ for them/);
  t.true((need?.lacksBytes ?? 0) > 0);
});

test("tables below caches are spread over the disks of hosts, so that none is overfilled", (t) => {
  const tables = ["A", "B", "C", "D", "E", "F"].map((name, i) => {
    const cut = { schemes: ["table-wise", "row-wise"], rowBlocks: 4 } as const;
    return plannedTable(name, { rows: 10_000 * (i + 1), tiers: ["cached"], ...cut });
  });
  const bytes = tables.reduce((sum, { rows, dim }) => sum + rows * (4 * dim), 0);
  const of = (share: number): Setting => {
    const setting = withBudgets(tables, { hosts: 2, perHost: 2 }, 12e6, 4_000_000);
    return { ...setting, constants: { ...setting.constants, diskBytes: share * bytes } };
  };
  const plan = planWithCaches(of(0.53)).best?.plan;
  if (plan === undefined) return t.fail();
  const { hostBytes, lacksBytes } = assessPlan(of(0.53), plan);
  t.is(lacksBytes, 0);
  for (const held of hostBytes) t.true(held >= 0.47 * bytes && held <= 0.53 * bytes, `${held}`);
  // The caches above have the budgets' bytes, and not all rows.
  const ddr = plan.shards.reduce((sum, { cache }) => sum + (cache?.ddrBytes ?? 0), 0);
  t.true(ddr > 0 && ddr <= 4 * 16_000_000);
  t.true(assessPlan(of(0.4), plan).lacksBytes > 0);
  t.is(planWithCaches(of(0.4)).best, undefined);
  const sentences = relaxations(withLeastCaches(of(0.4))).map(({ sentence }) => sentence);
  const more = Number(sentences.join(". ").match(/Give each host (\d+) bytes of disk/)?.[1]);
  t.true(more >= 0.5 * bytes && more <= 0.6 * bytes, `${more} of ${bytes}`);
});

test("a miss curve counted by a run replaces Zipf's law", (t) => {
  const table = plannedTable("A", { rows: 10_000, tiers: ["cached"], schemes: ["table-wise"] });
  const easy = { ...table, name: "B", missCurve: [{ rows: 100, missRatio: 0.01 }] };
  const setting = withBudgets([table, easy], { hosts: 1, perHost: 1 }, 1e9, 500_000);
  const plan = planWithCaches(setting).best?.plan;
  if (plan === undefined) return t.fail();
  const [counted, lawful] = [plannedTiers(setting, plan)[1], plannedTiers(setting, plan)[0]];
  t.is(counted?.rows?.hbm, 0.99);
  t.true((counted?.hbmBytes ?? 1) < 0.1 * (lawful?.hbmBytes ?? 0));
});

test("too little memory for the smallest caches is refused, and the amount named suffices", (t) => {
  const tables = ["A", "B"].map((name) => {
    const rows = 10_000;
    return plannedTable(name, { rows, rowBlocks: 4, tiers: ["cached"], schemes: ["table-wise"] });
  });
  const of = (hbmBytes: number) => withBudgets(tables, { hosts: 1, perHost: 1 }, 1e9, hbmBytes);
  const setting = of(1000);
  t.is(planWithCaches(setting).best, undefined);
  const [need] = unmetNeeds(withLeastCaches(setting));
  t.is(need?.kind, "caches");
  const enough = Number(/`tiers\.hbmBytes: (\d+)` would do/.exec(need?.sentence ?? "")?.[1]);
  t.is(enough, 1000 + (need?.lacksBytes ?? 0));
  t.not(planWithCaches(of(enough)).best, undefined);
  t.is(planWithCaches(of(enough - 1)).best, undefined);
});
