// Rows as Parquet: a column `id` of INT64, a column `vector` of lists of FLOAT and, with state, a
// similar column `state`. Files are uncompressed, as trained weights do not compress.

import type { SchemaElement, SchemaTree } from "hyparquet";
import {
  type Disk,
  type DiskFile,
  onDisk,
  parquetWriter,
  type RangeReader,
  readFooter,
  StoredLeaves,
  slackBytes,
  storedColumn,
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
  const read = async (place: number): Promise<Values> => {
    const group = groups[place];
    const valuesOf = async (node: SchemaTree | undefined) => {
      if (group === undefined || node === undefined) return [];
      return await storedColumn({ path, leaves, group, place }, node);
    };
    const [id, vector, state] = columns;
    return {
      ids: await valuesOf(id),
      vectors: await valuesOf(vector),
      states: await valuesOf(state),
    };
  };
  const first = await read(groups.findIndex(({ rows }) => rows > 0));
  const shape = { dim: listAt(first.vectors, 0).length, width: listAt(first.states, 0).length };
  const placeOf = (at: number) => `row ${at} of ${path}`;
  return {
    shape,
    async *chunks() {
      let done = 0;
      for (const [place, { rows }] of groups.entries()) {
        const values = await read(place);
        for (let at = 0; at < rows; at += fileRowsMax) {
          const end = Math.min(rows, at + fileRowsMax);
          yield chunkOf(values, [at, end], shape, (row) => placeOf(done + row), path);
        }
        done += rows;
      }
    },
    placeOf,
    close: () => file.close(),
  };
}

/** The values of a row group's columns, one per row. */
interface Values {
  readonly ids: readonly unknown[];
  readonly vectors: readonly unknown[];
  /** Empty if the file has no column `state`. */
  readonly states: readonly unknown[];
}

/** The numbers of a row; null: a missing number. A missing list is empty. */
function listAt(lists: readonly unknown[], row: number): readonly unknown[] {
  const list = lists[row];
  return Array.isArray(list) ? list : [];
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
): readonly [id: SchemaTree, vector: SchemaTree, state?: SchemaTree] {
  const columnOf = (name: string, types: readonly string[]): SchemaTree | undefined => {
    const column = children.find(({ element }) => element.name === name);
    let lists = 0;
    for (let node = column; node !== undefined; node = node.children[0]) {
      if (node.element.repetition_type === "REPEATED") lists++;
      if (node.children.length > 1) return undefined;
      if (node.children.length > 0) continue;
      const isFit = name === "id" ? node === column && lists === 0 : lists === 1;
      return isFit && types.includes(node.element.type ?? "") ? column : undefined;
    }
    return undefined;
  };
  const id = columnOf("id", ["INT64", "INT32"]);
  const [vector, state] = ["vector", "state"].map((name) => columnOf(name, ["FLOAT"]));
  const hasState = children.some(({ element }) => element.name === "state");
  if (id !== undefined && vector !== undefined && hasState === (state !== undefined)) {
    return state === undefined ? [id, vector] : [id, vector, state];
  }
  const form = "`id` (INT64 or INT32) and `vector` (a list of FLOAT)";
  const types = children.map(({ element: { name, type } }) => `\`${name}\` (${type ?? "nested"})`);
  throw unusable(path, `Expected the columns ${form} in ${path}, got ${types.join(", ")}`);
}

function chunkOf(
  { ids: all, vectors: lists, states }: Values,
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
    put(vectors, row, dim, listAt(lists, row));
    if (state !== undefined) put(state, row, width, listAt(states, row));
  }
  return { ids, vectors, state };
}
