// The outer search of NeuroShard (Zha et al., MLSys 2023, section 3.3): decides which tables are
// cut into two halves of their columns; and, beyond the paper, by rows, or kept below memory, or
// copied (parts.ts). The search keeps a beam of the best states, and extends each state by one move
// of one of its largest or costliest parts. The result is the best plan of all steps, so the search
// may be stopped at any moment. The search is deterministic: the plan is a function of the
// arguments.

import { type CostTable, type Paused, untilDone } from "../../../internal.ts";
import type { CostNetworks } from "./cost-networks.ts";
import { type CacheCounts, DeviceStates, type KnownPart } from "./device-states.ts";
import type { DeviceRoom, TablesOfDevices } from "./greedy.ts";
import { type GridPlan, gridScales, type NoRoom, searchGrid } from "./grid-search.ts";
import { improving } from "./improve.ts";
import { type Move, moved, moveKinds, type TablePart, tableParts } from "./parts.ts";

export interface BeamOptions {
  /** Beam width: states that are kept after each step. @default 3 */
  readonly beam?: number;
  /** Steps. @default 10 */
  readonly steps?: number;
  /**
   * How many of the largest, and of the costliest, parts are tried with each kind of move. @default
   * 10
   */
  readonly candidates?: number;
  /** Limits of columns (grid-search.ts). @default gridScales */
  readonly scales?: readonly number[];
  /** Whether the best plan is improved by moving tables (improve.ts). @default true */
  readonly improve?: boolean;
  /**
   * Maximum number of placements that are tried; the scales of one placement do not count. @default
   * 1000
   */
  readonly placementsMax?: number;
  /** Called before each placement but the first: true ends the search with the best plan so far. */
  readonly isOver?: () => boolean;
}

/** A plan of a learned search. */
export interface LearnedPlan {
  /** The moves of the parts, in order (`moved` of parts.ts). */
  readonly steps: readonly Move[];
  /** The parts of each device; copies, which every device has, are not listed. */
  readonly placed: TablesOfDevices;
  /** Predicted milliseconds of the slowest device. */
  readonly cost: number;
}

/** The result of a search for a plan by predicted costs. */
export interface LearnedSearch {
  /** Undefined if no placement that was tried fits into memory. */
  readonly best: LearnedPlan | undefined;
  /** Predicted milliseconds of the best plan without any move; undefined if none fits. */
  readonly whole: number | undefined;
  /** Predicted milliseconds of the best plan of the published search, before `improve`. */
  readonly published: number | undefined;
  /** Number of placements that were tried. */
  readonly placements: number;
  /** Whether the search ran to its end. */
  readonly isComplete: boolean;
  readonly cache: CacheCounts;
}

/** A state of the search: the parts after some moves, and their best placement. */
interface State {
  readonly steps: readonly Move[];
  readonly parts: readonly TablePart[];
  readonly known: readonly KnownPart[];
  readonly found: GridPlan | NoRoom;
}

/** Searches for the plan of least predicted cost for tables whose columns may be halved. */
export function searchLearned(
  networks: CostNetworks,
  tables: readonly CostTable[],
  room: DeviceRoom,
  options: BeamOptions = {},
): LearnedSearch {
  return searchParts(networks, tableParts(tables), room, options);
}

/** Searches for the plan of least predicted cost for any parts, with the moves that they allow. */
export function searchParts(
  networks: CostNetworks,
  given: readonly TablePart[],
  room: DeviceRoom,
  options: BeamOptions = {},
): LearnedSearch {
  return untilDone(searchingParts(networks, given, room, options));
}

/**
 * `searchParts` as a generator that yields before each placement but the first, and before each
 * change of the best plan.
 */
export function* searchingParts(
  networks: CostNetworks,
  given: readonly TablePart[],
  room: DeviceRoom,
  options: BeamOptions = {},
): Paused<LearnedSearch> {
  const { beam = 3, steps = 10, candidates = 10, scales = gridScales } = options;
  const { placementsMax = 1000, isOver = () => false, improve = true } = options;
  const states = new DeviceStates(networks);
  let placements = 0;
  const knownOf = (parts: readonly TablePart[]) => parts.map((part) => states.part(part));
  const stateOf = (
    own: readonly Move[],
    parts: readonly TablePart[],
    known: readonly KnownPart[],
  ): State => {
    placements++;
    const found = searchGrid(networks, states, known, room, scales);
    return { steps: own, parts, known, found };
  };
  const whole = stateOf([], given, knownOf(given));
  let best = whole;
  let kept: readonly State[] = [whole];
  let isComplete = true;
  search: for (let step = 0; step < steps; step++) {
    const next: State[] = [];
    const seen = new Set<string>();
    for (const state of kept) {
      for (const move of candidatesOf(state, candidates)) {
        yield;
        if (placements >= placementsMax || isOver()) {
          isComplete = false;
          break search;
        }
        const after = moved(state.parts, [move]);
        const known = knownOf(after);
        const name = nameOf(known);
        if (seen.has(name)) continue;
        seen.add(name);
        const made = stateOf([...state.steps, move], after, known);
        next.push(made);
        if (better(made, best) < 0) best = made;
      }
    }
    if (next.length === 0) break;
    kept = next.sort(better).slice(0, beam);
  }
  const found = costOf(best);
  const improved = found && improve ? yield* improvedOf(best, found) : found;
  isComplete &&= !isOver();
  return {
    best: improved && { steps: best.steps, ...improved },
    whole: costOf(whole)?.cost,
    published: found?.cost,
    placements,
    isComplete,
    cache: states.counts,
  };

  function improvedOf({ known }: State, plan: GridPlan): Paused<GridPlan> {
    return improving(networks, known, plan, room, isOver);
  }
}

function costOf({ found }: State): GridPlan | undefined {
  return "placed" in found ? found : undefined;
}

/**
 * The moves to try: for each kind the largest and the costliest parts that allow it, in the order
 * of their indices. For copies, the parts with the highest cost per byte replace the largest.
 */
function candidatesOf({ parts, known }: State, count: number): Move[] {
  return moveKinds.flatMap((kind) => {
    const able = [...parts.keys()].filter((part) => parts[part]?.moves.has(kind));
    const highest = (of: (part: KnownPart) => number) => {
      const value = (part: number) => {
        const knownPart = known[part];
        return knownPart === undefined ? 0 : of(knownPart);
      };
      return [...able].sort((a, b) => value(b) - value(a) || a - b).slice(0, count);
    };
    const dearest = highest(({ cost }) => cost);
    const others = highest(kind === "copied" ? ({ cost, bytes }) => cost / bytes : byBytes);
    const chosen = [...new Set([...others, ...dearest])].sort((a, b) => a - b);
    return chosen.map((part) => ({ part, kind }));
  });
}

function byBytes({ bytes }: KnownPart): number {
  return bytes;
}

/** Equal for states with the same tables in another order. */
function nameOf(parts: readonly KnownPart[]): string {
  return parts
    .map(({ key }) => key)
    .sort((a, b) => a - b)
    .join();
}

/**
 * Compares states: cheaper plans first; then states without a plan, by the bytes that they lack.
 */
function better({ found: a }: State, { found: b }: State): number {
  if ("placed" in a && "placed" in b) return a.cost - b.cost;
  if ("placed" in a) return -1;
  if ("placed" in b) return 1;
  return a.lacks - b.lacks;
}
