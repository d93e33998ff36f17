// Pins: parts of tables that an operator wants on a certain device. A pin is a preference: a
// generation that cannot follow a pin trains without it (follow-pins.ts). A plan is made around its
// pins: the pinned part is cut out of its tile, and the planner places the rest of the tile freely.
// A pin names rows and columns instead of a shard's number, since the numbers change with the cut
// of the tables. The placement of a part changes no bit of the result (law 4).

import type { CacheBytes, PlacedShard, Plan, Tile } from "./shards.ts";

/** Maximum number of pins of a run; bounded, as each pin may split tiles. */
export const pinsMax = 256;

/** A part of a table, and the device that an operator wants it on; plan-file.ts has the schema. */
export interface ShardPin extends TablePart {
  /** Rank of that device. */
  readonly device: number;
  /** Whether the pin is frozen: `shard move` is refused until the pin is thawed. */
  readonly isFrozen: boolean;
}

export interface TablePart extends Tile {
  readonly table: string;
}

/** Returns the intersection of two tiles; undefined: it is empty. */
export function overlap(a: Tile, b: Tile): Tile | undefined {
  const firstBlock = Math.max(a.firstBlock, b.firstBlock);
  const firstQuantum = Math.max(a.firstQuantum, b.firstQuantum);
  const blocks = Math.min(a.firstBlock + a.blocks, b.firstBlock + b.blocks) - firstBlock;
  const quanta = Math.min(a.firstQuantum + a.quanta, b.firstQuantum + b.quanta) - firstQuantum;
  return blocks > 0 && quanta > 0 ? { firstBlock, blocks, firstQuantum, quanta } : undefined;
}

/**
 * Returns the rest of a tile outside `hole`, as tiles: above and below the hole in the tile's whole
 * width, left and right of it in the hole's height.
 */
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

/** Cuts tiles at the pins: `free` tiles lie outside all pins, `pinned` tiles inside a pin. */
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

/** Returns the pins with a new pin, which replaces the overlapping parts of older pins. */
export function withPin(pins: readonly ShardPin[], pin: ShardPin): ShardPin[] {
  return [...withoutPin(pins, pin), pin];
}

export function withoutPin(pins: readonly ShardPin[], part: TablePart): ShardPin[] {
  return pins.flatMap((pin) => {
    if (pin.table !== part.table) return [pin];
    return without(pin, part).map((tile) => ({ ...pin, ...tile }));
  });
}

/** Returns the first pin that overlaps a part of a table; undefined: none. */
export function pinOf(pins: readonly ShardPin[], part: TablePart): ShardPin | undefined {
  return pins.find((pin) => pin.table === part.table && overlap(pin, part) !== undefined);
}

/**
 * Moves the pinned parts of a plan to their devices, and leaves all other parts in place. Pins to a
 * device that the plan does not have, and pins of a table with a copy on every device, have no
 * effect.
 */
export function pinPlan(plan: Plan, pins: readonly ShardPin[]): Plan {
  const devices = plan.devices.hosts * plan.devices.perHost;
  const applicable = pins.filter(({ device }) => device < devices);
  if (applicable.length === 0) return plan;
  const shards = plan.shards.flatMap((shard): PlacedShard[] => {
    const own = applicable.filter(({ table }) => table === shard.table);
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

/** The caches of a piece: its share of the caches of its shard. */
function cacheOf({ cache, ...shard }: PlacedShard, piece: Tile): { readonly cache?: CacheBytes } {
  if (cache === undefined) return {};
  const share = (piece.blocks * piece.quanta) / (shard.blocks * shard.quanta);
  const { hbmBytes, ddrBytes } = cache;
  const bytes = (of: number) => Math.floor(share * of);
  return { cache: { hbmBytes: bytes(hbmBytes), ddrBytes: bytes(ddrBytes) } };
}
