// Learned plans for four and eight devices that are each like one of this machine's, with a link of
// 10 Gb/s each: the costs of each way's plans as predicted by this machine's cost networks. No plan
// is measured. The oracle, which predicts the costs of plans, may be other networks than those that
// guide the search (`--oracle`).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { calibrate } from "../../../actors/calibration/calibrate.ts";
import { batchSize } from "../../../bench/planner/ranked-tables.ts";
import { type BenchRow, quantiles } from "../../../bench/row.ts";
import type { MachineConstants } from "../../../src/planner/cost/constants.ts";
import { readCostNetworks } from "../files/cost-networks-file.ts";
import { type CostNetworks, placedCost } from "../search/cost-networks.ts";
import { greedyCosts } from "../search/greedy.ts";
import { overLinks } from "./simulated-links.ts";
import { partsOf, plansOf, threadSet, type Way, ways } from "./thread-plans.ts";

export interface MachineOptions {
  readonly seed: number;
  /** Cost files of this machine's two devices: `costs` guides the search, `oracle` rates plans. */
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
  const home = mkdtempSync(join(tmpdir(), "osiris-sharding-machine-"));
  try {
    const [guides, says] = [networksFrom(costs), networksFrom(other)];
    const constants = overLink(
      await calibrate({ devices: 2, memoryBytes: 2 ** 33, source: "this bench", stepsOn: [1, 2] }),
    );
    const rows: BenchRow[] = [];
    for (const devices of simulatedDevices) {
      const links = { bytesPerSecond };
      const networks = overLinks(guides, devices, links);
      const oracle = overLinks(says, devices, links);
      const sets: ReadonlyMap<Way, number>[] = [];
      for (let index = 0; index < setsCount; index++) {
        const own = join(home, `set-${devices}-${index}`);
        const set = await threadSet({ seed, index, devices, home: own }, constants);
        const plans = [...plansOf(set, networks, seed + index)].map(([way, plan]) => {
          const placed = partsOf(set, plan).map((parts) => parts.map(({ table }) => table));
          return [way, placedCost(oracle, placed)] as const;
        });
        sets.push(new Map(plans));
        rmSync(own, { recursive: true, force: true });
      }
      rows.push(...rowsOf(devices, sets));
    }
    return rows;
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
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
  const mean = (values: readonly number[]) => {
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  };
  const row = (name: string, values: readonly number[], unit: string): BenchRow => {
    const { spread } = quantiles(values);
    return { name: nameOf(devices, name), figure: mean(values), unit, spread };
  };
  const best = Math.min(...greedyWays.map((way) => mean(ofWay(way))));
  const below = 100 * (1 - mean(ofWay("learned")) / best);
  const against = (["formulas", "torchrec"] as const).map((way) => {
    const [own, others] = [ofWay("learned"), ofWay(way)];
    const shares = own.map((ms, set) => 100 * (1 - ms / (others[set] ?? Number.NaN)));
    return row(`against.${way}`, shares, `% below ${way}, predicted, mean of sets`);
  });
  return [
    ...ways.map((way) => row(way, ofWay(way), "ms, predicted")),
    row("below", [below], "% below the best greedy, predicted"),
    ...against,
  ];
}
