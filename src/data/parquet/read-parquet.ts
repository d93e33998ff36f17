// Reads Parquet files into batches of columns: only the wanted columns, one row group after the
// other, some thousand rows at a time. Any fault of a file is one error that names the file, the
// row group and the column.

import type { Column, RowBatch } from "../columnar/column.ts";
import { batchName, type WantedColumn } from "../tables/asked-columns.ts";
import { openStreams, type RangeReader } from "../tables/byte-ranges.ts";
import { CorruptFile, isDamage, unusableAt } from "../tables/damage.ts";
import { MemoryBudget } from "../tables/memory-budget.ts";
import { PieceMemory } from "../tables/piece-memory.ts";
import {
  newHash,
  newReport,
  type ReadReport,
  rowsOfBatch,
  type TableLimits,
} from "../tables/table-file.ts";
import { openCursor } from "./decode/column-cursor.ts";
import type { ColumnCursor } from "./decode/leaf-cursor.ts";
import { type PageDecoders, pageDecoders } from "./decode/page-decoders.ts";
import type { Chunk, Footer, Group } from "./footer.ts";
import type { ColumnShape } from "./shapes.ts";

/** Options of `readParquet`. */
export interface ReadLimits
  extends Pick<TableLimits, "report" | "onDamage" | "rowsFirst" | "rowsMax"> {
  /** Selects the row groups to read. @default all */
  readonly isWanted?: ((group: number) => boolean) | undefined;
  /** Decoders of pages. @default the fastest */
  readonly decoders?: PageDecoders | undefined;
  /** Memory of a finished reader, for reuse. @default new memory */
  readonly memory?: PieceMemory | undefined;
}

/**
 * Yields the rows of a file in order, in batches that are valid until the next one. An error names
 * the file, the row group or the column. If a row group is damaged, the rows before the damage are
 * read: the same rows whenever the same columns are wanted.
 * @throws InputUnusableError
 */
export async function* readParquet(
  file: RangeReader,
  footer: Footer,
  wanted: readonly WantedColumn<ColumnShape>[],
  {
    report = newReport(false),
    isWanted = () => true,
    onDamage,
    rowsMax = Number.MAX_SAFE_INTEGER,
    rowsFirst = rowsMax,
    decoders = pageDecoders(),
    memory = new PieceMemory(new MemoryBudget(file.size)),
  }: ReadLimits = {},
): AsyncGenerator<RowBatch> {
  const hash = newHash(report);
  hash.update(footer.bytes);
  let firstRow = 0;
  for (const [place, group] of footer.groups.entries()) {
    if (isWanted(place)) {
      const entries = wanted.map(({ shape }) => group.chunks.get(shape.leaf.path)?.values ?? 0);
      const step = rowsOfBatch(group.rows, entries);
      let row = 0;
      try {
        const reader = new GroupReader({
          file,
          group,
          place,
          wanted,
          counts: report,
          decoders,
          memory,
        });
        while (row < group.rows) {
          const few = Math.min(row === 0 ? rowsFirst : rowsMax, rowsMax);
          const some = Math.min(row + few, row - (row % step) + step, group.rows);
          const rows = some - row;
          const columns = await reader.read(rows);
          yield { rows, file: file.path, firstRow: firstRow + row, rowGroup: place, columns };
          row = some;
        }
        for (const digest of reader.digests()) hash.update(digest);
      } catch (error) {
        if (onDamage === undefined || !isDamage(error)) throw error;
        const rows = group.rows - row;
        onDamage({ piece: place, firstRow: firstRow + row, rows, error });
      }
    }
    firstRow += group.rows;
  }
  report.sha256 = hash.digest().toString("hex");
}

/** Dependencies of a `GroupReader`. */
interface GroupSource {
  readonly file: RangeReader;
  readonly group: Group;
  readonly place: number;
  readonly wanted: readonly WantedColumn<ColumnShape>[];
  readonly counts: ReadReport;
  readonly memory: PieceMemory;
  readonly decoders: PageDecoders;
}

/** Reads the columns of one row group. */
class GroupReader {
  readonly #path: string;
  readonly #place: number;
  readonly #columns: {
    readonly wanted: WantedColumn<ColumnShape>;
    readonly cursor: ColumnCursor;
  }[];
  readonly #hashes;

  constructor({ file, group, place, wanted, counts, decoders, memory }: GroupSource) {
    memory.begin();
    this.#path = file.path;
    this.#place = place;
    const chunks = wanted.map(({ shape }) => this.#chunksOf(group, shape));
    const streams = openStreams(file, chunks.flat(), counts, memory);
    this.#hashes = wanted.map(() => newHash(counts));
    let next = 0;
    this.#columns = wanted.map((column, i) => {
      const [ids, weights] = (chunks[i] ?? []).map((chunk) => {
        return { chunk, stream: streams[next++] as (typeof streams)[number], decoders, memory };
      });
      const hash = this.#hashes[i];
      if (ids === undefined || hash === undefined) throw new TypeError("a column has a leaf");
      const { name } = column.shape;
      const cursor = this.#at(name, () => openCursor(column, ids, weights, hash));
      return { wanted: column, cursor };
    });
  }

  async read(rows: number): Promise<Map<string, Column>> {
    const columns = new Map<string, Column>();
    for (const { wanted, cursor } of this.#columns) {
      try {
        columns.set(batchName(wanted), await cursor.read(rows));
      } catch (cause) {
        throw this.#unusable(wanted.shape.name, cause);
      }
    }
    return columns;
  }

  digests(): Buffer[] {
    return this.#hashes.map((hash) => hash.digest());
  }

  #chunksOf({ chunks, rows }: Group, shape: ColumnShape): Chunk[] {
    return [shape.leaf, shape.weights].flatMap((leaf) => {
      if (leaf === undefined) return [];
      return this.#at(shape.name, () => {
        const chunk = chunks.get(leaf.path);
        if (chunk === undefined) throw new CorruptFile("the row group lacks it");
        const isTooFew = shape.list === "none" ? chunk.values !== rows : chunk.values < rows;
        if (isTooFew) throw new CorruptFile(`it has ${chunk.values} values for ${rows} rows`);
        return [chunk];
      });
    });
  }

  #at<Result>(column: string, work: () => Result): Result {
    try {
      return work();
    } catch (cause) {
      throw this.#unusable(column, cause);
    }
  }

  #unusable(column: string, cause: unknown): Error {
    return unusableAt({ kind: "parquet", path: this.#path, piece: this.#place, column }, cause);
  }
}
