// Partition by largest differencing (Karmarkar and Karp, for k devices; Neo also places shards this
// way: Mudigere et al., arXiv 2104.05158). Each part begins as a tuple of k sums, all but one of
// them 0. The two tuples with the widest spread are merged, the largest sums of one with the
// smallest of the other, until one tuple is left. Memory is ignored: a result that does not fit is
// dropped. Devices must be alike, as sums change places.

import {
  fits,
  type Load,
  type LoadGroup,
  type Partition,
  partitionGreedily,
  partStarts,
  put,
  type Room,
} from "./partition.ts";

/** k sums in ascending order, and the members of each. */
interface Tuple {
  readonly sums: Float64Array;
  /** Nodes of `Members`; -1: empty. */
  readonly sets: Int32Array;
}

/**
 * Places the groups of level `all` and `host` greedily, and all others by differencing. Undefined
 * if the result does not fit on a device, or hosts are unequal.
 */
export function partitionByDifferencing(
  groups: readonly LoadGroup[],
  room: Room,
): Partition | undefined {
  if (room.each !== undefined) return undefined;
  const { starts, parts } = partStarts(groups);
  const isSingle = (group: LoadGroup) => group.level === "device";
  const fixed = partitionGreedily(
    groups.filter((group) => !isSingle(group)),
    room,
  );
  if (fixed === undefined) return undefined;
  const to: Partition = { ...fixed, deviceOf: new Int32Array(parts) };
  const loads: Load[] = [];
  const places: number[] = [];
  let kept = 0;
  for (const [i, group] of groups.entries()) {
    const start = starts[i] ?? 0;
    for (const [j, load] of group.parts.entries()) {
      if (!isSingle(group)) to.deviceOf[start + j] = fixed.deviceOf[kept++] ?? 0;
      else {
        loads.push(load);
        places.push(start + j);
      }
    }
  }
  const costs = loads.map((load) => load.cost);
  for (const [device, members] of difference(costs, to.cost.slice()).entries()) {
    for (const item of members) {
      const load = loads[item];
      if (load !== undefined) put(to, places[item] ?? 0, load, device, room);
    }
  }
  return fits(to, room) ? to : undefined;
}

/** Returns for each device the items that are added to its present load. */
export function difference(costs: readonly number[], loads: Float64Array): number[][] {
  const k = loads.length;
  const members = createMembers(costs.length, k);
  const heap = createHeap();
  // The present loads of the devices form one tuple; each sum stands for its device.
  const byLoad = [...loads.keys()].sort((a, b) => (loads[a] ?? 0) - (loads[b] ?? 0) || a - b);
  heap.push({
    sums: Float64Array.from(byLoad, (device) => loads[device] ?? 0),
    sets: Int32Array.from(byLoad, (device) => costs.length + device),
  });
  for (const [item, cost] of costs.entries()) {
    const tuple = { sums: new Float64Array(k), sets: new Int32Array(k).fill(-1) };
    tuple.sums[k - 1] = cost;
    tuple.sets[k - 1] = item;
    heap.push(tuple);
  }
  for (;;) {
    const first = heap.pop();
    const second = heap.pop();
    if (first === undefined) return loads.length === 0 ? [] : Array.from(loads, () => []);
    if (second === undefined) return members.byDevice(first.sets);
    heap.push(merge(first, second, members));
  }
}

/** Merges the smallest sums of one tuple with the largest of the other. */
function merge(a: Tuple, b: Tuple, members: Members): Tuple {
  const k = a.sums.length;
  const sums = new Float64Array(k);
  const sets = new Int32Array(k);
  for (let i = 0; i < k; i++) {
    sums[i] = (a.sums[i] ?? 0) + (b.sums[k - 1 - i] ?? 0);
    sets[i] = members.join(a.sets[i] ?? -1, b.sets[k - 1 - i] ?? -1);
  }
  // Insertion sort: after a merge with a single item, only one sum is out of order.
  for (let i = 1; i < k; i++) {
    const sum = sums[i] ?? 0;
    const set = sets[i] ?? -1;
    let at = i;
    for (; at > 0 && (sums[at - 1] ?? 0) > sum; at--) {
      sums[at] = sums[at - 1] ?? 0;
      sets[at] = sets[at - 1] ?? -1;
    }
    sums[at] = sum;
    sets[at] = set;
  }
  return { sums, sets };
}

type Members = ReturnType<typeof createMembers>;

/** Growing sets as trees: items 0..items-1, then devices, then unions. */
function createMembers(items: number, devices: number) {
  const left: number[] = [];
  const right: number[] = [];
  const leaves = items + devices;

  return {
    /** The union of two sets; -1 is the empty set. */
    join(a: number, b: number): number {
      if (a < 0) return b;
      if (b < 0) return a;
      left.push(a);
      right.push(b);
      return leaves + left.length - 1;
    },

    /** For each device, the items in its set. */
    byDevice(sets: Int32Array): number[][] {
      const found: number[][] = Array.from({ length: devices }, () => []);
      for (const root of sets) {
        const own: number[] = [];
        let device = 0;
        const open = [root];
        for (let node = open.pop(); node !== undefined; node = open.pop()) {
          if (node >= leaves) open.push(left[node - leaves] ?? -1, right[node - leaves] ?? -1);
          else if (node >= items) device = node - items;
          else if (node >= 0) own.push(node);
        }
        found[device] = own.sort((a, b) => a - b);
      }
      return found;
    },
  };
}

/** A heap with the widest spread on top; among equals, the oldest. */
function createHeap() {
  const entries: { readonly tuple: Tuple; readonly spread: number; readonly serial: number }[] = [];
  let serial = 0;
  const isBefore = (i: number, j: number): boolean => {
    const [a, b] = [entries[i], entries[j]];
    if (a === undefined || b === undefined) return b === undefined && a !== undefined;
    return a.spread > b.spread || (a.spread === b.spread && a.serial < b.serial);
  };
  const swap = (i: number, j: number): void => {
    const [a, b] = [entries[i], entries[j]];
    if (a === undefined || b === undefined) return;
    entries[i] = b;
    entries[j] = a;
  };

  return {
    push(tuple: Tuple): void {
      const spread = (tuple.sums.at(-1) ?? 0) - (tuple.sums[0] ?? 0);
      entries.push({ tuple, spread, serial: serial++ });
      for (let at = entries.length - 1; at > 0; ) {
        const parent = (at - 1) >> 1;
        if (!isBefore(at, parent)) break;
        swap(at, parent);
        at = parent;
      }
    },

    pop(): Tuple | undefined {
      const top = entries[0];
      swap(0, entries.length - 1);
      entries.pop();
      for (let at = 0; ; ) {
        let first = at;
        for (const child of [2 * at + 1, 2 * at + 2]) if (isBefore(child, first)) first = child;
        if (first === at) break;
        swap(at, first);
        at = first;
      }
      return top?.tuple;
    },
  };
}
