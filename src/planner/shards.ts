// The planner's data: tables, the schemes that cut them, and shards on devices. All is plain data.
// A table is a grid of whole quanta, row blocks down and column quanta across. A scheme cuts the
// grid into tiles, and a plan puts each tile on a device (Neo: Mudigere et al., arXiv 2104.05158).

import type { CachePolicy, MissPoint } from "./cost/miss-curve.ts";

/**
 * The sharding schemes: how a table is cut, and which devices may hold its parts. The names are
 * TorchRec's.
 */
export const schemes = [
  /** The whole table on one device. */
  "table-wise",
  /** Runs of row blocks, over all devices. */
  "row-wise",
  /** Runs of column quanta, each placed like a small table. */
  "column-wise",
  /** A copy on every device. */
  "data-parallel",
  /** The table on one host, its row blocks over that host's devices. */
  "table-row-wise",
  /** The table on one host, its column quanta over that host's devices. */
  "table-column-wise",
  /** Column quanta over hosts, row blocks over the devices of each. */
  "grid",
] as const;

export type Scheme = (typeof schemes)[number];

/** The schemes that keep rows whole, each on one device. */
export const rowSchemes: readonly Scheme[] = ["table-wise", "row-wise", "table-row-wise"];

/** The scheme of a table without a plan: table-wise, if the job does not choose one. */
export function schemeOf({ sharding }: { readonly sharding: Scheme | "auto" }): Scheme {
  return sharding === "auto" ? "table-wise" : sharding;
}

export function isRowScheme(scheme: Scheme): boolean {
  return rowSchemes.includes(scheme);
}

/** Whether a scheme cuts tables by rows, so that it needs several row blocks. */
export function cutsRows(scheme: Scheme): boolean {
  return scheme === "row-wise" || scheme === "table-row-wise" || scheme === "grid";
}

/** Whether a scheme cuts tables by columns, so that it needs several quanta of columns. */
export function cutsColumns(scheme: Scheme): boolean {
  return scheme === "column-wise" || scheme === "table-column-wise" || scheme === "grid";
}

/** Whether a scheme keeps the parts of a table, or of a run of its columns, on one host. */
export function isOfOneHost(scheme: Scheme): boolean {
  return scheme === "table-row-wise" || scheme === "table-column-wise" || scheme === "grid";
}

/** Columns of one quantum: the unit of every split by columns. */
export const quantumColumns = 32;

/** The tiers of rows: all in device memory, or in a backing store behind a cache. */
export const tiers = ["memory", "cached"] as const;

export type Tier = (typeof tiers)[number];

/** The planner's view of a table. */
export interface PlannedTable {
  readonly name: string;
  readonly rows: number;
  /** Columns. */
  readonly dim: number;
  /** Whole parts that rows can be cut into; a power of two. */
  readonly rowBlocks: number;
  /** Mean ids of a sample in the table: the pooling factor, added up over its lookups. */
  readonly poolingFactor: number;
  /** Vectors of a sample: one for each feature of the table. @default 1 */
  readonly lookups?: number | undefined;
  /**
   * Zipf exponent of the ids' popularity; 0: uniform. It decides how many distinct rows a batch
   * has.
   */
  readonly zipf: number;
  /** Upper bound of the rows that the data needs; left out: all rows. */
  readonly distinctRowsMax?: number | undefined;
  /** Shares of the ids in equal ranges of the rows, in order; left out: ids are spread evenly. */
  readonly idShares?: readonly number[] | undefined;
  /** Bytes of one stored weight. */
  readonly weightBytes: number;
  /** Bytes of optimizer state beside each weight. */
  readonly stateBytes: number;
  /** Bytes of a row that do not depend on its columns; every part of a row has them. */
  readonly rowBytes: number;
  /** Rounds in which parts of a row exchange sums if columns are split: 0 to 2. */
  readonly sumRounds: number;
  /** Schemes that may cut the table. */
  readonly schemes: readonly Scheme[];
  /** Parts that must lie on given devices; left out: none. */
  readonly pins?: readonly (Tile & { readonly device: number })[] | undefined;
  readonly tiers: readonly Tier[];
  /** The miss-ratio curve counted in a run; left out: by Zipf's law. Used for caches only. */
  readonly missCurve?: readonly MissPoint[] | undefined;
  /** Share of its rows that a cache holds; left out: the constants' share. */
  readonly cacheLoad?: number | undefined;
  /** Measured cost of its rows relative to the formulas (cost/measured-costs.ts). @default 1 */
  readonly costFactor?: number | undefined;
}

/** Memory for caches on each device, and the settings of caches. */
export interface CacheBudgets extends CacheBytes {
  readonly policy: CachePolicy;
  /** Bytes of a cached row in addition to its bytes in memory: its slot in the index. */
  readonly indexBytes: number;
}

/** Devices 0..hosts*perHost-1. The devices of a host are consecutive. */
export interface Devices {
  readonly hosts: number;
  readonly perHost: number;
}

/** A device, relative to the constants of its setting. */
export interface PlannedDevice {
  /** Its memory; the devices with most memory have 1. */
  readonly memory: number;
  /** Its speed at rows, and at dense layers; 0: it is a server, and runs no samples. */
  readonly rowSpeed: number;
  readonly denseSpeed: number;
}

/** The tables and the dense work that a plan is made for. */
export interface Workload {
  readonly tables: readonly PlannedTable[];
  /** Samples of one step, over all devices. */
  readonly batchSize: number;
  /** Float32 parameters of the dense layers. */
  readonly denseParameters: number;
  /**
   * Parts of a batch whose sums of dense gradients are rounded to 2 bytes. Left out: gradients are
   * sent in float32.
   */
  readonly gradientParts?: number | undefined;
  /** Floating-point operations per sample in the dense layers, forward and backward. */
  readonly denseFlop: number;
  /** Values of a sample that enter and leave dense layers. */
  readonly denseActivations: number;
  /** Products between two values of a sample in the forward pass, as in its interaction. */
  readonly denseOwnProducts: number;
  /** Blocks with parameters. */
  readonly denseLayers: number;
  /** Slices of a batch. Left out: as many as calibration has (`measuredSlices`). */
  readonly slices?: number | undefined;
  /** Threads that read batches in parallel, each the next batch in turn. */
  readonly readers: number;
  /** Memory for caches; left out: the constants' share of each table's rows. */
  readonly budgets?: CacheBudgets | undefined;
}

/** A rectangle of whole quanta of one table. */
export interface Tile {
  readonly firstBlock: number;
  readonly blocks: number;
  readonly firstQuantum: number;
  readonly quanta: number;
}

/** Bytes of a shard's caches: in device memory, and in host memory behind it. */
export interface CacheBytes {
  readonly hbmBytes: number;
  readonly ddrBytes: number;
}

/** A shard and its device. */
export interface PlacedShard extends Tile {
  readonly table: string;
  readonly scheme: Scheme;
  readonly tier: Tier;
  /** A device, or `all`: a copy on each device. */
  readonly device: number | "all";
  /**
   * The sizes of its caches; left out: caches share the budget in proportion to the lookups of a
   * batch.
   */
  readonly cache?: CacheBytes | undefined;
}

/**
 * A plan: the device of each shard, ordered by table as in the job, then by columns, then by rows.
 */
export interface Plan {
  readonly devices: Devices;
  readonly shards: readonly PlacedShard[];
}

export function deviceCount({ hosts, perHost }: Devices): number {
  return hosts * perHost;
}

/** Number of devices that run samples: all but servers, which have no dense speed. */
export function trainersOf(on: {
  readonly devices: Devices;
  readonly fleet?: readonly PlannedDevice[] | undefined;
}): number {
  const { devices, fleet } = on;
  return fleet?.filter(({ denseSpeed }) => denseSpeed > 0).length ?? deviceCount(devices);
}

/** Number of column quanta of a table; the last may be narrower. */
export function tableQuanta({ dim }: Pick<PlannedTable, "dim">): number {
  return Math.ceil(dim / quantumColumns);
}

export function tileColumns(table: Pick<PlannedTable, "dim">, tile: Tile): number {
  const end = Math.min(table.dim, (tile.firstQuantum + tile.quanta) * quantumColumns);
  return end - tile.firstQuantum * quantumColumns;
}

/** Number of rows of a tile: block i begins at row ceil(rows / rowBlocks) * i. */
export function tileRows(table: Pick<PlannedTable, "rows" | "rowBlocks">, tile: Tile): number {
  const block = Math.ceil(table.rows / table.rowBlocks);
  const end = Math.min(table.rows, (tile.firstBlock + tile.blocks) * block);
  return Math.max(0, end - tile.firstBlock * block);
}

/** A plan file, parsed (plan-file.ts has the schema and the reasons). */
export interface PlanFile {
  readonly version: 1;
  readonly hosts: number;
  readonly devicesPerHost: number;
  readonly shards: readonly PlanFileShard[];
  readonly sha256: string;
}

/** A shard, one line of the file. */
interface PlanFileShard extends Pick<PlacedShard, "table" | "scheme" | "tier" | "device"> {
  /** First row block and number of blocks; then the same for column quanta. */
  readonly blocks: readonly [number, number];
  readonly quanta: readonly [number, number];
  /** Bytes of its caches in device memory and in host memory, if the shard is cached. */
  readonly cache?: readonly [number, number] | undefined;
}

/** Converts a parsed plan file to a plan. */
export function planOfFile({ hosts, devicesPerHost, shards }: PlanFile): Plan {
  return {
    devices: { hosts, perHost: devicesPerHost },
    shards: shards.map(({ blocks, quanta, cache, ...rest }) => ({
      ...rest,
      ...(cache && { cache: { hbmBytes: cache[0], ddrBytes: cache[1] } }),
      firstBlock: blocks[0],
      blocks: blocks[1],
      firstQuantum: quanta[0],
      quanta: quanta[1],
    })),
  };
}
