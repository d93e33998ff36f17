// The outer search of NeuroShard (Zha et al., MLSys 2023, section 3.3): which tables are cut into
// two halves of their columns. A beam of the best states; from each, one more of its largest and of
// its dearest tables is halved. The best plan of all steps counts, so the search may be stopped at
// any moment. There is no chance in it: the plan is a function of the arguments.

import type { CostNetworks } from "./cost-networks.ts";
import { type CostTable, halved, isHalvable, weightBytesOf } from "./cost-table.ts";
import { type CacheCounts, DeviceStates, type KnownTable } from "./device-states.ts";
import type { DeviceRoom, TablesOfDevices } from "./greedy.ts";
import { type GridPlan, gridScales, type NoRoom, searchGrid } from "./grid-search.ts";
import { improved } from "./improve.ts";

export interface BeamOptions {
  /** States that are kept after each step. @default 3 */
  readonly beam?: number;
  /** Steps. @default 10 */
  readonly steps?: number;
  /** How many of the largest, and of the dearest, tables are tried. @default 10 */
  readonly candidates?: number;
  /** Limits of columns (grid-search.ts). @default gridScales */
  readonly scales?: readonly number[];
  /** Whether a table, of the given ones the one at `source`, may be halved. @default isHalvable */
  readonly canHalve?: (table: CostTable, source: number) => boolean;
  /** Bytes that a table needs on its device. @default weightBytesOf */
  readonly bytesOf?: (table: CostTable, source: number) => number;
  /** Whether the best plan is improved by moving tables (improve.ts). @default true */
  readonly improve?: boolean;
  /** Most placements that are tried, the scales of one apart. @default 1000 */
  readonly placementsMax?: number;
  /** Asked before each placement but the first: whether the best so far has to do. */
  readonly isOver?: () => boolean;
}

/** A plan of a learned search. */
export interface LearnedPlan {
  /** Tables that are halved, in order (`halved` of cost-table.ts). */
  readonly steps: readonly number[];
  /** The tables and halves of each device. */
  readonly placed: TablesOfDevices;
  /** Predicted milliseconds of the slowest device. */
  readonly cost: number;
}

export interface LearnedSearch {
  /** Undefined where nothing that was tried has room. */
  readonly best: LearnedPlan | undefined;
  /** Predicted milliseconds of the best plan without any halving; undefined where none has room. */
  readonly whole: number | undefined;
  /** The same of the search as published, before tables were moved. */
  readonly published: number | undefined;
  /** Placements that were tried. */
  readonly placements: number;
  /** Whether the search came to its end. */
  readonly isComplete: boolean;
  readonly cache: CacheCounts;
}

/** Some tables, halved by steps, and the best placement of them. */
interface State {
  readonly steps: readonly number[];
  readonly tables: readonly KnownTable[];
  readonly found: GridPlan | NoRoom;
}

/** Searches for the plan of least predicted cost. */
export function searchLearned(
  networks: CostNetworks,
  tables: readonly CostTable[],
  room: DeviceRoom,
  options: BeamOptions = {},
): LearnedSearch {
  const { beam = 3, steps = 10, candidates = 10, scales = gridScales } = options;
  const { canHalve = isHalvable, bytesOf = weightBytesOf } = options;
  const { placementsMax = 1000, isOver = () => false, improve = true } = options;
  const states = new DeviceStates(networks);
  const sources = sourcesOf(tables, bytesOf);
  let placements = 0;
  const tablesAfter = (own: readonly number[]): KnownTable[] => {
    const origins = originsOf(tables.length, own);
    return halved(tables, own).map((table, i) => {
      const origin = origins[i] ?? i;
      return states.table(table, sources[origin] ?? origin, {
        bytes: bytesOf(table, origin),
        isHalvable: canHalve(table, origin),
      });
    });
  };
  const stateOf = (own: readonly number[], known: readonly KnownTable[]): State => {
    placements++;
    return { steps: own, tables: known, found: searchGrid(networks, states, known, room, scales) };
  };
  const whole = stateOf([], tablesAfter([]));
  let best = whole;
  let kept: readonly State[] = [whole];
  let isComplete = true;
  search: for (let step = 0; step < steps; step++) {
    const next: State[] = [];
    const seen = new Set<string>();
    for (const state of kept) {
      for (const table of candidatesOf(state.tables, candidates)) {
        if (placements >= placementsMax || isOver()) {
          isComplete = false;
          break search;
        }
        const own = [...state.steps, table];
        const after = tablesAfter(own);
        const name = nameOf(after);
        if (seen.has(name)) continue;
        seen.add(name);
        const made = stateOf(own, after);
        next.push(made);
        if (better(made, best) < 0) best = made;
      }
    }
    if (next.length === 0) break;
    kept = next.sort(better).slice(0, beam);
  }
  const found = costOf(best);
  return {
    best: found && { steps: best.steps, ...(improve ? improvedOf(best, found) : found) },
    whole: costOf(whole)?.cost,
    published: found?.cost,
    placements,
    isComplete,
    cache: states.counts,
  };

  function improvedOf({ tables: known }: State, plan: GridPlan): GridPlan {
    return improved(networks, known, plan, room, isOver);
  }
}

function costOf({ found }: State): GridPlan | undefined {
  return "placed" in found ? found : undefined;
}

/** Of each table the first that is equal to it, but for its columns. */
function sourcesOf(
  tables: readonly CostTable[],
  bytesOf: (table: CostTable, source: number) => number,
): number[] {
  const known = new Map<string, number>();
  return tables.map((table, i) => {
    const { rows, dim, poolingFactor, bins } = table;
    const name = JSON.stringify([rows, bytesOf(table, i) / dim, poolingFactor, bins]);
    const source = known.get(name) ?? i;
    known.set(name, source);
    return source;
  });
}

/** Of each table after the steps, which of the first `count` tables it is columns of. */
export function originsOf(count: number, steps: readonly number[]): number[] {
  const origins = Array.from({ length: count }, (_, i) => i);
  for (const step of steps) origins.push(origins[step] ?? step);
  return origins;
}

/** The largest and the dearest tables that can be halved, in the order of their indices. */
function candidatesOf(tables: readonly KnownTable[], count: number): number[] {
  const able = [...tables.keys()].filter((table) => tables[table]?.isHalvable);
  const most = (of: "bytes" | "cost") => {
    const value = (table: number) => tables[table]?.[of] ?? 0;
    return [...able].sort((a, b) => value(b) - value(a) || a - b).slice(0, count);
  };
  return [...new Set([...most("bytes"), ...most("cost")])].sort((a, b) => a - b);
}

/** Equal for states with the same tables in another order. */
function nameOf(tables: readonly KnownTable[]): string {
  return tables
    .map(({ key }) => key)
    .sort((a, b) => a - b)
    .join();
}

/** The cheaper first; of states without room, the one that lacks less. */
function better({ found: a }: State, { found: b }: State): number {
  if ("placed" in a && "placed" in b) return a.cost - b.cost;
  if ("placed" in a) return -1;
  if ("placed" in b) return 1;
  return a.lacksBytes - b.lacksBytes;
}
