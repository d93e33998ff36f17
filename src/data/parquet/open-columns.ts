// Opens a Parquet file for a job: its footer, and the columns that the job wants.

import type { RowBatch } from "../columnar/column.ts";
import type { ResolvedParquetOptions, TableShape } from "../options.ts";
import { rangeCacheOf } from "../remote/range-cache.ts";
import type { KeyColumn } from "../split-keys.ts";
import { type AskedColumns, askedColumns, type WantedColumn } from "../tables/asked-columns.ts";
import { openFrom, type RangeReader } from "../tables/byte-ranges.ts";
import { MemoryBudget } from "../tables/memory-budget.ts";
import { PieceMemory } from "../tables/piece-memory.ts";
import type { TableFile } from "../tables/table-file.ts";
import { type Footer, readFooter } from "./footer.ts";
import { mayHaveWanted } from "./prune.ts";
import { readParquet } from "./read-parquet.ts";
import { type ColumnShape, columnNames, shapeOf } from "./shapes.ts";

/** An open Parquet file, and its wanted columns. */
export interface ParquetFile extends TableFile {
  readonly file: RangeReader;
  readonly footer: Footer;
  readonly wanted: readonly WantedColumn<ColumnShape>[];
}

/** Opens a Parquet file; parameters and errors as of `openTable`. */
export function openParquet(
  path: string,
  options: ResolvedParquetOptions,
  tables: readonly TableShape[],
  key?: KeyColumn,
  kept?: readonly string[],
): Promise<ParquetFile> {
  return openFrom(
    path,
    async (file) => {
      const footer = await readFooter(file);
      const { schema } = footer;
      const inFile = { names: columnNames(schema), shapeOf: shapeOf.bind(undefined, schema) };
      const asked = askedColumns(file.path, inFile, options, tables, { key, kept });
      return tableOf(file, footer, asked);
    },
    rangeCacheOf(options),
  );
}

/**
 * The open file. `batches` skips row groups whose statistics rule out every row that the tests
 * want.
 */
function tableOf(file: RangeReader, footer: Footer, asked: AskedColumns<ColumnShape>): ParquetFile {
  const { wanted } = asked;
  const shapes = new Map(wanted.map(({ shape }) => [shape.name, shape]));
  const idle: PieceMemory[] = [];
  /** Each reader has its own memory, which later readers reuse. */
  async function* withMemory(read: (memory: PieceMemory) => AsyncGenerator<RowBatch>) {
    const memory = idle.pop() ?? new PieceMemory(new MemoryBudget(file.size));
    try {
      yield* read(memory);
    } finally {
      idle.push(memory);
    }
  }
  return {
    file,
    footer,
    path: file.path,
    size: file.size,
    tag: file.tag,
    rows: footer.rows,
    ...asked,
    batches(tests, { only, names, ...limits }) {
      const isWanted = (place: number) => {
        if (only !== undefined && place !== only) return false;
        const group = footer.groups[place];
        return group !== undefined && mayHaveWanted(group, tests, shapes);
      };
      const some = wanted.filter(({ shape }) => names?.has(shape.name) !== false);
      return withMemory((memory) => {
        return readParquet(file, footer, some, { ...limits, isWanted, memory });
      });
    },
    close: () => file.close(),
  };
}
