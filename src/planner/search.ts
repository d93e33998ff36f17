// The search for a plan: enumerates every option, proposes one option per table, places and scores
// the proposal, reports the result to the proposer, and keeps the best plan that fits (the loop of
// TorchRec's EmbeddingShardingPlanner). The plan is a function of the arguments: the effort is
// limited in placed parts, never in time.

import { belowBytesOf } from "./cost/constants.ts";
import { memoryOf, reserveOf, type Setting } from "./cost/cost.ts";
import { partitionByDifferencing } from "./differencing.ts";
import { enumerateOptions, type Group, type Option } from "./enumerate.ts";
import { isTiny, partitionExactly } from "./exact.ts";
import { type Partition, partitionGreedily, type Room, roomOfAll } from "./partition.ts";
import { type OptionTable, type Proposal, propose } from "./propose.ts";
import { deviceCount, type PlacedShard, type Plan, type PlannedTable } from "./shards.ts";

/** Limit of a search's effort: devices examined, once per placed part. */
const looksMax = { best: 100_000_000, first: 10_000_000 } as const;
/** Most devices that are examined for a part (tournament.ts). */
const looksOfPart = 128;
/**
 * Most numbers in the tuples of a differencing, which has one for each part and device: beyond, its
 * memory and time exceed those of the search.
 */
const tupleNumbersMax = 8_000_000;
/** How many of the best candidates are placed again by differencing. */
const refined = 3;
/**
 * Increase of the score that is accepted for a smaller maximum of memory, relative to the score.
 */
const memoryTolerance = 0.001;
/** Bisection steps on a device's memory. */
const halvings = 12;

/** The best result of one kind of proposal. */
export interface Considered {
  readonly proposer: string;
  readonly partitioner: string;
  /** Seconds of the slowest device; undefined if no plan of the kind fits. */
  readonly score: number | undefined;
}

export interface SearchResult {
  /** The best plan that fits, with its score in seconds; undefined if none was found. */
  readonly best: { readonly plan: Plan; readonly score: number } | undefined;
  /** Every kind of proposal, the best first. */
  readonly considered: readonly Considered[];
}

interface Candidate {
  readonly proposer: string;
  readonly partitioner: string;
  readonly proposal: Proposal;
  readonly partition: Partition;
  readonly score: number;
}

/** Returns the options of a table. */
export type Enumerate = (table: PlannedTable) => readonly Option[];

/**
 * Returns the best plan that fits. `effort` "first" returns the first plan that fits, to find out
 * whether there is one. `enumerate`, if given, returns cached options.
 */
export function searchPlan(
  setting: Setting,
  effort: "best" | "first" = "best",
  enumerate: Enumerate = (table) => enumerateOptions(setting, table),
): SearchResult {
  const room = roomOf(setting);
  // Every part takes room: if there is none, options need not be enumerated.
  const isEmpty = setting.workload.tables.length === 0;
  if (!isEmpty && roomOfAll(room) === 0) return { best: undefined, considered: [] };
  const options: OptionTable = setting.workload.tables.map((table) => {
    return enumerate(table).filter((option) => option.partBytes <= room.bytes);
  });
  const least = options.reduce((sum, own) => {
    return sum + own.reduce((fewest, option) => Math.min(fewest, option.bytes), Infinity);
  }, 0);
  // `least` is infinite if a table has no option.
  if (least > roomOfAll(room)) return { best: undefined, considered: [] };
  const { candidates, considered } = tryProposals(options, room, effort);
  const first = candidates[0];
  if (first === undefined) return { best: undefined, considered };
  if (effort === "first") return { best: bestOf(setting, options, first), considered };
  const all = [...candidates];
  const W = deviceCount(room.devices);
  for (const candidate of candidates.slice(0, refined)) {
    const groups = groupsOf(options, candidate.proposal);
    const parts = groups.reduce((sum, group) => sum + group.parts.length, 0);
    if (W * parts > tupleNumbersMax) continue;
    const partition = partitionByDifferencing(groups, room);
    if (partition === undefined) continue;
    all.push({ ...candidate, partitioner: "differencing", partition, score: scoreOf(partition) });
  }
  const chosen = all.sort(better)[0] ?? first;
  note(considered, chosen);
  const levelled = levelMemory(options, room, chosen);
  return {
    best: bestOf(setting, options, levelled),
    considered: considered.sort((a, b) => (a.score ?? Infinity) - (b.score ?? Infinity)),
  };
}

/** Returns the room for shards on each device. */
export function roomOf(setting: Setting): Room {
  const { devices, fleet } = setting;
  const reserve = reserveOf(setting);
  const bytesAt = (device: number) => Math.max(0, memoryOf(setting, device) - reserve);
  const hostBytes = belowBytesOf(setting.constants);
  if (fleet === undefined) return { devices, bytes: bytesAt(0), hostBytes };
  const bytes = Float64Array.from(fleet, (_, device) => bytesAt(device));
  const slowness = Float64Array.from(fleet, ({ rowSpeed }) => 1 / rowSpeed);
  return { devices, bytes: Math.max(...bytes), hostBytes, each: { bytes, slowness } };
}

function tryProposals(
  options: OptionTable,
  room: Room,
  effort: "best" | "first",
): { candidates: Candidate[]; considered: Considered[] } {
  const W = deviceCount(room.devices);
  const candidates: Candidate[] = [];
  const considered: Considered[] = [];
  /** Whether each proposal fits, so that no two proposers place the same one. */
  const seen = new Map<string, boolean>();
  const proposals = propose(options, W, roomOfAll(room));
  let looks = 0;
  let bound = Infinity;
  for (let next = proposals.next(); next.done !== true && looks < looksMax[effort]; ) {
    const { proposer, proposal } = next.value;
    const key = proposal.join();
    const known = seen.get(key);
    if (known !== undefined) {
      next = proposals.next(known);
      continue;
    }
    const groups = groupsOf(options, proposal);
    const placed = placeAll(groups, room, bound);
    const looksAtPart = room.each === undefined ? Math.min(W, looksOfPart) : W;
    looks += looksAtPart * groups.reduce((sum, group) => sum + group.parts.length, 0);
    seen.set(key, placed.length > 0);
    if (placed.length === 0) note(considered, { proposer });
    for (const { partitioner, partition } of placed) {
      const candidate = { proposer, partitioner, proposal, partition, score: scoreOf(partition) };
      candidates.push(candidate);
      note(considered, candidate);
      bound = Math.min(bound, candidate.score);
    }
    if (effort === "first" && candidates.length > 0) break;
    candidates.sort(better).splice(2 * refined);
    next = proposals.next(placed.length > 0);
  }
  return { candidates, considered };
}

/** Returns the placements of one proposal; empty if it does not fit. */
function placeAll(groups: readonly Group[], room: Room, bound: number) {
  const found: { partitioner: string; partition: Partition }[] = [];
  const W = deviceCount(room.devices);
  if (bytesOf(groups, W) > roomOfAll(room)) return found;
  const add = (partitioner: string, partition: Partition | undefined) => {
    if (partition !== undefined) found.push({ partitioner, partition });
    return partition !== undefined;
  };
  // Sorting by cost balances best. Sorting by bytes helps if room is scarce, as small parts are
  // placed last.
  const isPlaced =
    add("greedy by cost", partitionGreedily(groups, room)) ||
    add("greedy by bytes", partitionGreedily(groups, room, { order: "bytes", least: "cost" })) ||
    add("by bytes alone", partitionGreedily(groups, room, { order: "bytes", least: "bytes" }));
  if (isTiny(groups, W)) {
    const below = isPlaced ? Math.min(bound, ...found.map((one) => scoreOf(one.partition))) : bound;
    add("exact", partitionExactly(groups, room, below));
  }
  return found;
}

/** Bytes of all parts, copies included. */
function bytesOf(groups: readonly Group[], devices: number): number {
  return groups.reduce((sum, { level, parts }) => {
    const copies = level === "all" && parts.length === 1 ? devices : 1;
    return parts.reduce((own, part) => own + copies * part.bytes, sum);
  }, 0);
}

/**
 * Places the same options with less memory on the fullest device, if that costs almost nothing:
 * bisects the allowed memory towards the even share.
 */
function levelMemory(options: OptionTable, room: Room, best: Candidate): Candidate {
  const groups = groupsOf(options, best.proposal);
  const most = best.partition.bytes.reduce((a, b) => Math.max(a, b), 0);
  const sum = best.partition.bytes.reduce((a, b) => a + b, 0);
  let [low, high] = [sum / deviceCount(room.devices), most];
  let found = best;
  for (let i = 0; i < halvings && low < high; i++) {
    const bytes = Math.floor((low + high) / 2);
    const preference = { order: "bytes", least: "cost" } as const;
    const partition = partitionGreedily(groups, { ...room, bytes }, preference);
    const score = partition === undefined ? Infinity : scoreOf(partition);
    if (partition === undefined || score > best.score * (1 + memoryTolerance)) low = bytes;
    else {
      high = bytes;
      found = { ...best, partitioner: "memory-balanced", partition, score };
    }
  }
  return found;
}

function groupsOf(options: OptionTable, proposal: Proposal): Group[] {
  return options.flatMap((own, table) => own[proposal[table] ?? 0]?.groups ?? []);
}

function scoreOf({ cost }: Partition): number {
  return cost.reduce((most, own) => Math.max(most, own), 0);
}

function better(a: Candidate, b: Candidate): number {
  const most = ({ bytes }: Partition) => bytes.reduce((x, y) => Math.max(x, y), 0);
  return a.score - b.score || most(a.partition) - most(b.partition);
}

/** Keeps the best result of each proposer. */
function note(
  considered: Considered[],
  one: { proposer: string; partitioner?: string; score?: number },
): void {
  const { proposer, partitioner = "", score } = one;
  const at = considered.findIndex((other) => other.proposer === proposer);
  const entry = { proposer, partitioner, score };
  if (at < 0) considered.push(entry);
  else if ((score ?? Infinity) < (considered[at]?.score ?? Infinity)) considered[at] = entry;
}

function bestOf(setting: Setting, options: OptionTable, { proposal, partition, score }: Candidate) {
  const shards: PlacedShard[] = [];
  let part = 0;
  for (const [i, table] of setting.workload.tables.entries()) {
    const option: Option | undefined = options[i]?.[proposal[i] ?? 0];
    for (const group of option?.groups ?? []) {
      for (const { tile } of group.parts) {
        const place = partition.deviceOf[part++] ?? 0;
        shards.push({
          table: table.name,
          scheme: option?.scheme ?? "table-wise",
          tier: option?.tier ?? "memory",
          ...tile,
          device: place < 0 ? "all" : place,
        });
      }
    }
  }
  return { plan: { devices: setting.devices, shards }, score };
}
