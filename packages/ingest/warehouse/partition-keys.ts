// Adds the keys of partitions (`day=2026-11-01/`) as columns of the rows in them, unless the files
// have a column of that name.

import { InputUnusableError, partitionsOf } from "../../../internal.ts";
import { InferredType, type Loose } from "./inferred-type.ts";
import type { TableRows, TableSource } from "./table-columns.ts";

/**
 * Wraps `source`, which reads these files, and appends the keys of their partitions as columns.
 * @throws InputUnusableError where the partition keys of a file differ from those of the first
 */
export function withPartitionKeys(source: TableSource, files: readonly string[]): TableSource {
  const [first = ""] = files;
  const inFiles = new Set(source.columns.map(({ name }) => name));
  const names = [...partitionsOf(first).keys()].filter((name) => !inFiles.has(name));
  const types = new Map(names.map((name) => [name, new InferredType()]));
  const found = files.map((file) => {
    const keys = partitionsOf(file);
    const keysOfFile = [...keys.keys()].filter((name) => !inFiles.has(name));
    if (keysOfFile.join() !== names.join()) {
      const both = [names, keysOfFile].map((some) =>
        some.length === 0 ? "none" : some.join(", "),
      );
      const message = `Expected files in partitions of the same keys, got ${both.join(" and ")}`;
      throw new InputUnusableError(file, `${message}: ${first} and ${file}`);
    }
    for (const name of names) {
      const loose = looseKey(keys.get(name));
      if (loose !== undefined) types.get(name)?.add(loose);
    }
    return [file, keys] as const;
  });
  if (names.length === 0) return source;
  const keysOf = new Map(found);
  const columns = [...types].map(([name, type]) => ({ name, elements: type.elements(name) }));
  return {
    columns: [...source.columns, ...columns],
    countRows: () => source.countRows(),
    async *chunks(from) {
      for await (const chunk of source.chunks(from)) {
        const keys = keysOf.get(chunk.file);
        const keyColumns = [...types].map(([name, type]): [string, unknown[]] => {
          const loose = looseKey(keys?.get(name));
          const value = loose && type.stored(loose);
          return [name, new Array(chunk.rows).fill(value)];
        });
        yield new WithKeys(chunk, keyColumns);
      }
    },
  };
}

function looseKey(value: string | undefined): Loose | undefined {
  if (value === undefined) return undefined;
  return { form: "value", value: Buffer.from(value, "utf8").toString("latin1") };
}

class WithKeys implements TableRows {
  readonly #inner: TableRows;
  readonly columns: ReadonlyMap<string, readonly unknown[]>;

  constructor(inner: TableRows, keys: readonly (readonly [string, readonly unknown[]])[]) {
    this.#inner = inner;
    this.columns = new Map([...inner.columns, ...keys]);
  }

  get rows(): number {
    return this.#inner.rows;
  }

  get file(): string {
    return this.#inner.file;
  }

  placeOf(row: number): string {
    return this.#inner.placeOf(row);
  }
}
