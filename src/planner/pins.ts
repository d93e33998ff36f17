// Pins: parts of tables that an operator holds on a device. A plan is made around its pins: the
// pinned part is cut out of whatever tile it lies in, and the rest of the tile goes where the plan
// wants it. A pin names rows and columns, not a shard's number: numbers change with the cut of the
// tables. Where a part lies decides no bit (law 4).

import type { CacheBytes, PlacedShard, Plan, Tile } from "./shards.ts";

/** Most pins of a run: each may cut tiles of every column apart. */
export const pinsMax = 256;

/** A part of a table, and the device that is to hold it; plan-file.ts has the schema. */
export interface ShardPin extends TablePart {
  /** Rank of the device that is to hold it. */
  readonly device: number;
  /** Whether it may be moved only after it was thawed. */
  readonly isFrozen: boolean;
}

/** A part of one table. */
export interface TablePart extends Tile {
  readonly table: string;
}

/** The quanta that two tiles have in common; undefined: none. */
export function overlap(a: Tile, b: Tile): Tile | undefined {
  const firstBlock = Math.max(a.firstBlock, b.firstBlock);
  const firstQuantum = Math.max(a.firstQuantum, b.firstQuantum);
  const blocks = Math.min(a.firstBlock + a.blocks, b.firstBlock + b.blocks) - firstBlock;
  const quanta = Math.min(a.firstQuantum + a.quanta, b.firstQuantum + b.quanta) - firstQuantum;
  return blocks > 0 && quanta > 0 ? { firstBlock, blocks, firstQuantum, quanta } : undefined;
}

/** A tile without a part of it: above and below in its whole width, left and right beside it. */
export function without(tile: Tile, hole: Tile): Tile[] {
  const inner = overlap(tile, hole);
  if (inner === undefined) return [tile];
  const { firstBlock, blocks, firstQuantum, quanta } = inner;
  const [endBlock, endQuantum] = [firstBlock + blocks, firstQuantum + quanta];
  const pieces = [
    { ...tile, blocks: firstBlock - tile.firstBlock },
    { ...inner, firstQuantum: tile.firstQuantum, quanta: firstQuantum - tile.firstQuantum },
    { ...inner, firstQuantum: endQuantum, quanta: tile.firstQuantum + tile.quanta - endQuantum },
    { ...tile, firstBlock: endBlock, blocks: tile.firstBlock + tile.blocks - endBlock },
  ];
  return pieces
    .filter((piece) => piece.blocks > 0 && piece.quanta > 0)
    .map((piece) => ({
      firstBlock: piece.firstBlock,
      blocks: piece.blocks,
      firstQuantum: piece.firstQuantum,
      quanta: piece.quanta,
    }));
}

/** Tiles cut at the pins: those that no pin holds, and those of each pin. */
export function cutAtPins<Pin extends Tile>(
  tiles: readonly Tile[],
  pins: readonly Pin[],
): { readonly free: Tile[]; readonly pinned: { readonly tile: Tile; readonly pin: Pin }[] } {
  let free = [...tiles];
  const pinned: { readonly tile: Tile; readonly pin: Pin }[] = [];
  for (const pin of pins) {
    for (const tile of free) {
      const inner = overlap(tile, pin);
      if (inner !== undefined) pinned.push({ tile: inner, pin });
    }
    free = free.flatMap((tile) => without(tile, pin));
  }
  return { free, pinned };
}

/** The pins with another one: it takes the place of what older ones say of its part. */
export function withPin(pins: readonly ShardPin[], pin: ShardPin): ShardPin[] {
  return [...withoutPin(pins, pin), pin];
}

/** The pins without a part of a table. */
export function withoutPin(pins: readonly ShardPin[], part: TablePart): ShardPin[] {
  return pins.flatMap((pin) => {
    if (pin.table !== part.table) return [pin];
    return without(pin, part).map((tile) => ({ ...pin, ...tile }));
  });
}

/** The pin that holds a part of a table, or some of it; undefined: none does. */
export function pinOf(pins: readonly ShardPin[], part: TablePart): ShardPin | undefined {
  return pins.find((pin) => pin.table === part.table && overlap(pin, part) !== undefined);
}

/**
 * The plan with its pinned parts where they are to be; all else stays. A pin onto a device that the
 * plan has not, and a pin of a table with a copy on every device, change nothing.
 */
export function pinPlan(plan: Plan, pins: readonly ShardPin[]): Plan {
  const devices = plan.devices.hosts * plan.devices.perHost;
  const there = pins.filter(({ device }) => device < devices);
  if (there.length === 0) return plan;
  const shards = plan.shards.flatMap((shard): PlacedShard[] => {
    const own = there.filter(({ table }) => table === shard.table);
    if (shard.device === "all" || !own.some((pin) => overlap(shard, pin))) return [shard];
    const { free, pinned } = cutAtPins([shard], own);
    const pieces = [
      ...free.map((tile) => ({ ...shard, ...tile })),
      ...pinned.map(({ tile, pin }) => ({ ...shard, ...tile, device: pin.device })),
    ];
    return pieces
      .map((piece) => ({ ...piece, ...cacheOf(shard, piece) }))
      .sort((a, b) => a.firstQuantum - b.firstQuantum || a.firstBlock - b.firstBlock);
  });
  return { ...plan, shards };
}

/** A piece has its share of the caches of its shard. */
function cacheOf({ cache, ...shard }: PlacedShard, piece: Tile): { readonly cache?: CacheBytes } {
  if (cache === undefined) return {};
  const share = (piece.blocks * piece.quanta) / (shard.blocks * shard.quanta);
  const { hbmBytes, ddrBytes } = cache;
  const bytes = (of: number) => Math.floor(share * of);
  return { cache: { hbmBytes: bytes(hbmBytes), ddrBytes: bytes(ddrBytes) } };
}
