// Names of a checkpoint's parts: `dense`, one for each tile of a table, and, with `exchange.topk`,
// one for each run of slices. The name encodes the tile or the slices, so that a reader of the
// manifest can tell whether a table is complete, and which parts a device needs under another plan.
//
//   table-00003             the whole table
//   table-00003-b4.2-q0.1   blocks 4 and 5, quantum 0
//   ids-00003, ids-00003-b4.2   which dynamic id has which row: of the table, of these blocks
//   residuals-4.2               what was not sent of the dense gradients, of slices 4 and 5

import { dynamicDigest } from "../../embedding/checkpoint/ids-part.ts";
import { modelDigest, type ShardLeaves, tableDigest } from "../../embedding/rows/digest.ts";
import { quantaOf } from "../../embedding/rows/slab.ts";
import type { TableSpec } from "../../embedding/tables/options.ts";
import type { Tile } from "../../planner/shards.ts";
import { atOnce, type Steps } from "../../ports/turns.ts";

export const densePart = "dense";

/** A tile of one table. */
export interface TablePart extends Tile {
  /** Index in the job. */
  readonly table: number;
}

const form = /^table-(\d{5})(?:-b(\d+)\.(\d+)-q(\d+)\.(\d+))?$/;

/** Row blocks of a table with dynamic ids. */
export type IdsPart = Pick<TablePart, "table" | "firstBlock" | "blocks">;

const idsForm = /^ids-(\d{5})(?:-b(\d+)\.(\d+))?$/;

export function idsPartNameOf(part: IdsPart, tables: readonly TableSpec[]): string {
  const { table, firstBlock, blocks } = part;
  const name = `ids-${String(table).padStart(5, "0")}`;
  return blocks === wholeTable(table, tables).blocks ? name : `${name}-b${firstBlock}.${blocks}`;
}

/** The blocks of the ids in this part; undefined for every other part. */
export function idsOfPart(name: string, tables: readonly TableSpec[]): IdsPart | undefined {
  const match = name.startsWith("ids-") ? idsForm.exec(name) : null;
  if (match === null) return undefined;
  const [table = 0, firstBlock = 0, blocks = 0] = match.slice(1).map(Number);
  if (tables[table]?.dynamic === undefined) return undefined;
  return match[2] === undefined ? wholeTable(table, tables) : { table, firstBlock, blocks };
}

export function partNameOf(part: TablePart, tables: readonly TableSpec[]): string {
  const { table, firstBlock, blocks, firstQuantum, quanta } = part;
  const name = `table-${String(table).padStart(5, "0")}`;
  const whole = wholeTable(table, tables);
  if (blocks === whole.blocks && quanta === whole.quanta) return name;
  return `${name}-b${firstBlock}.${blocks}-q${firstQuantum}.${quanta}`;
}

/** The tile of this part; undefined for the dense part and for names of other files. */
export function tableOfPart(name: string, tables: readonly TableSpec[]): TablePart | undefined {
  const match = name.startsWith("table-") ? form.exec(name) : null;
  if (match === null) return undefined;
  const table = Number(match[1]);
  if (tables[table] === undefined) return undefined;
  if (match[2] === undefined) return wholeTable(table, tables);
  return {
    table,
    firstBlock: Number(match[2]),
    blocks: Number(match[3]),
    firstQuantum: Number(match[4]),
    quanta: Number(match[5]),
  };
}

const residualsForm = /^residuals-(\d+)\.(\d+)$/;

/** A run of slices. */
export interface ResidualsPart {
  readonly first: number;
  readonly count: number;
}

export function residualsPartName({ first, count }: ResidualsPart): string {
  return `residuals-${first}.${count}`;
}

/** The slices whose residuals a part has; undefined for every other part. */
export function residualsOfPart(name: string): ResidualsPart | undefined {
  const [, first, count] = residualsForm.exec(name) ?? [];
  return first === undefined ? undefined : { first: Number(first), count: Number(count) };
}

/** A part's name for people: with the name of its table. */
export function shownPart(name: string, tables: readonly TableSpec[]): string {
  const table = (tableOfPart(name, tables) ?? idsOfPart(name, tables))?.table;
  return table === undefined ? name : `${name} (table \`${tables[table]?.name}\`)`;
}

/**
 * Tallies the parts of a model, so that completeness is known without a search for a missing part.
 */
export interface PartTally {
  /** Counts a part, once. */
  add(name: string): void;
  /** Whether the parts are the whole model. */
  readonly isWhole: boolean;
  /** The parts of the model that the counted ones do not cover, as names of whole parts. */
  missing(): string[];
}

/**
 * A tally of the parts of a job's model, of which none is counted yet. `residuals`: the slices of a
 * job with `exchange.topk`.
 */
export function createPartTally(tables: readonly TableSpec[], residuals = 0): PartTally {
  const given = new Set<string>();
  // Quanta of each table's rows, and blocks of its dynamic ids, that no counted part has.
  const rows = tables.map((_, table) => {
    const { blocks, quanta } = wholeTable(table, tables);
    return blocks * quanta;
  });
  const ids = tables.map(({ dynamic, rowBlocks }) => (dynamic === undefined ? 0 : rowBlocks));
  const slices = [residuals];
  let open = 1 + [...rows, ...ids, ...slices].filter((left) => left !== 0).length;
  const take = (left: number[], table: number, count: number) => {
    const before = left[table] ?? 0;
    left[table] = before - count;
    if (before === 0) open++;
    if (before === count) open--;
  };
  return {
    add(name) {
      if (given.has(name)) return;
      given.add(name);
      if (name === densePart) open--;
      const part = tableOfPart(name, tables);
      if (part !== undefined) take(rows, part.table, part.blocks * part.quanta);
      const own = idsOfPart(name, tables);
      if (own !== undefined) take(ids, own.table, own.blocks);
      const kept = residualsOfPart(name);
      if (kept !== undefined && residuals > 0) take(slices, 0, kept.count);
    },
    get isWhole() {
      return open === 0;
    },
    missing() {
      const without = (left: readonly number[]) =>
        [...left.keys()].filter((table) => left[table] !== 0);
      const ofRows = without(rows).map((table) => partNameOf(wholeTable(table, tables), tables));
      const ofIds = without(ids).map((table) => idsPartNameOf(wholeTable(table, tables), tables));
      const ofSlices = without(slices).map(() => residualsPartName({ first: 0, count: residuals }));
      return [...(given.has(densePart) ? [] : [densePart]), ...ofRows, ...ofIds, ...ofSlices];
    },
  };
}

/** A tally of the parts that the devices of a job write. */
export function tallyOf(job: {
  readonly model: { readonly tables: readonly TableSpec[] };
  readonly exchange: { readonly topk?: unknown };
  readonly slices: number;
}): PartTally {
  return createPartTally(job.model.tables, job.exchange.topk === undefined ? 0 : job.slices);
}

/**
 * Returns the parts of a job's model that `names` does not cover completely, as names of whole
 * parts; empty: `names` is complete.
 */
export function missingParts(names: Iterable<string>, tables: readonly TableSpec[]): string[] {
  const tally = createPartTally(tables);
  for (const name of names) tally.add(name);
  return tally.missing();
}

/**
 * Hex sha256 of a model, from the leaves of all its parts by name. `stated`: digests of the tables,
 * where the leaves of their parts are not those of whole rows.
 */
export function digestOf(...model: Parameters<typeof digesting>): string {
  return atOnce(digesting(...model));
}

/** `digestOf` in steps. */
export function* digesting(
  leaves: ReadonlyMap<string, readonly string[]>,
  tables: readonly TableSpec[],
  stated?: readonly string[],
): Steps<string> {
  const [dense = ""] = leaves.get(densePart) ?? [];
  const byTable = tables.map((): ShardLeaves[] => []);
  const idLeaves = tables.map((): string[] => []);
  for (const [name, own] of leaves) {
    const part = tableOfPart(name, tables);
    if (part !== undefined) byTable[part.table]?.push({ ...part, leaves: own });
    const ids = idsOfPart(name, tables);
    for (const [i, leaf] of ids ? own.entries() : []) {
      const ofTable = ids && idLeaves[ids.table];
      if (ofTable) ofTable[ids.firstBlock + i] = leaf;
    }
  }
  yield;
  const digests = tables.map(({ dynamic }, table) => {
    const rows = stated?.[table] ?? tableDigest(byTable[table] ?? []);
    return dynamic === undefined ? rows : dynamicDigest(rows, idLeaves[table] ?? []);
  });
  yield;
  return modelDigest(dense, digests);
}

/** The tile that is a whole table. */
export function wholeTable(table: number, tables: readonly TableSpec[]): TablePart {
  const { rowBlocks = 1, dim = 1 } = tables[table] ?? {};
  return { table, firstBlock: 0, blocks: rowBlocks, firstQuantum: 0, quanta: quantaOf(dim) };
}
