// A job's tables as parts that a learned search places: the moves that the job allows for each
// part, the memory that the part needs, and its costs that cost networks do not know.
//
// The networks know lookup, update and exchange of whole rows, or columns of them, in memory. Half
// of a table's rows is for them a table with half the rows and its share of the ids; it sends sums
// of all columns, as they expect of a table. The formulas of the planner (cost.ts) add the costs
// that the networks do not know: sums of several row blocks, the exchange of partial sums of
// row-wise shards and the copies of their gradients, a row-wise optimizer's sums over columns on
// different devices, cache misses, and the fixed cost of each shard in a step. Data-parallel copies
// are costed by formulas alone.

import {
  type CostTable,
  costOf,
  type FeatureStatistics,
  featuresOf,
  InvalidOptionError,
  type PlannableJob,
  type PlannedTable,
  quantumColumns,
  reuseOf,
  rowShare,
  type Scheme,
  type Setting,
  sharesOf,
  type Tier,
  type Tile,
  tableQuanta,
  tileColumns,
  tileRows,
  windowSamples,
} from "../../../internal.ts";
import { type MoveKind, once, type TablePart } from "../search/parts.ts";

/** The table of a part, its tile of that table, and its tier. */
export interface PartPlace {
  /** Index of its table in the job. */
  readonly index: number;
  readonly tile: Tile;
  readonly tier: Tier;
}

type Part = TablePart<PartPlace>;

/** The command-line option that names the file of the networks, for error messages. */
const option = "--cost-model";

/**
 * The parts that a search starts from: whole tables, except those that the job shards by rows or
 * replicates.
 * @throws InvalidOptionError where a table allows no scheme that the networks know
 */
export function jobParts(
  job: PlannableJob,
  setting: Setting,
  statistics?: readonly FeatureStatistics[],
): Part[] {
  const { tables } = setting.workload;
  const bare = { ...setting, constants: { ...setting.constants, blocksFactor: 1 } };
  return tables.flatMap((planned, index): readonly Part[] => {
    const table = costTableOf(job, planned, index, statistics);
    const bareTable = { ...planned, sumRounds: 0 };
    const make = (tile: Tile, tier: Tier, isCopied: boolean): Part => {
      const scheme = isCopied ? "data-parallel" : schemeOfTile(planned, tile);
      const { bytes, seconds, cost } = costOf(setting, planned, scheme, tier, tile);
      const known = costOf(bare, bareTable, "table-wise", "memory", tile).cost;
      const beyond = Math.max(0, cost - known) + seconds.overhead;
      const share = rowShare(planned, tile, planned.idShares);
      const part = {
        rows: tileRows(planned, tile),
        dim: tileColumns(planned, tile),
        poolingFactor: table.poolingFactor * share,
        bins: table.bins,
      };
      const formulaMs = 1000 * (isCopied ? cost : beyond);
      const shape = [tile.blocks, tile.quanta, tier, isCopied, planned.schemes, planned.tiers];
      return {
        name: JSON.stringify([part, bytes, formulaMs, shape]),
        ...{ table: part, bytes, formulaMs, isCopied, place: { index, tile, tier } },
        moves: movesOf(planned, { tile, tier, isCopied }, make),
      };
    };
    return firstParts(planned, make);
  });
}

type MakePart = (tile: Tile, tier: Tier, isCopied: boolean) => Part;

/**
 * The first parts of a table: the whole table if the job allows that; else its halves by rows, or a
 * copy.
 */
function firstParts(table: PlannedTable, make: MakePart): readonly Part[] {
  const { schemes, tiers, rowBlocks } = table;
  const may = (scheme: Scheme) => schemes.includes(scheme);
  const tile = { firstBlock: 0, blocks: rowBlocks, firstQuantum: 0, quanta: tableQuanta(table) };
  const tier = tiers.includes("memory") ? "memory" : "cached";
  if (table.pins === undefined) {
    if (may("table-wise") || may("column-wise")) return [make(tile, tier, false)];
    if (may("row-wise") && rowBlocks > 1) {
      return halvesByRows(tile).map((half) => make(half, tier, false));
    }
    if (may("data-parallel")) return [make(tile, "memory", true)];
  }
  const why = table.pins === undefined ? `has the schemes ${schemes.join(", ")}` : "has pins";
  throw new InvalidOptionError(
    option,
    "Expected tables without pins that may be `table-wise`, `column-wise`, `row-wise` or " +
      `\`data-parallel\`, as \`${option}\` knows no other costs; ${table.name} ${why}: ` +
      "set its `sharding: auto`, or leave the option out",
  );
}

/** The moves that the job allows for a part, each with the parts that replace it. */
function movesOf(
  table: PlannedTable,
  { tile, tier, isCopied }: Pick<PartPlace, "tile" | "tier"> & { readonly isCopied: boolean },
  make: MakePart,
): Map<MoveKind, () => readonly Part[]> {
  const moves = new Map<MoveKind, () => readonly Part[]>();
  if (isCopied) return moves;
  const may = (scheme: Scheme) => table.schemes.includes(scheme);
  const isWhole = tile.blocks === table.rowBlocks && tile.quanta === tableQuanta(table);
  const set = (kind: MoveKind, tiles: readonly Tile[], to: Tier, copied = false) => {
    moves.set(
      kind,
      once(() => tiles.map((own) => make(own, to, copied))),
    );
  };
  if (may("column-wise") && tileColumns(table, tile) % (2 * quantumColumns) === 0) {
    set("columns", halvesByColumns(tile), tier);
  }
  if (may("row-wise") && tile.blocks % 2 === 0) set("rows", halvesByRows(tile), tier);
  if (tier === "memory" && table.tiers.includes("cached")) set("cached", [tile], "cached");
  if (may("data-parallel") && isWhole && table.tiers.includes("memory")) {
    set("copied", [tile], "memory", true);
  }
  return moves;
}

function halvesByRows(tile: Tile): Tile[] {
  const blocks = tile.blocks / 2;
  return [0, blocks].map((offset) => ({ ...tile, firstBlock: tile.firstBlock + offset, blocks }));
}

function halvesByColumns(tile: Tile): Tile[] {
  const quanta = tile.quanta / 2;
  return [0, quanta].map((offset) => {
    return { ...tile, firstQuantum: tile.firstQuantum + offset, quanta };
  });
}

/** Returns the scheme that cuts a table into tiles of this size. */
export function schemeOfTile(table: PlannedTable, { blocks, quanta }: Tile): Scheme {
  const byColumns = quanta < tableQuanta(table);
  if (blocks < table.rowBlocks) return byColumns ? "grid" : "row-wise";
  return byColumns ? "column-wise" : "table-wise";
}

/**
 * Describes a table by rows, dimension, pooling factor and reuse bins. The reuse is counted where
 * the data cache has a whole window of samples; otherwise it follows Zipf's law with the counted
 * exponent. A shorter window is not used: it looks each row up less often than the window of the
 * networks' training, so that the table would look like a different one.
 */
export function costTableOf(
  { model }: PlannableJob,
  { rows, dim, poolingFactor, zipf }: PlannedTable,
  index: number,
  statistics: readonly FeatureStatistics[] | undefined,
): CostTable {
  const counted: number[] = [];
  for (const [feature, { table }] of featuresOf(model).entries()) {
    const window = statistics?.[feature]?.window;
    if (table !== index || window === undefined || window.samples < windowSamples) continue;
    for (const [bin, ids] of window.reuse.entries()) {
      counted[bin] = (counted[bin] ?? 0) + ids;
    }
  }
  const bins = counted.length > 0 ? sharesOf(counted) : reuseOf({ rows, poolingFactor, zipf });
  return { rows, dim, poolingFactor, bins };
}
