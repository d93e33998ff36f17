// Fits the planner's costs of a step to measured times of whole steps: least squares of relative
// errors, with no cost below 0. The planner itself gives the count of each cost in a step, so that
// the fit matches its predictions.

import {
  assessPlan,
  deviceCostNames,
  noStepCosts,
  type Plan,
  readCostNames,
  readSeconds,
  type Setting,
  type StepCosts,
} from "../../../internal.ts";

/** A job whose steps were measured. */
export interface MeasuredStep {
  /** The setting, with the other constants of the machine. */
  readonly setting: Setting;
  readonly plan: Plan;
  /** Seconds of a step without waiting for its batch; `readSeconds`: seconds of reading a batch. */
  readonly seconds: number;
  readonly readSeconds: number;
}

/**
 * Returns the costs that fit these steps best. All were measured on `on.devices` devices, with the
 * speeds of `on`.
 */
export function fitStepCosts(
  on: Pick<StepCosts, "devices" | "rowSpeed" | "denseSpeed">,
  measured: readonly MeasuredStep[],
): StepCosts {
  const usual = { ...noStepCosts, ...on };
  const stepOf = (one: MeasuredStep, costs: StepCosts) => {
    return assessPlan(settingWith(one, costs), one.plan).step;
  };
  const device = costsFrom(
    deviceCostNames,
    measured.map((one) => {
      const without = stepOf(one, usual);
      const countOf = (name: keyof StepCosts) => stepOf(one, { ...usual, [name]: 1 }) - without;
      return { whole: one.seconds, rest: Math.max(0, one.seconds - without), countOf };
    }),
  );
  const read = costsFrom(
    readCostNames,
    measured.map((one) => {
      const countOf = (name: keyof StepCosts) =>
        readSeconds(settingWith(one, { ...usual, [name]: 1 }));
      return { whole: one.readSeconds, rest: one.readSeconds, countOf };
    }),
  );
  return { ...usual, ...device, ...read };
}

/**
 * A measured time, the rest of it that the costs must explain, and the count of each cost in it.
 */
interface Explained {
  readonly whole: number;
  readonly rest: number;
  countOf(name: keyof StepCosts): number;
}

function costsFrom(
  names: readonly (keyof StepCosts)[],
  times: readonly Explained[],
): Partial<StepCosts> {
  const shares = times.map(({ whole }) => 1 / Math.max(1e-9, whole));
  const counts = times.map(({ countOf }, i) => {
    return names.map((name) => countOf(name) * (shares[i] ?? 0));
  });
  const costs = leastSquares(
    counts,
    times.map(({ rest }, i) => rest * (shares[i] ?? 0)),
  );
  return Object.fromEntries(names.map((name, i) => [name, costs[i] ?? 0]));
}

/** The setting with these costs, and a core for each device. */
function settingWith({ setting }: MeasuredStep, costs: StepCosts): Setting {
  const { cores: _, ...others } = setting.constants;
  return { ...setting, constants: { ...others, steps: [costs] } };
}

/** Number of sweeps over the unknowns; each sweep reduces the error. */
const sweeps = 20_000;

/** The x >= 0 with the least |a x - b|^2, by coordinate descent. */
export function leastSquares(a: readonly (readonly number[])[], b: readonly number[]): number[] {
  const unknowns = a[0]?.length ?? 0;
  const norms = Array.from({ length: unknowns }, (_, j) =>
    a.reduce((sum, row) => sum + (row[j] ?? 0) ** 2, 0),
  );
  const x = new Float64Array(unknowns);
  const rest = Float64Array.from(b);
  for (let sweep = 0; sweep < sweeps; sweep++) {
    for (let j = 0; j < unknowns; j++) {
      const norm = norms[j] ?? 0;
      if (norm === 0) continue;
      const slope = a.reduce((sum, row, i) => sum + (row[j] ?? 0) * (rest[i] ?? 0), 0);
      const now = x[j] ?? 0;
      const next = Math.max(0, now + slope / norm);
      if (next === now) continue;
      for (const [i, row] of a.entries()) rest[i] = (rest[i] ?? 0) - (row[j] ?? 0) * (next - now);
      x[j] = next;
    }
  }
  return [...x];
}
