// Small tables, tasks and costs with which tests train placement policies, and checks of the
// policies' gradients.

import type { Weights } from "../../packages/sharding/policies/policy-networks.ts";
import type { PolicySubject, SizedTable } from "../../packages/sharding/policies/table-pool.ts";
import { slowestOf } from "../../packages/sharding/search/cost-networks.ts";
import type { TablesOfDevices } from "../../packages/sharding/search/greedy.ts";
import type { Kernels, Tensor } from "../../src/kernels/contract/kernels.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { parameterIn } from "../../src/model/graph/parameters.ts";
import { weightBytesOf } from "../../src/planner/reuse.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { gradientError } from "./batches/central-differences.ts";
import { drawnTables } from "./cost-networks.ts";
import { rounds } from "./thinned.ts";

export function sizedTables(count: number, seed: number): SizedTable[] {
  return drawnTables(count, seed).map((table) => ({ ...table, bytes: weightBytesOf(table) }));
}

/**
 * Costs that are not the sum of the tables' costs: a device with many tables is slightly faster.
 */
export function plainCosts(tables: readonly SizedTable[]) {
  return (placed: TablesOfDevices) => {
    return placed.map((own) => {
      const sum = own.reduce((all, index) => {
        const { poolingFactor = 0, dim = 0 } = tables[index] ?? {};
        return all + poolingFactor * (10 + dim);
      }, 0);
      const columns = own.reduce((all, index) => all + (tables[index]?.dim ?? 0), 0);
      return { compute: sum / (1 + own.length / 50), backward: columns, forward: 2 * columns };
    });
  };
}

/** Training tasks of six of sixteen tables on two devices. */
export function smallSubject(seed: number, bytes = Number.MAX_SAFE_INTEGER): PolicySubject {
  const tables = sizedTables(16, seed);
  const random = new RandomStream(seed, 4);
  const tasks = Array.from({ length: 10 }, () => {
    const first = random.below(16);
    const own = Array.from({ length: 6 }, (_, i) => (first + 5 * i) % 16);
    return { tables: own, room: { devices: 2, bytes } };
  });
  return { tables, tasks, measure: plainCosts(tables) };
}

/** The least and the mean cost of all placements of the tables on two devices. */
export function allPlacements(tables: readonly SizedTable[]): { least: number; mean: number } {
  const measure = plainCosts(tables);
  const costs = Array.from({ length: 2 ** tables.length }, (_, code) => {
    const on = (device: number) => [...tables.keys()].filter((i) => ((code >> i) & 1) === device);
    return slowestOf(measure([on(0), on(1)]));
  });
  return {
    least: Math.min(...costs),
    mean: costs.reduce((sum, own) => sum + own, 0) / costs.length,
  };
}

/** Kernels in float64 that also read float64, so that differences of losses exceed rounding. */
export function exactKernels(): Kernels {
  const kernels = createReference("float64");
  return { ...kernels, read: (t) => valuesOf(t).slice() as unknown as Float32Array };
}

/** The first elements of a parameter: networks are wide, and their elements behave alike. */
function someOf(kernels: Kernels, t: Tensor): Tensor {
  const most = rounds("elements of a policy's gradients", 3, 12);
  return kernels.reshape(t, [Math.min(most, valuesOf(t).length)]);
}

/** The first elements of a parameter, and of its gradient. */
export function parameterOf({ kernels, layout, flat, gradient }: Weights, name: string) {
  const some = (of: Tensor) => someOf(kernels, parameterIn(kernels, of, layout, name));
  return { weight: some(flat), gradient: some(gradient) };
}

/** The largest error of the gradients of all weights against the slopes of `loss`. */
export function worstError(weights: Weights, loss: () => number): number {
  loss();
  const errors = weights.layout.parameters.map(({ name }) => {
    const { weight, gradient } = parameterOf(weights, name);
    return gradientError(weight, valuesOf(gradient).slice(), loss);
  });
  return Math.max(...errors);
}
