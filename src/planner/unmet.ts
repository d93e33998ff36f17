// Explains why no plan fits, by the smallest set of unmet needs: first the lack of memory for the
// reserve or for the least caches, or of hosts' memory below caches; else of a single table that
// fits on no device; else of all tables together; else of the fullest devices or hosts, if whole
// parts do not pack.

import { reserveOf, type Setting } from "./cost/cost.ts";
import { enumerateOptions, type Option } from "./enumerate.ts";
import { type Partition, partitionGreedily, type Room, roomAt, roomOfAll } from "./partition.ts";
import { roomOf } from "./search.ts";
import { deviceCount, type PlannedTable } from "./shards.ts";
import { lacksOf } from "./size-caches.ts";

export interface UnmetNeed {
  readonly kind: "reserve" | "caches" | "scheme" | "table" | "total" | "device" | "host";
  /** One sentence: the need, and the amount that is available. */
  readonly sentence: string;
  /** Bytes lacking; 0 if the need is not about bytes. */
  readonly lacksBytes: number;
}

/** Returns the unmet needs of a setting for which no plan was found; never empty. */
export function unmetNeeds(setting: Setting): UnmetNeed[] {
  const { workload, constants, devices } = setting;
  const reserve = reserveOf(setting);
  if (reserve > constants.memoryBytes) {
    const lacksBytes = reserve - constants.memoryBytes;
    const held = `Every device holds back ${reserve} bytes for dense layers and ids`;
    const sentence = `${held}, and has ${constants.memoryBytes}`;
    return [{ kind: "reserve", sentence, lacksBytes }];
  }
  const lacking = lacksOf(setting);
  if (lacking > 0) {
    const W = deviceCount(devices);
    const hbmBytes = workload.budgets?.hbmBytes ?? 0;
    const needed = "Caches of 32 rows of each row block, the least there are, need";
    const enough = `\`tiers.hbmBytes: ${hbmBytes + Math.ceil(lacking / W)}\` would do`;
    const sentence = `${needed} ${W * hbmBytes + lacking} bytes on ${W} devices; ${enough}`;
    return [{ kind: "caches", sentence, lacksBytes: lacking }];
  }
  const room = roomOf(setting);
  const options = workload.tables.map((table) => enumerateOptions(setting, table));
  const lacksHosts = hostNeed(options, room);
  if (lacksHosts.length > 0) return lacksHosts;
  const alone = workload.tables.flatMap((table, i) => {
    return tableNeed(table, options[i] ?? [], room.bytes);
  });
  if (alone.length > 0) return alone;
  const fitting = options.map((own) => own.filter((option) => option.partBytes <= room.bytes));
  const W = deviceCount(devices);
  const least = fitting.reduce((sum, own) => sum + (leanest(own)?.bytes ?? 0), 0);
  const total = roomOfAll(room);
  if (least > total) {
    const needed = `All tables need ${least} bytes at least`;
    const sentence = `${needed}, and ${W} devices have ${total} for them`;
    return [{ kind: "total", sentence, lacksBytes: least - total }];
  }
  const groups = fitting.flatMap((own) => leanest(own)?.groups ?? []);
  const boundless = { devices, bytes: Infinity };
  const packed = partitionGreedily(groups, boundless, { order: "bytes", least: "bytes" });
  return deviceNeeds(packed, room);
}

function tableNeed(table: PlannedTable, options: readonly Option[], bytes: number): UnmetNeed[] {
  const { name } = table;
  if (options.length === 0) {
    const has = `it has ${table.rowBlocks} row blocks and ${table.dim} columns`;
    const sentence = `Table ${name} cannot be cut by ${table.schemes.join(", ")}: ${has}`;
    return [{ kind: "scheme", sentence, lacksBytes: 0 }];
  }
  const part = options.reduce((least, option) => Math.min(least, option.partBytes), Infinity);
  if (part <= bytes) return [];
  const needed = `Table ${name} needs ${part} bytes on one device at least`;
  const sentence = `${needed}, and a device has ${bytes} for it`;
  return [{ kind: "table", sentence, lacksBytes: part - bytes }];
}

/** The lack of memory of devices and hosts together, where cached tables lie in that of hosts. */
function hostNeed(options: readonly (readonly Option[])[], room: Room): UnmetNeed[] {
  if (room.hostBytes === undefined) return [];
  const least = options.reduce((sum, own) => {
    return sum + own.reduce((few, one) => Math.min(few, one.bytes + one.hostBytes), Infinity);
  }, 0);
  const { hosts } = room.devices;
  const [onHosts, onDevices] = [hosts * room.hostBytes, roomOfAll(room)];
  if (least === Infinity || least <= onHosts + onDevices) return [];
  const needed = `All tables need ${least} bytes at least, with their optimizer's state`;
  const own = hosts === 1 ? "the host has" : `${hosts} hosts have`;
  const sentence = `${needed}; ${own} ${onHosts} for them, and the devices ${onDevices}`;
  return [{ kind: "host", sentence, lacksBytes: least - onHosts - onDevices }];
}

/** The option with the fewest bytes. */
function leanest(options: readonly Option[]): Option | undefined {
  return options.reduce<Option | undefined>(
    (best, option) => (best === undefined || option.bytes < best.bytes ? option : best),
    undefined,
  );
}

function deviceNeeds(packed: Partition | undefined, room: Room): UnmetNeed[] {
  const needs = [...(packed?.bytes ?? [])].flatMap((used, device): UnmetNeed[] => {
    const bytes = roomAt(room, device);
    if (used <= bytes) return [];
    const sentence = `Device ${device} would hold ${used} bytes of whole shards, and has ${bytes}`;
    return [{ kind: "device", sentence, lacksBytes: used - bytes }];
  });
  if (needs.length > 0) return needs;
  const full = [...(packed?.hostBytes ?? [])].flatMap((used, host): UnmetNeed[] => {
    const { hostBytes = Infinity } = room;
    if (used <= hostBytes) return [];
    const sentence = `Host ${host} would hold ${used} bytes of whole shards, and has ${hostBytes}`;
    return [{ kind: "host", sentence, lacksBytes: used - hostBytes }];
  });
  if (full.length > 0) return full;
  const sentence = `No placement was found that balances both the bytes and costs of whole shards`;
  return [{ kind: "device", sentence, lacksBytes: 0 }];
}
