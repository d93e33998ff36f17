// Proposals: one option for each table, before parts are placed. A proposer is a generator; each
// `yield` returns whether the proposal could be placed (after the proposers of TorchRec's planner).

import type { Option } from "./enumerate.ts";
import { type Scheme, schemes } from "./shards.ts";

/** For each table, the index of an option. Options are sorted by cost. */
export type Proposal = readonly number[];

/** A proposal, and the name of its proposer for the report. */
export interface Proposed {
  readonly proposer: string;
  readonly proposal: Proposal;
}

type Proposals = Generator<Proposed, void, boolean>;

/** For each table, its options. */
export type OptionTable = readonly (readonly Option[])[];

/** The greedy proposer lowers the memory of a share of the tables per round: 1 / `greedyRounds`. */
const greedyRounds = 20;
/** Largest number of combinations that are all tried. */
export const gridMax = 512;
/** Number of bins of memory in the dynamic programming. */
const bins = 100;
/** Proposals of the dynamic programming, cheapest first. */
const programmedMax = 8;
/** Limits on the largest part, as multiples of a device's even load. */
const levels = [Infinity, 1, 1 / 2, 1 / 4, 1 / 8];

/** Generates all proposals for `devices` devices with `bytes` together. */
export function* propose(options: OptionTable, devices: number, bytes: number): Proposals {
  const least = options.reduce((sum, own) => sum + (own[0]?.cost ?? 0), 0);
  for (const level of levels) {
    const share = (level * least) / devices;
    const allowed = options.map((own) => own.map((option) => option.partCost <= share));
    const name = level === Infinity ? "" : `, parts up to ${level} of a device`;
    yield* greedy(options, allowed, `greedy${name}`);
    yield* programmed(options, allowed, bytes, `dynamic programming${name}`);
  }
  for (const scheme of schemes) yield* uniform(options, scheme);
  yield* grid(options);
}

/**
 * Proposes each table's cheapest option. While the proposal cannot be placed, the tables with most
 * memory switch to their next cheapest option that uses less.
 */
function* greedy(options: OptionTable, allowed: readonly boolean[][], proposer: string): Proposals {
  const proposal = options.map((own, table) => firstAllowed(own, allowed[table] ?? []));
  const optionOf = (table: number) => options[table]?.[proposal[table] ?? 0];
  const stride = Math.ceil(options.length / greedyRounds);
  const tried = proposal.map((option) => new Set([option]));
  const isStuck = options.map(() => false);
  let isFeasible = yield { proposer, proposal: [...proposal] };
  while (!isFeasible) {
    const bytes = Float64Array.from(options, (_, table) => optionOf(table)?.bytes ?? 0);
    const byBytes = [...options.keys()]
      .filter((table) => isStuck[table] === false)
      .sort((a, b) => (bytes[b] ?? 0) - (bytes[a] ?? 0) || a - b);
    if (byBytes.length === 0) return;
    for (const table of byBytes.slice(0, stride)) {
      const now = optionOf(table);
      const next = (options[table] ?? []).findIndex((option, i) => {
        if (now === undefined || tried[table]?.has(i) !== false) return false;
        return option.bytes < now.bytes || option.partBytes < now.partBytes;
      });
      isStuck[table] = next < 0;
      if (next < 0) continue;
      proposal[table] = next;
      tried[table]?.add(next);
    }
    isFeasible = yield { proposer, proposal: [...proposal] };
  }
}

/**
 * The cheapest option with small enough parts; if there is none, the option with the smallest
 * parts.
 */
function firstAllowed(own: readonly Option[], allowed: readonly boolean[]): number {
  const first = allowed.indexOf(true);
  if (first >= 0) return first;
  let smallest = 0;
  for (const [i, option] of own.entries()) {
    if (option.partCost < (own[smallest]?.partCost ?? Infinity)) smallest = i;
  }
  return smallest;
}

/** Proposes the same scheme for every table that allows it. */
function* uniform(options: OptionTable, scheme: Scheme): Proposals {
  const proposal = options.map((own) => own.findIndex((option) => option.scheme === scheme));
  if (proposal.every((option) => option < 0)) return;
  yield {
    proposer: `uniform ${scheme}`,
    proposal: proposal.map((option) => Math.max(0, option)),
  };
}

/** Proposes every combination, if there are at most `gridMax`. */
function* grid(options: OptionTable): Proposals {
  const combinations = options.reduce((product, own) => product * own.length, 1);
  if (combinations > gridMax) return;
  for (let i = 0; i < combinations; i++) {
    let rest = i;
    const proposal = options.map((own) => {
      const option = rest % own.length;
      rest = Math.floor(rest / own.length);
      return option;
    });
    yield { proposer: "grid", proposal };
  }
}

/**
 * Dynamic programming: the cheapest sum of costs for each bin of memory over all devices,
 * best[i][m] = min over options j of best[i-1][m - bytes of j] + cost of j. A bin keeps the exact
 * bytes of its best sum, so that many small tables are not rounded up.
 */
function* programmed(
  options: OptionTable,
  allowed: readonly boolean[][],
  bytesMax: number,
  proposer: string,
): Proposals {
  const binBytes = bytesMax / bins;
  if (!(binBytes > 0) || binBytes === Infinity) return;
  let cost = new Float64Array(bins).fill(Infinity);
  let bytes = new Float64Array(bins);
  cost[0] = 0;
  const chosen: Int32Array[] = [];
  const cameFrom: Int8Array[] = [];
  for (const [table, own] of options.entries()) {
    const fallback = firstAllowed(own, allowed[table] ?? []);
    const nextCost = new Float64Array(bins).fill(Infinity);
    const nextBytes = new Float64Array(bins);
    const choice = new Int32Array(bins).fill(-1);
    const from = new Int8Array(bins);
    for (const [j, option] of own.entries()) {
      if (allowed[table]?.[j] !== true && j !== fallback) continue;
      for (let bin = 0; bin < bins; bin++) {
        const sum = (cost[bin] ?? Infinity) + option.cost;
        if (sum === Infinity) continue;
        const used = (bytes[bin] ?? 0) + option.bytes;
        const at = Math.min(bins - 1, Math.floor(used / binBytes));
        if (used > bytesMax || sum >= (nextCost[at] ?? Infinity)) continue;
        nextCost[at] = sum;
        nextBytes[at] = used;
        choice[at] = j;
        from[at] = bin;
      }
    }
    [cost, bytes] = [nextCost, nextBytes];
    chosen.push(choice);
    cameFrom.push(from);
  }
  const ends = [...cost.keys()].filter((bin) => cost[bin] !== Infinity);
  ends.sort((a, b) => (cost[a] ?? 0) - (cost[b] ?? 0) || a - b);
  for (const end of ends.slice(0, programmedMax)) {
    const proposal = options.map(() => 0);
    let bin = end;
    for (let table = options.length - 1; table >= 0; table--) {
      proposal[table] = chosen[table]?.[bin] ?? 0;
      bin = cameFrom[table]?.[bin] ?? 0;
    }
    if (yield { proposer, proposal }) return;
  }
}
