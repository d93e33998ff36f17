// Assembles the columns of a row group into rows of stored values: structs, lists and maps are
// built from the entries of their leaves. The caller refuses lists of lists and other nesting.

import type { SchemaTree } from "hyparquet";
import { CorruptFile, unusableAt } from "../tables/damage.ts";
import type { Group } from "./footer.ts";
import type { StoredLeaf, StoredLeaves } from "./stored-leaf.ts";

/** A row group of an open file. */
export interface GroupPlace {
  readonly path: string;
  readonly leaves: StoredLeaves;
  readonly group: Group;
  readonly place: number;
}

/** A value per row, and the definition level of the first leaf's first entry of each row. */
interface Cells {
  readonly levels: readonly number[];
  readonly values: readonly unknown[];
}

/** The values of a schema column, one per row. @throws InputUnusableError */
export async function storedColumn(at: GroupPlace, node: SchemaTree): Promise<readonly unknown[]> {
  return (await cellsOf(at, node, 0)).values;
}

/** Assembles a node. `above`: the definition level of its parent. */
async function cellsOf(at: GroupPlace, node: SchemaTree, above: number): Promise<Cells> {
  if (isRepeated(node)) return listCells(at, node, node, above);
  const level = above + optional(node);
  if (node.children.length === 0) return leafAt(at, node, level, false);
  const [repeated] = node.children;
  if (repeated !== undefined && isRepeated(repeated)) return listCells(at, node, repeated, level);
  const members: (readonly [name: string, cells: Cells])[] = [];
  for (const child of node.children) {
    members.push([child.element.name, await cellsOf(at, child, level)]);
  }
  const [, { levels } = { levels: [] }] = members[0] ?? [];
  const values = levels.map((own, row) => (own < level ? null : structAt(members, row)));
  return { levels, values };
}

function structAt(
  members: readonly (readonly [string, { readonly values: readonly unknown[] }])[],
  i: number,
): object {
  return Object.fromEntries(members.map(([name, { values }]) => [name, values[i]]));
}

/**
 * Assembles a list of values or structs, or a map, which is a list of `{ key, value }`. `repeated`:
 * the repeated node, in an older form of lists the column's node itself.
 */
async function listCells(
  at: GroupPlace,
  node: SchemaTree,
  repeated: SchemaTree,
  level: number,
): Promise<Cells> {
  const entryLevel = level + 1;
  const [only] = repeated.children;
  const isMap = node.element.converted_type === "MAP";
  const item = isMap || only === undefined ? repeated : only;
  const itemLevel = entryLevel + (item === repeated ? 0 : optional(item));
  const leaves = item.children.length === 0 ? [item] : item.children;
  const members: (readonly [name: string, leaf: StoredLeaf])[] = [];
  for (const leaf of leaves) {
    const own = itemLevel + (leaf === item ? 0 : optional(leaf));
    members.push([leaf.element.name, await leafAt(at, leaf, own, true)]);
  }
  const [, first = { levels: [], values: [], starts: [0] }] = members[0] ?? [];
  const { levels, values, starts } = first;
  if (members.some(([, leaf]) => !isSame(leaf.starts, starts))) {
    const { path, place: piece } = at;
    const place = { kind: "parquet", path, piece, column: node.path.join(".") } as const;
    throw unusableAt(place, new CorruptFile("its members have lists of other lengths"));
  }
  const itemAt = (entry: number) => {
    if (leaves[0] === item) return values[entry];
    return (levels[entry] ?? 0) < itemLevel ? null : structAt(members, entry);
  };
  const rows = Array.from({ length: starts.length - 1 }, (_, row) => {
    const [from, to] = [starts[row] ?? 0, starts[row + 1] ?? 0];
    const own = levels[from] ?? 0;
    if (own < level) return null;
    if (own < entryLevel) return [];
    return Array.from({ length: to - from }, (_, i) => itemAt(from + i));
  });
  return { levels: starts.slice(0, -1).map((from) => levels[from] ?? 0), values: rows };
}

function leafAt(
  { leaves, group, place }: GroupPlace,
  node: SchemaTree,
  level: number,
  isRepeated: boolean,
): Promise<StoredLeaf> {
  return leaves.read(group, place, { node, isRepeated, level });
}

function isSame(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((one, i) => one === b[i]);
}

function isRepeated({ element }: SchemaTree): boolean {
  return element.repetition_type === "REPEATED";
}

function optional({ element }: SchemaTree): number {
  return element.repetition_type === "OPTIONAL" ? 1 : 0;
}
