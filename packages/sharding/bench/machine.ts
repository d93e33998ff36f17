// Learned plans for four and eight devices that are each like one of this machine's, with a link of
// 10 Gb/s each. The costs of plans are predicted by this machine's cost networks; no plan is
// measured. The networks that predict them, the oracle, may differ from the networks that guide the
// search (`--oracle`).

import { rmSync } from "node:fs";
import { join } from "node:path";
import { batchSize } from "../../../bench/planner/ranked-tables.ts";
import { type BenchRow, meanOf, meanRow } from "../../../bench/row.ts";
import { temporaryHome } from "../../../internal.ts";
import type { MachineConstants } from "../../../src/planner/cost/constants.ts";
import { calibrate } from "../../what-if/index.ts";
import { readCostNetworks } from "../files/cost-networks-file.ts";
import { type CostLayer, type CostNetworks, placedCost } from "../search/cost-networks.ts";
import { greedyCosts } from "../search/greedy.ts";
import { partsOf, plansOf, threadSet, type Way, ways } from "./thread-plans.ts";

export interface MachineOptions {
  readonly seed: number;
  /** Cost files of this machine's two devices: `costs` guides searches, `oracle` predicts costs. */
  readonly costs: string;
  readonly oracle?: string;
}

export const simulatedDevices = [4, 8] as const;
/** Random sets of tables for each number of devices. */
const setsCount = 10;
const bytesPerSecond = 10e9 / 8;
const greedyWays = Object.keys(greedyCosts) as (keyof typeof greedyCosts)[];

export const machineSeconds = 60;

export function machineNames(): string[] {
  const rows = [...ways, "below", "against.formulas", "against.torchrec"];
  return simulatedDevices.flatMap((devices) => rows.map((row) => nameOf(devices, row)));
}

function nameOf(devices: number, row: string): string {
  return `sharding.machine.${devices}.${row}`;
}

export async function machineRows(options: MachineOptions): Promise<BenchRow[]> {
  const { seed, costs, oracle: other = costs } = options;
  using home = temporaryHome("osiris-sharding-machine-");
  const [guides, rater] = [networksFrom(costs), networksFrom(other)];
  const constants = overLink(
    await calibrate({ devices: 2, memoryBytes: 2 ** 33, source: "this bench", stepsOn: [1, 2] }),
  );
  const rows: BenchRow[] = [];
  for (const devices of simulatedDevices) {
    const links = { bytesPerSecond };
    const networks = overLinks(guides, devices, links);
    const oracle = overLinks(rater, devices, links);
    const sets: ReadonlyMap<Way, number>[] = [];
    for (let index = 0; index < setsCount; index++) {
      const setHome = join(home.path, `set-${devices}-${index}`);
      const set = await threadSet({ seed, index, devices, home: setHome }, constants);
      const plans = [...plansOf(set, networks, seed + index)].map(([way, plan]) => {
        const placed = partsOf(set, plan).map((parts) => parts.map(({ table }) => table));
        return [way, placedCost(oracle, placed)] as const;
      });
      sets.push(new Map(plans));
      rmSync(setHome, { recursive: true, force: true });
    }
    rows.push(...rowsOf(devices, sets));
  }
  return rows;
}

/** @throws RangeError where the file's batch size is not that of the sets of tables */
function networksFrom(path: string): CostNetworks {
  const { networks } = readCostNetworks(path);
  if (networks.batchSize === batchSize) return networks;
  throw new RangeError(`Expected ${path} to be of batches of ${batchSize} samples`);
}

/** The machine's constants, with a link and a processor for each device. */
function overLink(constants: MachineConstants): MachineConstants {
  const { cores: _, ...others } = constants;
  const rates = Object.keys(constants.insideHost).map((name) => [name, bytesPerSecond]);
  return { ...others, insideHost: Object.fromEntries(rates) as MachineConstants["insideHost"] };
}

function rowsOf(devices: number, sets: readonly ReadonlyMap<Way, number>[]): BenchRow[] {
  const ofWay = (way: Way) => sets.map((set) => set.get(way) ?? Number.NaN);
  const row = (name: string, values: readonly number[], unit: string) => {
    return meanRow(nameOf(devices, name), values, unit);
  };
  const best = Math.min(...greedyWays.map((way) => meanOf(ofWay(way))));
  const below = 100 * (1 - meanOf(ofWay("learned")) / best);
  const against = (["formulas", "torchrec"] as const).map((way) => {
    const [learned, others] = [ofWay("learned"), ofWay(way)];
    const shares = learned.map((ms, set) => 100 * (1 - ms / (others[set] ?? Number.NaN)));
    return row(`against.${way}`, shares, `% below ${way}, predicted, mean of sets`);
  });
  return [
    ...ways.map((way) => row(way, ofWay(way), "ms, predicted")),
    row("below", [below], "% below the best greedy, predicted"),
    ...against,
  ];
}

// Simulated links ----

/**
 * Networks of `devices` devices, each like one of the machine's, with a link of its own, which
 * sends and receives at the same time at its rate. Waits of devices for each other are left out, as
 * in the processor times that networks of a machine are trained with.
 */
export function overLinks(
  networks: CostNetworks,
  devices: number,
  { bytesPerSecond }: { readonly bytesPerSecond: number },
): CostNetworks {
  // Milliseconds to send one column of one device's samples.
  const ofColumn = (1000 * 4 * (networks.batchSize / devices)) / bytesPerSecond;
  return {
    ...networks,
    devices,
    forward: exchange(devices, ofColumn, 2 * devices),
    backward: exchange(devices, ofColumn, devices),
  };
}

/**
 * Device d sends its columns to each of the others, and receives theirs: that takes as long as the
 * larger of both, max(s, r) = s + max(0, r - s). Inputs after the columns have no weight.
 */
function exchange(devices: number, ofColumn: number, inputs: number) {
  const rank = [...new Array(devices).keys()];
  const sent = (d: number, from: number) => (from === d ? (devices - 1) * ofColumn : 0);
  const received = (d: number, from: number) => (from === d ? 0 : ofColumn);
  const row = (of: (from: number) => number) => {
    return Array.from({ length: inputs }, (_, from) => (from < devices ? of(from) : 0));
  };
  const first = [
    ...rank.map((d) => row((from) => sent(d, from))),
    ...rank.map((d) => row((from) => received(d, from) - sent(d, from))),
  ];
  const second = rank.map((d) => first.map((_, unit) => (unit % devices === d ? 1 : 0)));
  return {
    standard: { mean: new Array(inputs).fill(0), deviation: new Array(inputs).fill(1) },
    layers: [layer(first, true), layer(second, false)],
  };
}

function layer(rows: readonly (readonly number[])[], relu: boolean): CostLayer {
  return { weight: Float32Array.from(rows.flat()), bias: new Float32Array(rows.length), relu };
}
