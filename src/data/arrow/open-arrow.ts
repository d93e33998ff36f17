// Opens an Arrow file or stream for a job: its message index, and the columns that the job wants.

import type { ResolvedArrowOptions, TableShape } from "../options.ts";
import { rangeCacheOf } from "../remote/range-cache.ts";
import type { KeyColumn } from "../split-keys.ts";
import { askedColumns } from "../tables/asked-columns.ts";
import { openFrom } from "../tables/byte-ranges.ts";
import type { TableFile } from "../tables/table-file.ts";
import { openIndex } from "./messages.ts";
import { readArrow } from "./read-arrow.ts";
import { columnNames, shapeOf } from "./shapes.ts";

/** Opens an Arrow file or stream; parameters and errors as of `openTable`. */
export function openArrow(
  path: string,
  options: ResolvedArrowOptions,
  tables: readonly TableShape[],
  key?: KeyColumn,
  kept?: readonly string[],
): Promise<TableFile> {
  return openFrom(
    path,
    async (file) => {
      const index = await openIndex(file);
      const { schema, batches } = index;
      const inFile = { names: columnNames(schema), shapeOf: shapeOf.bind(undefined, schema) };
      const { wanted, ...asked } = askedColumns(file.path, inFile, options, tables, { key, kept });
      return {
        path: file.path,
        size: file.size,
        tag: file.tag,
        rows: batches.reduce((sum, { rows }) => sum + rows, 0),
        ...asked,
        batches(_, { names, ...limits }) {
          const some = wanted.filter(({ shape }) => names?.has(shape.name) !== false);
          return readArrow(file, index, some, limits);
        },
        close: () => file.close(),
      };
    },
    rangeCacheOf(options),
  );
}
