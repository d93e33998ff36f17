// When no plan fits: which devices lack how much memory, and which remedies help. The test applies
// each remedy by hand and plans again.

import test from "ava";
import { reserveOf, type Setting } from "../../src/planner/cost/cost.ts";
import { type Relaxation, relaxations } from "../../src/planner/relax.ts";
import { roomOf, searchPlan } from "../../src/planner/search.ts";
import { schemes } from "../../src/planner/shards.ts";
import { unmetNeeds } from "../../src/planner/unmet.ts";
import { cutBy, plannedTable, settingOf } from "../helpers/stores/plans.ts";

const big = plannedTable("big", { rows: 100_000, dim: 128 });
const small = ["a", "b", "c"].map((name) => plannedTable(name));

function startTight(memoryBytes: number): Setting {
  const setting = settingOf([big, ...small], { hosts: 1, perHost: 2 }, { memoryBytes }, 64);
  return cutBy(setting, "table-wise");
}

function withRelaxation(setting: Setting, { kind, sentence }: Relaxation): Setting {
  const numberIn = () => Number(/\d+/.exec(sentence)?.[0]);
  const tables = setting.workload.tables;
  const changed = (change: (table: (typeof tables)[number]) => (typeof tables)[number]) => ({
    ...setting,
    workload: { ...setting.workload, tables: tables.map(change) },
  });
  switch (kind) {
    case "scheme":
      return changed((table) => {
        const added = schemes.filter((scheme) => sentence === `Allow ${scheme}`);
        return { ...table, schemes: [...table.schemes, ...added] };
      });
    case "cache":
      return changed((table) => ({ ...table, tiers: ["memory", "cached"] }));
    case "row-blocks":
      return changed((table) =>
        sentence.includes(table.name)
          ? { ...table, rowBlocks: 64, schemes: [...table.schemes, "row-wise"] }
          : table,
      );
    case "precision":
      return changed((table) =>
        sentence.includes(table.name)
          ? { ...table, weightBytes: sentence.endsWith("int8") ? 1 : 2 }
          : table,
      );
    case "memory": {
      const constants = { ...setting.constants, memoryBytes: numberIn() };
      return { ...setting, constants };
    }
    case "devices":
      return { ...setting, devices: { hosts: 1, perHost: numberIn() } };
    default:
      return kind satisfies never;
  }
}

test("a table too large for any device is named with the bytes that it lacks", (t) => {
  const setting = startTight(40e6);
  t.is(searchPlan(setting).best, undefined);
  const [need, ...others] = unmetNeeds(setting);
  t.deepEqual(others, []);
  t.is(need?.kind, "table");
  t.regex(need?.sentence ?? "", /^Table big needs \d+ bytes on one device/);
  // With exactly that many bytes more it fits.
  const { bytes } = roomOf(setting);
  t.is(bytes, 40e6 - reserveOf(setting));
  const enough = startTight(40e6 + (need?.lacksBytes ?? 0));
  t.not(searchPlan(enough).best, undefined);
  t.is(searchPlan(startTight(40e6 + (need?.lacksBytes ?? 0) - 1)).best, undefined);
});

test("every remedy makes the plan fit, and each kind that can help is offered", (t) => {
  const setting = startTight(40e6);
  const found = relaxations(setting);
  for (const relaxation of found) {
    const { best } = searchPlan(withRelaxation(setting, relaxation));
    t.not(best, undefined, relaxation.sentence);
  }
  const kinds = new Set(found.map(({ kind }) => kind));
  t.deepEqual([...kinds], ["scheme", "cache", "row-blocks", "precision", "memory"]);
  t.deepEqual(
    found.filter(({ kind }) => kind === "scheme").map(({ sentence }) => sentence),
    ["Allow column-wise"],
  );
  const precision = found.find(({ kind }) => kind === "precision");
  t.is(precision?.sentence, "Store the rows of big in bfloat16");
});

test("the memory proposed is within a hundredth of the least that suffices", (t) => {
  const setting = startTight(1e6);
  const memory = relaxations(setting).find(({ kind }) => kind === "memory");
  const bytes = Number(/\d+/.exec(memory?.sentence ?? "")?.[0]);
  t.not(searchPlan(startTight(bytes)).best, undefined);
  t.is(searchPlan(startTight(bytes * 0.985)).best, undefined);
});

test("too many tables: the fewest sufficient devices are proposed", (t) => {
  const tables = Array.from({ length: 9 }, (_, i) => plannedTable(`T${i}`, { rows: 100_000 }));
  const of = (perHost: number) =>
    cutBy(settingOf(tables, { hosts: 1, perHost }, { memoryBytes: 60e6 }, 64), "table-wise");
  t.is(searchPlan(of(2)).best, undefined);
  t.is(unmetNeeds(of(2))[0]?.kind, "total");
  const devices = relaxations(of(2)).find(({ kind }) => kind === "devices");
  t.is(devices?.sentence, "Use 5 devices");
  t.is(searchPlan(of(4)).best, undefined);
});

test("whole shards that cannot be packed are reported by device", (t) => {
  const tables = ["A", "B", "C"].map((name) => plannedTable(name, { rows: 100_000 }));
  const devices = { hosts: 1, perHost: 2 };
  const setting = cutBy(settingOf(tables, devices, { memoryBytes: 45e6 }, 64), "table-wise");
  const needs = unmetNeeds(setting);
  t.deepEqual(
    needs.map(({ kind }) => kind),
    ["device"],
  );
  t.regex(needs[0]?.sentence ?? "", /^Device 0 would hold \d+ bytes of whole shards/);
});

test("dense layers that fill a device, and schemes that cannot tile, are reported", (t) => {
  const base = startTight(40e6);
  const full = { ...base, workload: { ...base.workload, denseParameters: 10e6 } };
  t.is(unmetNeeds(full)[0]?.kind, "reserve");
  const rowsOnly = cutBy(startTight(400e6), "row-wise");
  t.is(searchPlan(rowsOnly).best, undefined);
  const needs = unmetNeeds(rowsOnly);
  t.is(needs.length, 4);
  t.is(needs[0]?.kind, "scheme");
  t.regex(needs[0]?.sentence ?? "", /^Table big cannot be cut by row-wise: it has 1 row blocks/);
});
