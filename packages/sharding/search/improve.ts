// Local search after the paper's search: improves the plan by moving a table of the slowest device
// to another device, or swapping it with a table there, as long as that lowers the cost.

import type { Paused } from "../../../internal.ts";
import { type CostNetworks, computeCost, planCost } from "./cost-networks.ts";
import type { KnownPart } from "./device-states.ts";
import type { DeviceRoom, TablesOfDevices } from "./greedy.ts";
import type { GridPlan } from "./grid-search.ts";

/** Maximum number of changes that are tried, to bound the time. */
const triesMax = 20_000;

/** The load of a device during the local search. */
interface Load {
  readonly sum: Float64Array;
  readonly compute: number;
  readonly formulaMs: number;
  readonly columns: number;
  readonly bytes: number;
}

/**
 * A move of a table from the slowest device to another; `back`: the table that it is swapped with.
 */
interface Change {
  readonly from: number;
  readonly to: number;
  readonly table: number;
  readonly back: number | undefined;
  readonly loads: readonly [Load, Load];
  readonly cost: number;
}

/**
 * Returns the plan after all rounds; each round yields, then makes the change that lowers the cost
 * most.
 */
export function* improving(
  networks: CostNetworks,
  tables: readonly KnownPart[],
  plan: GridPlan,
  room: DeviceRoom,
  isOver: () => boolean = () => false,
): Paused<GridPlan> {
  const placed = plan.placed.map((own) => [...own]);
  const copies = [...tables.keys()].filter((index) => tables[index]?.isCopied);
  const loads = placed.map((own) => loadOf(networks, tables, [...copies, ...own]));
  let cost = planCost(networks, loads);
  let tries = 0;
  while (tries < triesMax && !isOver()) {
    yield;
    const changes = changesFrom(networks, tables, placed, loads, room);
    tries += changes.tried;
    const { best } = changes;
    if (best === undefined || best.cost >= cost * (1 - leastGain)) break;
    move(placed, best);
    [loads[best.from], loads[best.to]] = best.loads;
    cost = best.cost;
  }
  return cost < plan.cost ? { placed, cost } : plan;
}

/** Least relative gain of a change; smaller gains may be rounding errors of the sums. */
const leastGain = 1e-6;

function loadOf(
  networks: CostNetworks,
  tables: readonly KnownPart[],
  own: readonly number[],
): Load {
  const width = tables[0]?.vector.length ?? 0;
  return own.reduce<Load>((load, index) => changed(networks, load, tables[index], undefined), {
    sum: new Float64Array(width),
    ...{ compute: 0, formulaMs: 0, columns: 0, bytes: 0 },
  });
}

/** The load with the table `more` added, and the table `less` removed. */
function changed(
  networks: CostNetworks,
  { sum, formulaMs, columns, bytes }: Load,
  more: KnownPart | undefined,
  less: KnownPart | undefined,
): Load {
  const next = sum.map((value, i) => value + (more?.vector[i] ?? 0) - (less?.vector[i] ?? 0));
  const nextColumns = columns + (more?.columns ?? 0) - (less?.columns ?? 0);
  const nextMs = formulaMs + (more?.formulaMs ?? 0) - (less?.formulaMs ?? 0);
  return {
    sum: next,
    compute: nextMs + (nextColumns === 0 ? 0 : computeCost(networks, next)),
    formulaMs: nextMs,
    columns: nextColumns,
    bytes: bytes + (more?.bytes ?? 0) - (less?.bytes ?? 0),
  };
}

/** The best change of the device with the highest compute cost. */
function changesFrom(
  networks: CostNetworks,
  tables: readonly KnownPart[],
  placed: TablesOfDevices,
  loads: readonly Load[],
  { bytes: bytesMax }: DeviceRoom,
): { best: Change | undefined; tried: number } {
  const from = loads.reduce((slowest, { compute }, device) => {
    return compute > (loads[slowest]?.compute ?? 0) ? device : slowest;
  }, 0);
  const source = loads[from];
  let best: Change | undefined;
  let tried = 0;
  if (source === undefined) return { best, tried };
  for (const table of placed[from] ?? []) {
    for (const [to, target] of loads.entries()) {
      if (to === from) continue;
      for (const back of [undefined, ...(placed[to] ?? [])]) {
        const [leaves, comes] = [tables[table], back === undefined ? undefined : tables[back]];
        tried++;
        const after = changed(networks, target, leaves, comes);
        // A change does not help if the other device becomes as slow.
        if (after.bytes > bytesMax || after.compute >= source.compute) continue;
        const before = changed(networks, source, comes, leaves);
        if (before.bytes > bytesMax || before.compute >= source.compute) continue;
        const all = loads.map((own, device) => {
          if (device === from) return before;
          return device === to ? after : own;
        });
        const cost = planCost(networks, all);
        if (best !== undefined && cost >= best.cost) continue;
        best = { from, to, table, back, loads: [before, after], cost };
      }
    }
  }
  return { best, tried };
}

function move(placed: number[][], { from, to, table, back }: Change): void {
  const without = (own: readonly number[] | undefined, index: number | undefined) => {
    return (own ?? []).filter((other) => other !== index);
  };
  placed[from] = [...without(placed[from], table), ...(back === undefined ? [] : [back])];
  placed[to] = [...without(placed[to], back), table];
}
