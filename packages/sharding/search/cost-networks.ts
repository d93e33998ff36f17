// Cost networks: predict the costs of lookup and update of the tables on a device, and of the
// exchanges between devices, with networks trained on measured costs (NeuroShard: Zha et al., MLSys
// 2023, section 3). All sums are float64 in index order, so a cost is a function of its arguments
// on every machine.
//
// D = devices, I/O = inputs/outputs of a layer, E = columns of a table's own vector.

import type { CostTable } from "../../../internal.ts";
import { type FeatureSet, featuresOf, type Standard, standardised } from "./features.ts";
import type { TablesOfDevices } from "./greedy.ts";

/** y = x W^T + b; then ReLU if `relu` is set. */
export interface CostLayer {
  /** (O, I) */
  readonly weight: Float32Array;
  /** (O) */
  readonly bias: Float32Array;
  readonly relu: boolean;
}

/** A network, and the standardisation of its inputs. */
export interface StandardNetwork {
  readonly standard: Standard;
  readonly layers: readonly CostLayer[];
}

/** The cost networks of one machine and number of devices. */
export interface CostNetworks {
  readonly devices: number;
  /** Hosts that the devices are spread over evenly. @default 1 */
  readonly hosts?: number | undefined;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
  /** The features of a table that the networks read. */
  readonly features: FeatureSet;
  /** Each table's features become a vector (E). */
  readonly table: StandardNetwork;
  /** The sum of the vectors of a device's tables becomes milliseconds. */
  readonly head: readonly CostLayer[];
  /**
   * (2D) columns of each device, then milliseconds by which each starts late, to milliseconds (D).
   */
  readonly forward: StandardNetwork;
  /** (D) columns of each device to milliseconds (D). */
  readonly backward: StandardNetwork;
  /**
   * The latest start in the training data, in milliseconds: predictions beyond it are unreliable.
   */
  readonly lateMax: number;
}

/** The vector (E) of a table. */
export function tableVector(networks: CostNetworks, of: CostTable): Float64Array {
  const { table, features, batchSize } = networks;
  return through(table.layers, standardised(featuresOf(of, features, batchSize), table.standard));
}

/** Milliseconds of lookup and update of tables whose vectors have this sum; at least 0. */
export function computeCost({ head }: CostNetworks, sum: Float64Array): number {
  return Math.max(0, through(head, sum)[0] ?? 0);
}

/** Milliseconds of lookup and update of these tables on one device; 0 for none. */
export function setCost(networks: CostNetworks, tables: readonly CostTable[]): number {
  const [first, ...others] = tables.map((table) => tableVector(networks, table));
  if (first === undefined) return 0;
  for (const vector of others) {
    for (const [i, value] of vector.entries()) first[i] = (first[i] ?? 0) + value;
  }
  return computeCost(networks, first);
}

/** Milliseconds of a plan that puts these tables, or columns of some, on each device. */
export function placedCost(
  networks: CostNetworks,
  placed: readonly (readonly CostTable[])[],
): number {
  const loads = placed.map((own): DeviceLoad => {
    const columns = own.reduce((sum, { dim }) => sum + dim, 0);
    return { compute: setCost(networks, own), columns };
  });
  return planCost(networks, loads);
}

/**
 * Milliseconds of the backward exchange of gradients on each device, for devices with these
 * columns.
 */
export function backwardCosts({ backward }: CostNetworks, columns: readonly number[]) {
  return through(backward.layers, standardised(columns, backward.standard));
}

/**
 * Milliseconds of the forward exchange of vectors on each device; lateness is clamped to `lateMax`.
 */
export function forwardCosts(
  { forward, lateMax }: CostNetworks,
  columns: readonly number[],
  late: readonly number[],
): Float64Array {
  const known = late.map((own) => Math.min(own, lateMax));
  return through(forward.layers, standardised([...columns, ...known], forward.standard));
}

/** The load of a device by its tables. */
export interface DeviceLoad {
  /** Milliseconds of lookup and update. */
  readonly compute: number;
  /** Columns of its tables. */
  readonly columns: number;
}

/** Predicted milliseconds of a device in a plan. */
export interface DeviceCosts {
  /** Of lookup and update. */
  readonly compute: number;
  /** Of the backward exchange of gradients. */
  readonly backward: number;
  /** Of the forward exchange of pooled vectors, which waits for late devices. */
  readonly forward: number;
}

/** Returns the costs of each device of a plan. */
export function deviceCosts(networks: CostNetworks, loads: readonly DeviceLoad[]): DeviceCosts[] {
  const columns = loads.map((load) => load.columns);
  const backward = backwardCosts(networks, columns);
  const before = loads.map(({ compute }, device) => compute + (backward[device] ?? 0));
  const first = before.reduce((least, own) => Math.min(least, own), Infinity);
  const forward = forwardCosts(
    networks,
    columns,
    before.map((own) => own - first),
  );
  return loads.map(({ compute }, device) => {
    return { compute, backward: backward[device] ?? 0, forward: forward[device] ?? 0 };
  });
}

/**
 * Returns a function from a plan, with tables by index, to the costs of its devices. In the
 * training of a policy it stands in for measurements.
 */
export function networkCosts(
  networks: CostNetworks,
  tables: readonly CostTable[],
): (placed: TablesOfDevices) => DeviceCosts[] {
  const vectors = tables.map((table) => tableVector(networks, table));
  const width = networks.table.layers.at(-1)?.bias.length ?? 0;
  return (placed) => {
    const loads = placed.map((own) => {
      const sum = new Float64Array(width);
      let columns = 0;
      for (const index of own) {
        columns += tables[index]?.dim ?? 0;
        for (const [i, value] of (vectors[index] ?? []).entries()) sum[i] = (sum[i] ?? 0) + value;
      }
      return { compute: own.length === 0 ? 0 : computeCost(networks, sum), columns };
    });
    return deviceCosts(networks, loads);
  };
}

/** Milliseconds of the slowest of some devices. */
export function slowestOf(costs: readonly DeviceCosts[]): number {
  return costs.reduce((slowest, { compute, backward, forward }) => {
    return Math.max(slowest, compute + backward + forward);
  }, 0);
}

/** Milliseconds of the slowest device of a plan. */
export function planCost(networks: CostNetworks, loads: readonly DeviceLoad[]): number {
  return slowestOf(deviceCosts(networks, loads));
}

/** The output of a sequence of layers. */
function through(layers: readonly CostLayer[], x: ArrayLike<number>): Float64Array {
  let values = Float64Array.from(x);
  for (const layer of layers) values = applied(layer, values);
  return values;
}

function applied({ weight, bias, relu }: CostLayer, x: Float64Array): Float64Array<ArrayBuffer> {
  const inputs = x.length;
  const out = new Float64Array(bias.length);
  for (let o = 0; o < out.length; o++) {
    let sum = bias[o] ?? 0;
    const row = o * inputs;
    for (let i = 0; i < inputs; i++) sum += (weight[row + i] ?? 0) * (x[i] ?? 0);
    out[o] = relu && sum < 0 ? 0 : sum;
  }
  return out;
}
