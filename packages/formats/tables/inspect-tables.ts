// Reports on the tables of a checkpoint: the number of initialised rows, and the rows' norms.

import {
  openCheckpoint,
  type Precision,
  type ProgressOptions,
  progressOf,
  rowsOfTable,
  type StoredTable,
  storedTable,
  storedTables,
} from "../../../internal.ts";
import { scaled, shareOf } from "../exports/whole-rows.ts";

/** Options of `inspectTables`. */
export interface InspectOptions extends ProgressOptions {
  /** Only this table. */
  readonly table?: string | undefined;
  /** Hash of a manifest, or a prefix of it. @default as `loadModel` */
  readonly manifest?: string | undefined;
}

/** One table of a checkpoint. A norm is the Euclidean norm of a row's weights. */
export interface TableReport {
  readonly name: string;
  readonly rows: number;
  readonly dim: number;
  readonly precision: Precision;
  /** Initialised rows, which training has touched. The checkpoint stores no others. */
  readonly born: number;
  /** The parts that hold the rows, each a tile of the table. */
  readonly parts: readonly string[];
  /** Bytes of the parts and their bases: weights and optimizer state. */
  readonly bytes: number;
  /** Undefined where no row is initialised. */
  readonly norm: { readonly min: number; readonly max: number; readonly mean: number } | undefined;
  /** Initialised rows that are all zeros. */
  readonly zeros: number;
  /**
   * Non-zero initialised rows by norm: `rows` rows have a norm in [`from`, 2 `from`); ascending,
   * without gaps.
   */
  readonly histogram: readonly { readonly from: number; readonly rows: number }[];
}

/** The tables of one checkpoint. */
export interface TablesReport {
  readonly cut: number;
  /** Hash of its manifest. */
  readonly manifest: string;
  readonly digest: string;
  readonly tables: readonly TableReport[];
}

/**
 * Reads all tables of a checkpoint, or one, a chunk at a time.
 * @throws InvalidOptionError (no such table), CheckpointMissingError, CheckpointCorruptError
 */
export async function inspectTables(
  directory: string,
  options: InspectOptions = {},
): Promise<TablesReport> {
  const checkpoint = openCheckpoint(directory, options.manifest, options.disk);
  const { table } = options;
  const stored = table === undefined ? storedTables(checkpoint) : [storedTable(checkpoint, table)];
  const progress = progressOf(options);
  for (const { bytes } of stored) progress.expect(bytes);
  const tables: TableReport[] = [];
  for (const one of stored) {
    const norms = new Norms();
    const share = shareOf(checkpoint, one);
    for await (const { rows, weights: stored } of rowsOfTable(checkpoint, one, progress)) {
      const weights = scaled(stored, share);
      for (let row = 0; row < rows.length; row++) norms.add(weights, row, one.spec.dim);
    }
    tables.push(reportOf(one, norms));
  }
  const { cut, sha256: manifest, modelDigest } = checkpoint.manifest;
  return { cut, manifest, digest: `sha256:${modelDigest}`, tables };
}

function reportOf({ spec, runs, bytes }: StoredTable, norms: Norms): TableReport {
  const { name, rows, dim, precision } = spec;
  const parts = runs.flatMap(({ tiles }) => tiles.map((tile) => tile.name));
  return { name, rows, dim, precision, parts, bytes, ...norms.report() };
}

/** Accumulates norms of rows. */
class Norms {
  #born = 0;
  #zeros = 0;
  #sum = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = 0;
  /** Rows by octave of norms; the key is the binary exponent of the octave's lower bound. */
  readonly #octaves = new Map<number, number>();

  add(weights: Float32Array, row: number, dim: number): void {
    let squares = 0;
    for (let c = row * dim; c < (row + 1) * dim; c++) squares += (weights[c] ?? 0) ** 2;
    const norm = Math.sqrt(squares);
    this.#born++;
    this.#sum += norm;
    this.#min = Math.min(this.#min, norm);
    this.#max = Math.max(this.#max, norm);
    if (norm === 0) this.#zeros++;
    else {
      const octave = Math.floor(Math.log2(norm));
      this.#octaves.set(octave, (this.#octaves.get(octave) ?? 0) + 1);
    }
  }

  report(): Pick<TableReport, "born" | "zeros" | "norm" | "histogram"> {
    const [born, zeros] = [this.#born, this.#zeros];
    const norm =
      born === 0 ? undefined : { min: this.#min, max: this.#max, mean: this.#sum / born };
    const octaves = [...this.#octaves.keys()].sort((a, b) => a - b);
    const [first = 0, last = -1] = [octaves[0], octaves.at(-1)];
    const histogram = Array.from({ length: last - first + 1 }, (_, i) => ({
      from: 2 ** (first + i),
      rows: this.#octaves.get(first + i) ?? 0,
    }));
    return { born, zeros, norm, histogram };
  }
}
