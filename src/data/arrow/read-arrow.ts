// Reads Arrow files into batches of columns: only the buffers of the wanted columns, one record
// batch after the other, some thousand rows at a time. Any fault of a file is one error that names
// the file, the record batch and the column. docs/decisions/0036-arrow-is-read-by-column.md says
// why apache-arrow does not read them.

import type { Column, RowBatch } from "../columnar/column.ts";
import { TextPool } from "../parquet/decode/texts.ts";
import { batchName, type WantedColumn } from "../tables/asked-columns.ts";
import type { RangeReader } from "../tables/byte-ranges.ts";
import { isDamage, unusableAt } from "../tables/damage.ts";
import {
  type ByteHash,
  newHash,
  newReport,
  type ReadReport,
  rowsOfBatch,
  type TableLimits,
} from "../tables/table-file.ts";
import { columnReaders, type FieldPlace, placesOf } from "./batch-buffers.ts";
import { type ColumnRows, columnRows } from "./column-rows.ts";
import { Dictionaries } from "./dictionaries.ts";
import { type ArrowIndex, type Body, bodyAt } from "./messages.ts";
import type { ArrowShape } from "./shapes.ts";
import type { ArrowDictionary, Source } from "./values.ts";

type Wanted = WantedColumn<ArrowShape>;

/**
 * Yields the rows of a file in order, in batches that are valid until the next one. If a record
 * batch is damaged, the rows before the damage are read: the same rows whenever the same columns
 * are wanted.
 * @throws InputUnusableError
 */
export async function* readArrow(
  file: RangeReader,
  index: ArrowIndex,
  wanted: readonly Wanted[],
  { report = newReport(false), only, onDamage }: Omit<TableLimits, "names"> = {},
): AsyncGenerator<RowBatch> {
  const hash = newHash(report);
  hash.update(index.schemaBytes);
  const reader = new BatchReader(file, index, wanted, report);
  let firstRow = 0;
  for (const [piece, { rows: all }] of index.batches.entries()) {
    if (only === undefined || only === piece) {
      let row = 0;
      try {
        const own = newHash(report);
        const columns = await reader.open(piece, own);
        const entries = columns.map(({ rows }) => rows.entries);
        const step = rowsOfBatch(all, entries);
        for (; row < all; row += step) {
          const rows = Math.min(step, all - row);
          const found = reader.read(piece, columns, row, row + rows);
          const at = { file: file.path, firstRow: firstRow + row, rowGroup: piece };
          yield { rows, ...at, columns: found };
        }
        hash.update(own.digest());
      } catch (error) {
        if (onDamage === undefined || !isDamage(error)) throw error;
        onDamage({ piece, firstRow: firstRow + row, rows: all - row, error });
      }
    }
    firstRow += all;
  }
  report.sha256 = hash.digest().toString("hex");
}

/** A wanted column of an open record batch. */
interface OpenColumn {
  readonly column: Wanted;
  readonly rows: ColumnRows;
}

/** Reads the wanted columns of record batches. */
class BatchReader {
  readonly #file: RangeReader;
  readonly #index: ArrowIndex;
  readonly #wanted: readonly { readonly column: Wanted; readonly pool: TextPool }[];
  readonly #report: ReadReport;
  readonly #dictionaries: Dictionaries;

  constructor(file: RangeReader, index: ArrowIndex, wanted: readonly Wanted[], report: ReadReport) {
    this.#file = file;
    this.#index = index;
    this.#wanted = wanted.map((column) => ({ column, pool: new TextPool() }));
    this.#report = report;
    this.#dictionaries = new Dictionaries(file, index, report);
  }

  /**
   * Reads the wanted columns of a record batch into memory. `hash` receives the bytes that are
   * read.
   */
  async open(piece: number, hash: ByteHash): Promise<OpenColumn[]> {
    const place = this.#index.batches[piece];
    if (place === undefined) throw new TypeError("a record batch of the file");
    const [body, all] = await this.#at(piece, undefined, async () => {
      const own = await bodyAt(this.#file, place.block);
      return [own, placesOf(this.#index.schema.fields, own.layout)] as const;
    });
    const found = this.#wanted.map(({ column }) => placesAlong(all, column.shape.path));
    const readers = await this.#at(piece, undefined, async () => {
      const places = found.map(withChildren);
      return columnReaders(this.#file, body, places, this.#report);
    });
    const take = (bytes: Uint8Array) => hash.update(bytes);
    const columns: OpenColumn[] = [];
    for (const [i, { column, pool }] of this.#wanted.entries()) {
      const { name } = column.shape;
      const rows = await this.#at(piece, name, async () => {
        const bytes = (await readers[i]?.(take)) ?? new Map();
        const source = await this.#sourceOf(column.shape, piece, body, bytes, take);
        return columnRows(column, found[i] ?? [], source, body.layout.rows, pool);
      });
      columns.push({ column, rows });
    }
    return columns;
  }

  /** Rows `from` until `end` (exclusive) of open columns, by the column's name. */
  read(
    piece: number,
    columns: readonly OpenColumn[],
    from: number,
    end: number,
  ): Map<string, Column> {
    const found = new Map<string, Column>();
    for (const { column, rows } of columns) {
      try {
        found.set(batchName(column), rows.read(from, end));
      } catch (cause) {
        throw this.#unusable(piece, column.shape.name, cause);
      }
    }
    return found;
  }

  async #sourceOf(
    { leaf, weights }: ArrowShape,
    piece: number,
    { layout }: Body,
    bytes: ReadonlyMap<number, Uint8Array>,
    take: (bytes: Uint8Array) => void,
  ): Promise<Source> {
    const dictionaries = new Map<number, ArrowDictionary>();
    for (const one of [leaf, weights]) {
      const own = one && (await this.#dictionaries.of(one, piece, take));
      if (own !== undefined) dictionaries.set(one?.field.dictionary?.id ?? 0, own);
    }
    return { layout, bytes, dictionaries };
  }

  async #at<Result>(
    piece: number,
    column: string | undefined,
    work: () => Promise<Result>,
  ): Promise<Result> {
    try {
      return await work();
    } catch (cause) {
      throw this.#unusable(piece, column, cause);
    }
  }

  #unusable(piece: number, column: string | undefined, cause: unknown): Error {
    return unusableAt({ kind: "arrow", path: this.#file.path, piece, column }, cause);
  }
}

/** The fields along a path, from the outermost on. */
function placesAlong(all: readonly FieldPlace[], path: readonly number[]): FieldPlace[] {
  let within = all;
  return path.map((i) => {
    const place = within[i];
    if (place === undefined) throw new TypeError("a field of the schema");
    within = place.children;
    return place;
  });
}

/**
 * All fields that a column needs: the structs around it, its own field, and the fields within it.
 */
function withChildren(places: readonly FieldPlace[]): FieldPlace[] {
  const below = (place: FieldPlace): FieldPlace[] => [place, ...place.children.flatMap(below)];
  return places.flatMap((place, i) => (i === places.length - 1 ? below(place) : [place]));
}
