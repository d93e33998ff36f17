// Indices of a checkpoint's parts: by name, by table, and the files that they are in. Each is made
// once for a manifest, which may have tens of thousands of parts.

import type { TableSpec } from "../../../src/embedding/tables/options.ts";
import { CheckpointMissingError } from "../../../src/errors/errors.ts";
import {
  idsOfPart,
  type TablePart,
  tableOfPart,
} from "../../../src/training/checkpoint/part-names.ts";
import type { Manifest, PartRecord } from "./checkpoint-store.ts";

type Parts = Pick<Manifest, "parts">;

const indices = new WeakMap<Manifest["parts"], ReadonlyMap<string, PartRecord>>();

/** The checkpoint's parts by name. */
export function partsByName({ parts }: Parts): ReadonlyMap<string, PartRecord> {
  const found = indices.get(parts) ?? new Map(parts.map((part) => [part.name, part]));
  indices.set(parts, found);
  return found;
}

export interface PartsOfTable {
  /** Its rows, by tile. */
  readonly tiles: readonly { readonly tile: TablePart; readonly part: PartRecord }[];
  /** Names of the parts with its dynamic ids. */
  readonly ids: readonly string[];
}

interface TableIndex {
  readonly tables: readonly TableSpec[];
  readonly parts: readonly PartsOfTable[];
}

const tableIndices = new WeakMap<Manifest["parts"], TableIndex>();

/** The parts of a table of the checkpoint's job. */
export function partsOfTable(
  { parts }: Parts,
  tables: readonly TableSpec[],
  table: number,
): PartsOfTable {
  const known = tableIndices.get(parts);
  const index = known?.tables === tables ? known : { tables, parts: partsByTable(parts, tables) };
  tableIndices.set(parts, index);
  return index.parts[table] ?? { tiles: [], ids: [] };
}

function partsByTable(parts: Manifest["parts"], tables: readonly TableSpec[]) {
  const all = tables.map(() => {
    return { tiles: [] as { tile: TablePart; part: PartRecord }[], ids: [] as string[] };
  });
  for (const part of parts) {
    const tile = tableOfPart(part.name, tables);
    if (tile !== undefined) all[tile.table]?.tiles.push({ tile, part });
    const ids = idsOfPart(part.name, tables);
    if (ids !== undefined) all[ids.table]?.ids.push(part.name);
  }
  return all;
}

/** A file that a checkpoint needs. */
export interface NeededFile {
  readonly cut: number;
  readonly generation: number;
  readonly file: string;
  /** Whether the file lies in the checkpoint's own directory. */
  readonly isOwn: boolean;
  /** End of the last part that the checkpoint needs of it. */
  readonly end: number;
}

const fileIndices = new WeakMap<Manifest["parts"], readonly NeededFile[]>();

/** The files of a checkpoint's parts and of their base, each once. */
export function filesNeeded(
  checkpoint: Parts & Pick<Manifest, "cut" | "generation">,
): readonly NeededFile[] {
  const found = fileIndices.get(checkpoint.parts) ?? findFiles(checkpoint);
  fileIndices.set(checkpoint.parts, found);
  return found;
}

function findFiles(checkpoint: Parts & Pick<Manifest, "cut" | "generation">): NeededFile[] {
  const files = new Map<string, { -readonly [Key in keyof NeededFile]: NeededFile[Key] }>();
  const note = (of: Pick<Manifest, "cut" | "generation">, place: Place) => {
    const { cut, generation } = of;
    const { file } = place;
    const key = `${cut} ${generation} ${file}`;
    const end = place.at + place.bytes;
    const found = files.get(key);
    const isOwn = cut === checkpoint.cut && generation === checkpoint.generation;
    if (found === undefined) files.set(key, { cut, generation, file, isOwn, end });
    else found.end = Math.max(found.end, end);
  };
  for (const part of checkpoint.parts) {
    note(checkpoint, part);
    for (const one of part.base) note(one, one);
  }
  return [...files.values()];
}

type Place = Pick<PartRecord, "file" | "at" | "bytes">;

/** @throws CheckpointMissingError where the checkpoint has no such part */
export function partOf(manifest: Parts & Pick<Manifest, "cut">, name: string): PartRecord {
  const part = partsByName(manifest).get(name);
  if (part !== undefined) return part;
  throw new CheckpointMissingError(`the parts of cut ${manifest.cut}: no part \`${name}\``);
}
