// Rows as Parquet: a column `id` of INT64, a column `vector` of lists of FLOAT and, with state, a
// similar column `state`. Files are uncompressed, as trained weights do not compress.

import type { SchemaElement, SchemaTree } from "hyparquet";
import {
  type Disk,
  type DiskFile,
  type LeafPlace,
  onDisk,
  parquetWriter,
  type RangeReader,
  readFooter,
  type StoredLeaf,
  StoredLeaves,
  slackBytes,
} from "../../../internal.ts";
import {
  type FileNotes,
  type FileRows,
  type FileShape,
  fileRowsMax,
  openFile,
  type RowFile,
  type RowFileWriter,
  type RowFormat,
  unusable,
} from "./row-file.ts";

/** Most floats of a row group, which the library holds in memory as JavaScript numbers. */
const groupFloatsMax = 2 ** 19;

export const parquet: RowFormat = { isCounted: false, open: openWriter, read: openReader };

function openWriter(file: DiskFile, shape: FileShape, notes: FileNotes): RowFileWriter {
  const columns = [{ name: "vector", width: shape.dim }];
  if (shape.width > 0) columns.push({ name: "state", width: shape.width });
  const writer = parquetWriter(file, {
    schema: schemaOf(columns.map(({ name }) => name)),
    codec: "UNCOMPRESSED",
    statistics: false,
    kvMetadata: Object.entries(notes).map(([key, value]) => ({ key, value })),
  });
  const rowGroupSize = Math.max(1, Math.floor(groupFloatsMax / (shape.dim + shape.width)));
  return {
    write({ ids, vectors, state }) {
      const lists = [vectors, state ?? new Float32Array()];
      void writer.write({
        rowGroupSize,
        columnData: [
          { name: "id", data: [...ids], encoding: "PLAIN" },
          ...columns.map(({ name, width }, i) => ({
            name,
            data: Array.from(ids, (_, row) => {
              return Array.from(lists[i]?.subarray(row * width, (row + 1) * width) ?? []);
            }),
            encoding: "PLAIN" as const,
          })),
        ],
      });
    },
    finish: () => void writer.finish(),
  };
}

function schemaOf(lists: readonly string[]): SchemaElement[] {
  return [
    { name: "root", num_children: 1 + lists.length },
    { name: "id", type: "INT64", repetition_type: "REQUIRED" },
    ...lists.flatMap((name): SchemaElement[] => [
      { name, repetition_type: "REQUIRED", num_children: 1, converted_type: "LIST" },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      { name: "element", type: "FLOAT", repetition_type: "REQUIRED" },
    ]),
  ];
}

async function openReader(path: string, disk: Disk): Promise<RowFile> {
  const file = openFile(path, disk);
  try {
    return await readerOf(file, path);
  } catch (error) {
    file.close();
    throw error;
  }
}

async function readerOf(file: DiskFile, path: string): Promise<RowFile> {
  const ranges = rangesOf(file, path);
  const { schema, groups } = await readFooter(ranges);
  const columns = columnsOf(schema, path);
  const leaves = new StoredLeaves(ranges);
  const read = async (place: number): Promise<Lists> => {
    const group = groups[place];
    const lists: Lists = { ids: [], vector: none, state: none };
    if (group === undefined) return lists;
    const [id, vector, state] = columns;
    const { values: ids } = await leaves.read(group, place, id);
    const floats = async (at: ListPlace) => listsOf(await leaves.read(group, place, at), at);
    const own = state === undefined ? none : await floats(state);
    return { ids, vector: await floats(vector), state: own };
  };
  const first = await read(groups.findIndex(({ rows }) => rows > 0));
  const shape = { dim: first.vector(0).length, width: first.state(0).length };
  const placeOf = (at: number) => `row ${at} of ${path}`;
  return {
    shape,
    async *chunks() {
      let done = 0;
      for (const [place, { rows }] of groups.entries()) {
        const lists = await read(place);
        for (let at = 0; at < rows; at += fileRowsMax) {
          const end = Math.min(rows, at + fileRowsMax);
          yield chunkOf(lists, [at, end], shape, (row) => placeOf(done + row), path);
        }
        done += rows;
      }
    },
    placeOf,
    close: () => file.close(),
  };
}

/** `entryLevel`: definition level of a list entry, null or not. */
type ListPlace = LeafPlace & { readonly entryLevel: number };

/** The rows of a row group. */
interface Lists {
  readonly ids: readonly unknown[];
  readonly vector: FloatsAt;
  readonly state: FloatsAt;
}

/** The numbers of a row; null: a missing number. */
type FloatsAt = (row: number) => readonly unknown[];

const none: FloatsAt = () => [];

/** The lists of a column. A missing or empty list is stored as one entry of a lower level. */
function listsOf({ levels, values, starts }: StoredLeaf, { entryLevel }: ListPlace): FloatsAt {
  return (row) => {
    const [from = 0, to = 0] = [starts[row], starts[row + 1]];
    return (levels[from] ?? 0) < entryLevel ? [] : values.slice(from, to);
  };
}

function rangesOf(file: DiskFile, path: string): RangeReader {
  return {
    path,
    size: file.size(),
    async read(start, end, memory) {
      const bytes = memory ?? new Uint8Array(end - start + slackBytes);
      onDisk("read", path, () => file.read(bytes.subarray(0, end - start), start));
      return bytes;
    },
    async close() {},
  };
}

/** The columns to read. @throws InputUnusableError where one is missing or has another type */
function columnsOf(
  { children }: SchemaTree,
  path: string,
): readonly [id: LeafPlace, vector: ListPlace, state?: ListPlace] {
  const placeOf = (name: string, types: readonly string[]): ListPlace | undefined => {
    let node = children.find(({ element }) => element.name === name);
    let [level, lists, entryLevel] = [0, 0, 0];
    for (; node !== undefined; node = node.children[0]) {
      const { repetition_type: repetition, type } = node.element;
      if (repetition !== "REQUIRED") level++;
      if (repetition === "REPEATED") [lists, entryLevel] = [lists + 1, level];
      if (node.children.length > 1) return undefined;
      if (node.children.length > 0) continue;
      const isFit = types.includes(type ?? "") && lists === (name === "id" ? 0 : 1);
      return isFit ? { node, level, entryLevel, isRepeated: lists > 0 } : undefined;
    }
    return undefined;
  };
  const id = placeOf("id", ["INT64", "INT32"]);
  const [vector, state] = ["vector", "state"].map((name) => placeOf(name, ["FLOAT"]));
  const hasState = children.some(({ element }) => element.name === "state");
  if (id !== undefined && vector !== undefined && hasState === (state !== undefined)) {
    return state === undefined ? [id, vector] : [id, vector, state];
  }
  const form = "`id` (INT64 or INT32) and `vector` (a list of FLOAT)";
  const types = children.map(({ element: { name, type } }) => `\`${name}\` (${type ?? "nested"})`);
  throw unusable(path, `Expected the columns ${form} in ${path}, got ${types.join(", ")}`);
}

function chunkOf(
  { ids: all, vector, state: states }: Lists,
  [from, to]: readonly [number, number],
  { dim, width }: FileShape,
  placeOf: (row: number) => string,
  path: string,
): FileRows {
  const ids = new BigInt64Array(to - from);
  const vectors = new Float32Array(ids.length * dim);
  const state = width === 0 ? undefined : new Float32Array(ids.length * width);
  const put = (out: Float32Array, row: number, length: number, list: readonly unknown[]) => {
    if (list.length !== length) {
      const found = `got ${list.length}`;
      throw unusable(path, `Expected ${length} numbers in ${placeOf(row)}, ${found}`);
    }
    // Nulls become NaN, which `checkRows` rejects.
    for (const [i, value] of list.entries()) {
      out[(row - from) * length + i] = typeof value === "number" ? value : Number.NaN;
    }
  };
  for (let row = from; row < to; row++) {
    const id = all[row];
    if (typeof id !== "bigint" && typeof id !== "number") {
      throw unusable(path, `Expected an id in ${placeOf(row)}, got ${String(id)}`);
    }
    ids[row - from] = BigInt(id);
    put(vectors, row, dim, vector(row));
    if (state !== undefined) put(state, row, width, states(row));
  }
  return { ids, vectors, state };
}
