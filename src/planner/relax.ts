// Changes that would make a plan fit: the cheapest change of each kind, each verified by planning
// again. Changes that cost nothing come first, then changes of the job's arithmetic, then memory,
// then devices.

import { belowBytesOf, type MachineConstants } from "./cost/constants.ts";
import type { Setting } from "./cost/cost.ts";
import { enumerateOptions, type Option, sameAs } from "./enumerate.ts";
import { type Enumerate, searchPlan } from "./search.ts";
import { type PlannedTable, type Scheme, schemes, type Tier } from "./shards.ts";
import { withLeastCaches } from "./size-caches.ts";

export interface Relaxation {
  readonly kind: "scheme" | "cache" | "row-blocks" | "precision" | "memory" | "devices";
  /** The change, in one sentence. */
  readonly sentence: string;
  /** Score in seconds of the plan found with the change. */
  readonly score: number;
}

/** Maximum number of row blocks of a table (src/embedding/tables/options.ts). */
const rowBlocksMax = 64;
/** Maximum number of devices that is tried, as a multiple of the present number. */
const devicesFactor = 16;
/** Maximum doublings of a device's memory; `bisections` between two doublings follow. */
const doublings = 40;
const bisections = 7;

/**
 * Returns the relaxations that help, the cheapest kind first. `mayAddDevices`: whether further
 * devices of a host have memory of their own; otherwise only more hosts have more.
 */
export function relaxations(setting: Setting, mayAddDevices = true): Relaxation[] {
  return [
    ...moreSchemes(setting),
    ...withCache(setting),
    ...moreRowBlocks(setting),
    ...lessPrecision(setting),
    ...moreMemory(setting),
    ...moreBelow(setting),
    ...moreDevices(setting, mayAddDevices),
  ];
}

type Kind = Relaxation["kind"];

/** Returns the relaxation if a plan fits with it. */
function verified(
  kind: Kind,
  sentence: string,
  setting: Setting,
  enumerate?: Enumerate,
): Relaxation[] {
  const { best } = searchPlan(setting, "first", enumerate);
  return best === undefined ? [] : [{ kind, sentence, score: best.score }];
}

/** Caches the options of tables, which are requested repeatedly and do not change. */
function remembered(setting: Setting): Enumerate {
  const known = new Map<PlannedTable, readonly Option[]>();
  return (table) => {
    const options = known.get(table) ?? enumerateOptions(setting, table);
    known.set(table, options);
    return options;
  };
}

function withTables(setting: Setting, change: (table: PlannedTable) => PlannedTable): Setting {
  const { workload } = setting;
  return { ...setting, workload: { ...workload, tables: workload.tables.map(change) } };
}

/** Allows every table one more scheme. */
function moreSchemes(setting: Setting): Relaxation[] {
  const missing = schemes.filter(
    (scheme) =>
      sameAs(setting.devices, scheme) === undefined &&
      setting.workload.tables.some((table) => !table.schemes.includes(scheme)),
  );
  const add = (scheme: Scheme) =>
    withTables(setting, (table) => ({
      ...table,
      schemes: schemes.filter((one) => one === scheme || table.schemes.includes(one)),
    }));
  return missing.flatMap((scheme) => verified("scheme", `Allow ${scheme}`, add(scheme)));
}

function withCache(setting: Setting): Relaxation[] {
  if (setting.workload.tables.every((table) => table.tiers.includes("cached"))) return [];
  const tiers: readonly Tier[] = ["memory", "cached"];
  const cached = withTables(setting, (table) => ({ ...table, tiers }));
  const { budgets } = setting.workload;
  const what =
    budgets === undefined
      ? `with ${setting.constants.cacheLoad} of their rows cached`
      : `behind caches of ${budgets.hbmBytes} bytes on each device`;
  return verified("cache", `Keep tables below memory, ${what}`, withLeastCaches(cached));
}

/**
 * Gives row blocks to the largest tables, to as few as possible, so that they can be cut by rows.
 */
function moreRowBlocks(setting: Setting): Relaxation[] {
  return fewestTables(
    setting,
    "row-blocks",
    (names) => `Give ${rowBlocksMax} row blocks to ${names} and allow row-wise`,
    (table) => ({
      ...table,
      rowBlocks: rowBlocksMax,
      schemes: schemes.filter((one) => one === "row-wise" || table.schemes.includes(one)),
    }),
  );
}

function lessPrecision(setting: Setting): Relaxation[] {
  for (const [name, bytes] of [
    ["bfloat16", 2],
    ["int8", 1],
  ] as const) {
    const found = fewestTables(
      setting,
      "precision",
      (names) => `Store the rows of ${names} in ${name}`,
      (table) => ({ ...table, weightBytes: Math.min(bytes, table.weightBytes) }),
    );
    if (found.length > 0) return found;
  }
  return [];
}

/** Applies the change to the n largest tables, with the smallest n that fits. */
function fewestTables(
  setting: Setting,
  kind: Kind,
  sentence: (names: string) => string,
  change: (table: PlannedTable) => PlannedTable,
): Relaxation[] {
  const { tables } = setting.workload;
  const size = ({ rows, dim, weightBytes }: PlannedTable) => rows * dim * weightBytes;
  const largest = [...tables].sort((a, b) => size(b) - size(a));
  const changes = new Map(tables.map((table) => [table, change(table)]));
  const enumerate = remembered(setting);
  const attempt = (count: number) => {
    const chosen = new Set(largest.slice(0, count));
    const changed = withTables(setting, (table) => {
      return (chosen.has(table) ? changes.get(table) : undefined) ?? table;
    });
    const names = largest.slice(0, 3).map((table) => table.name);
    const first = names.slice(0, count).join(", ");
    const named = count > 3 ? `the ${count} largest tables (${first}, …)` : first;
    return verified(kind, sentence(named), changed, enumerate);
  };
  return smallest(1, tables.length, attempt);
}

/** More memory for each device. */
function moreMemory(setting: Setting): Relaxation[] {
  const { memoryBytes } = setting.constants;
  return moreBytes(setting, memoryBytes, (bytes) => ({
    change: { memoryBytes: bytes },
    sentence: `Give each device ${bytes} bytes of memory`,
  }));
}

/** More room on each host for rows below caches, where it is counted. */
function moreBelow(setting: Setting): Relaxation[] {
  const now = belowBytesOf(setting.constants);
  if (now === undefined) return [];
  const isDisk = setting.constants.hostMemoryBytes === undefined;
  return moreBytes(setting, now, (bytes) => ({
    change: isDisk ? { diskBytes: bytes } : { hostMemoryBytes: bytes },
    sentence: `Give each host ${bytes} bytes of ${isDisk ? "disk" : "memory below its devices"}`,
  }));
}

/** A change to more bytes, within 1 % of the least that fits. */
function moreBytes(
  setting: Setting,
  now: number,
  changeTo: (bytes: number) => {
    readonly change: Partial<MachineConstants>;
    readonly sentence: string;
  },
): Relaxation[] {
  const { constants } = setting;
  const step = Math.max(2 ** 20, now);
  const enumerate = remembered(setting); // Options do not depend on memory.
  const attempt = (bytes: number) => {
    const { change, sentence } = changeTo(bytes);
    const changed = { ...setting, constants: { ...constants, ...change } };
    return verified("memory", sentence, changed, enumerate);
  };
  let low = now;
  for (let i = 0; i < doublings; i++) {
    const high = step * 2 ** (i + 1);
    const found = attempt(high);
    if (found.length === 0) {
      low = high;
      continue;
    }
    const unit = Math.ceil((high - low) / 2 ** bisections);
    return smallest(1, 2 ** bisections, (units) => attempt(Math.min(high, low + units * unit)));
  }
  return [];
}

/** More devices: on one host with memory for them, or more hosts of the present kind. */
function moreDevices(setting: Setting, mayAddDevices: boolean): Relaxation[] {
  const { hosts, perHost } = setting.devices;
  const isOnHost = hosts === 1 && mayAddDevices;
  const attempt = (factorOf: number) => {
    const devices = isOnHost
      ? { hosts, perHost: perHost + factorOf }
      : { hosts: hosts + factorOf, perHost };
    const noun = isOnHost ? `${devices.perHost} devices` : `${devices.hosts} hosts`;
    return verified("devices", `Use ${noun}`, { ...setting, devices });
  };
  const least = isOnHost ? perHost : hosts;
  return smallest(1, (devicesFactor - 1) * least, attempt);
}

/**
 * The result of `attempt` for the smallest argument in first..last that has a result, if all larger
 * arguments have one, too. Doubles the argument first, then bisects.
 */
function smallest(
  first: number,
  last: number,
  attempt: (count: number) => Relaxation[],
): Relaxation[] {
  let low = first - 1;
  let high = first;
  let found = attempt(high);
  while (found.length === 0) {
    if (high >= last) return [];
    low = high;
    high = Math.min(last, 2 * high);
    found = attempt(high);
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const attempted = attempt(middle);
    if (attempted.length === 0) low = middle;
    else [high, found] = [middle, attempted];
  }
  return found;
}
