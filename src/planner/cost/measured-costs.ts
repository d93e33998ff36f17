// Refines the planner's predictions with the times that a run has measured of its plans: each table
// gets a factor by which its rows cost more, or less, than the formulas say.
//
// A device's work in a step is a part that is equal on all devices, and the work of its tables. If
// a device took longer than predicted, some of its tables cost more, or the device is slower; a
// single plan cannot tell which. The factors of tables and of devices are therefore those that fit
// all measured plans best while they stay near 1: Bayesian linear regression with a normal prior
// (ridge regression; Bishop, Pattern Recognition and Machine Learning, 2006, section 3.3). Each
// further plan separates tables that shared a device before. A device that is slow with all its
// tables changes no table's factor.

import { assessPlan } from "../assess.ts";
import { deviceCount, type Plan } from "../shards.ts";
import { costOf, loadOf, type Setting } from "./cost.ts";

/**
 * A plan that a run has followed, and the measured work of each device in a step, without waits.
 */
export interface MeasuredPlan {
  readonly plan: Plan;
  /** (W): seconds, by rank. */
  readonly seconds: readonly number[];
}

/** Standard deviation of the prior: how far factors of tables and devices may lie from 1. */
const factorSpread = 0.5;
/** Standard deviation of a measured time, relative to the mean predicted time. */
const noise = 0.03;
/** Limits of a table's factor. */
const [factorMin, factorMax] = [0.1, 10];

/**
 * Returns the factors of tables, by name; tables that no measured device held are left out (factor
 * 1). A factor common to all times is divided out: a machine that is slower in all respects has the
 * same best plan. `setting` must have the costs of the formulas, without factors.
 */
export function costFactors(
  setting: Setting,
  measured: readonly MeasuredPlan[],
): ReadonlyMap<string, number> {
  const devices = measured.flatMap((one) => devicesOf(setting, one));
  const sum = (name: "seconds" | "predicted") => devices.reduce((all, one) => all + one[name], 0);
  const scale = sum("seconds") / sum("predicted");
  if (!(scale > 0 && Number.isFinite(scale))) return new Map();
  const mean = sum("predicted") / devices.length;
  const names = [...new Set(devices.flatMap(({ tables }) => [...tables.keys()]))];
  const ranks = devices.reduce((most, { rank }) => Math.max(most, rank + 1), 0);
  const costs = devices.map(({ rank, predicted, tables }) => {
    const ofTables = names.map((name) => tables.get(name) ?? 0);
    const ofDevices = Array.from({ length: ranks }, (_, of) => (of === rank ? predicted : 0));
    return Float64Array.from([...ofTables, ...ofDevices]);
  });
  const residuals = devices.map(({ seconds, predicted }) => seconds / scale - predicted);
  // There is one equation for each device of each plan, usually fewer than tables: the dual form is
  // the smaller system.
  const covariance = costs.map((own, i) =>
    costs.map((other, j) => {
      const shared = own.reduce((all, cost, t) => all + cost * (other[t] ?? 0), 0);
      return factorSpread ** 2 * shared + (i === j ? (noise * mean) ** 2 : 0);
    }),
  );
  const weights = solveSymmetric(covariance, residuals);
  return new Map(
    names.map((name, t) => {
      const change = costs.reduce((all, own, i) => all + (own[t] ?? 0) * (weights[i] ?? 0), 0);
      const factor = 1 + factorSpread ** 2 * change;
      return [name, Math.min(factorMax, Math.max(factorMin, factor))];
    }),
  );
}

/**
 * The work of each device under a plan: predicted, measured, and the predicted part of each table.
 */
function devicesOf(setting: Setting, { plan, seconds }: MeasuredPlan) {
  const of = { ...setting, devices: plan.devices };
  const tables = Array.from({ length: deviceCount(plan.devices) }, () => new Map<string, number>());
  const known = new Map(setting.workload.tables.map((table) => [table.name, table]));
  for (const shard of plan.shards) {
    const table = known.get(shard.table);
    if (table === undefined) continue;
    const load = loadOf(of, table, shard);
    const { lookup, update, prefetch } = costOf(
      ...([of, table, shard.scheme, shard.tier, shard, load] as const),
    ).seconds;
    const holders = shard.device === "all" ? tables : tables.slice(shard.device, shard.device + 1);
    const first = shard.device === "all" ? 0 : shard.device;
    for (const [at, own] of holders.entries()) {
      const { rowSpeed: speed } = setting.fleet?.[first + at] ?? { rowSpeed: 1 };
      const seconds = (lookup + update + prefetch) / speed;
      own.set(shard.table, (own.get(shard.table) ?? 0) + seconds);
    }
  }
  return assessPlan(of, plan).devices.map(({ busy }, rank) => ({
    rank,
    predicted: busy,
    seconds: seconds[rank] ?? 0,
    tables: tables[rank] ?? new Map<string, number>(),
  }));
}

/** x with A x = b, for a symmetric positive definite A, by its Cholesky factor. */
export function solveSymmetric(
  a: readonly (readonly number[])[],
  b: readonly number[],
): Float64Array {
  const n = b.length;
  const lower = a.map((row) => Float64Array.from(row));
  const at = (i: number, j: number) => lower[i]?.[j] ?? 0;
  for (let j = 0; j < n; j++) {
    for (let i = j; i < n; i++) {
      let sum = at(i, j);
      for (let k = 0; k < j; k++) sum -= at(i, k) * at(j, k);
      const row = lower[i];
      if (row !== undefined) row[j] = i === j ? Math.sqrt(sum) : sum / at(j, j);
    }
  }
  const x = Float64Array.from(b);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) x[i] = (x[i] ?? 0) - at(i, k) * (x[k] ?? 0);
    x[i] = (x[i] ?? 0) / at(i, i);
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) x[i] = (x[i] ?? 0) - at(k, i) * (x[k] ?? 0);
    x[i] = (x[i] ?? 0) / at(i, i);
  }
  return x;
}
