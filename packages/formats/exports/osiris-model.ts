// Writes a model file (storage/checkpoints/store/model-file.ts), which all code that reads a
// checkpoint directory can read too. Each row is hashed on the way, so that the file can prove that
// its rows lead to the run's digest; a checkpoint whose rows do not match is not exported.
//
// Memory holds one chunk of rows at a time. Chunks do not depend on how the checkpoint was sharded.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { z } from "zod";
import {
  addSum,
  CheckpointCorruptError,
  chunkBytes,
  type DiskFile,
  denseHeaderBytes,
  densePart,
  digestOf,
  encodeRows,
  finishModelFile,
  hashOf,
  idLeavesOfPart,
  idsPartNameOf,
  joinIds,
  leavesOfSums,
  needState,
  type OpenCheckpoint,
  type Progress,
  pageBytes,
  partNameOf,
  partsOfTable,
  type RowRecords,
  rowHashing,
  rowsOfTable,
  type StateShape,
  type StoredTable,
  tableDigest,
  type Unfinished,
  wholeTable,
  zipEnd,
  zipHeader,
  zipPlaceAt,
} from "../../../internal.ts";
import type { ExportedModel } from "./exported-model.ts";
import { markBytes } from "./file-pieces.ts";

const nat = z.int().nonnegative();
const partSchema = z.object({
  name: z.string(),
  ...{ header: nat, start: nat, bytes: nat, crc: nat },
  chunks: z.array(z.string()),
  /** The leaves of the part, from which the model's digest is computed. */
  leaves: z.array(z.string()),
});

/** The resume mark: finished parts, and the part that is being written, of a table. */
export const osirisMark = z.object({
  parts: z.array(partSchema),
  open: z
    .object({
      /** The part so far, with the hashes of its whole chunks. */
      part: partSchema,
      /** The last row written, and the sums of the hashes of all rows so far. */
      after: z.int(),
      sums: z.array(z.int()),
    })
    .optional(),
});
type OsirisMark = z.output<typeof osirisMark>;
type WrittenPart = z.output<typeof partSchema>;

/** Options that decide which row state the file includes. */
export interface OsirisOptions {
  /**
   * Whether the optimizer's state per element is included. Rows with a moving average always
   * include it, because predictions need it.
   */
  readonly withOptimizer: boolean;
  readonly everyBytes?: number | undefined;
}

/** Writes a model. @throws CheckpointCorruptError */
export async function writeOsiris(
  unfinished: Unfinished<OsirisMark>,
  { checkpoint, tables, calibration }: ExportedModel,
  progress: Progress,
  { withOptimizer, everyBytes = markBytes }: OsirisOptions,
): Promise<void> {
  const { store, job, manifest } = checkpoint;
  if (withOptimizer) needState(store, "`--with-optimizer`");
  const { file, last } = unfinished;
  const specs = job.model.tables;
  const { ema } = job.optimizer.sparse;
  const hasElements = tables.some(({ stored }) => stored.state.perElement > 0);
  const isWhole = withOptimizer || ema !== undefined || !hasElements;
  const parts: WrittenPart[] = [...(last?.parts ?? [])];
  for (const { stored } of tables) progress.expect(stored.bytes);

  const put = (name: string, bytes: Uint8Array, leaves: string[]) => {
    if (parts.some((one) => one.name === name)) return;
    const writer = new PartWriter(file, partAfter(parts, name));
    writer.write(bytes);
    parts.push(writer.finish(leaves));
  };
  const dense = store.readWholePart(manifest, densePart);
  put(densePart, dense, [hashOf(dense.subarray(denseHeaderBytes))]);
  for (const [table, { dynamic }] of specs.entries()) {
    if (dynamic === undefined) continue;
    const sources = partsOfTable(manifest, specs, table).ids;
    const parts = sources.map((source) => store.readWholePart(manifest, source));
    const name = idsPartNameOf(wholeTable(table, specs), specs);
    const joined = joinIds(parts, name);
    put(name, joined, idLeavesOfPart(joined, name));
  }
  for (const { stored } of tables) {
    const name = partNameOf(wholeTable(stored.table, specs), specs);
    if (parts.some((one) => one.name === name)) {
      progress.skip(stored.bytes);
      continue;
    }
    const open = last?.open?.part.name === name ? last.open : undefined;
    const begun = { part: open?.part ?? partAfter(parts, name), open };
    const to = { unfinished, parts, everyBytes, ...begun };
    parts.push(await writeTable(to, { checkpoint, stored, isWhole }, progress));
  }
  const leaves = new Map(parts.map((part) => [part.name, part.leaves]));
  const digest = digestOf(leaves, specs, store.statedDigests);
  if (job.checkpoint.bits === 32 && digest !== manifest.modelDigest) {
    const reason = `its parts have the digest sha256:${digest}, expected sha256:${manifest.modelDigest}`;
    throw new CheckpointCorruptError(store.directory, reason);
  }
  const digests = specs.map((_, table) => {
    const tile = wholeTable(table, specs);
    const tileLeaves = leaves.get(partNameOf(tile, specs)) ?? [];
    return store.statedDigests?.[table] ?? tableDigest([{ ...tile, leaves: tileLeaves }]);
  });
  const proof = {
    parts: parts.map(({ name, chunks }) => ({ name, chunks })),
    ...(!isWhole && { statedDigests: digests }),
  };
  const manifestText = store.manifestText(manifest);
  const model = { jobText: store.jobText, manifest, manifestText, proof };
  finishModelFile(file, parts, model, calibration);
}

/** Writes the rows of a table as a part, from its first row or from a resume mark. */
async function writeTable(
  to: {
    readonly unfinished: Unfinished<OsirisMark>;
    /** The parts before it. */
    readonly parts: readonly WrittenPart[];
    readonly everyBytes: number;
    readonly part: WrittenPart;
    readonly open: OsirisMark["open"];
  },
  from: { checkpoint: OpenCheckpoint; stored: StoredTable; isWhole: boolean },
  progress: Progress,
): Promise<WrittenPart> {
  const { unfinished, everyBytes, open } = to;
  const { stored, isWhole } = from;
  const { spec, state, table } = stored;
  const { dim, precision } = spec;
  const tile = wholeTable(table, from.checkpoint.job.model.tables);
  const hashing = rowHashing({ ...tile, columns: dim }, dim, state);
  const sums = Uint32Array.from(open?.sums ?? [0, 0]);
  const writer = new PartWriter(unfinished.file, to.part);
  let marked = writer.bytes;
  let after = open?.after ?? -1;

  /** The remaining rows, hashed on the way. Records a mark between chunks, at intervals. */
  async function* hashed(): AsyncGenerator<RowRecords> {
    const source = rowsOfTable(from.checkpoint, stored, progress);
    for await (const chunk of regrouped(source, after)) {
      if (writer.bytes - marked >= everyBytes) {
        marked = writer.bytes;
        const open = { part: writer.part(), after, sums: [...sums] };
        await unfinished.save({ parts: [...to.parts], open });
      }
      for (let i = 0; i < chunk.rows.length; i++) addSum(sums, hashing.of(chunk, i));
      after = chunk.rows.at(-1) ?? after;
      yield isWhole ? chunk : withoutElementState(chunk, dim, state);
    }
  }
  const width = (isWhole ? state.perElement * dim : 0) + state.perRow;
  let isHeader = open !== undefined; // A resumed file has the header already.
  for await (const piece of encodeRows(dim, width, hashed(), precision)) {
    if (!isHeader) writer.write(piece);
    isHeader = false;
  }
  return writer.finish(leavesOfSums(sums));
}

/** A part without contents, behind the others. */
function partAfter(parts: readonly WrittenPart[], name: string): WrittenPart {
  const place = zipPlaceAt(zipEnd(parts), name, pageBytes);
  return { ...place, bytes: 0, crc: 0, chunks: [], leaves: [] };
}

/** Writes the contents of a part, from its first byte or from a resume mark, then its header. */
class PartWriter {
  readonly #file: DiskFile;
  readonly #begun: WrittenPart;
  readonly #chunks: string[];
  #bytes: number;
  #crc: number;
  #hash = createHash("sha256");

  constructor(file: DiskFile, begun: WrittenPart) {
    this.#file = file;
    this.#begun = begun;
    this.#chunks = [...begun.chunks];
    this.#bytes = begun.bytes;
    this.#crc = begun.crc;
    const open = new Uint8Array(this.#openBytes);
    file.read(open, begun.start + begun.bytes - open.length);
    this.#hash.update(open);
  }

  /** Bytes of the part so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of the chunk that is not whole yet. */
  get #openBytes(): number {
    return this.#bytes - this.#chunks.length * chunkBytes;
  }

  write(bytes: Uint8Array): void {
    if (bytes.length === 0) return; // Node's crc32 of no bytes is 0, not the checksum so far.
    this.#file.write(bytes, this.#begun.start + this.#bytes);
    this.#crc = crc32(bytes, this.#crc);
    for (let from = 0; from < bytes.length; ) {
      const piece = bytes.subarray(from, from + chunkBytes - this.#openBytes);
      this.#hash.update(piece);
      this.#bytes += piece.length;
      from += piece.length;
      if (this.#openBytes === chunkBytes) this.#endChunk();
    }
  }

  /** The part so far, with the hashes of its whole chunks. */
  part(): WrittenPart {
    return { ...this.#begun, bytes: this.#bytes, crc: this.#crc, chunks: [...this.#chunks] };
  }

  finish(leaves: string[]): WrittenPart {
    if (this.#openBytes > 0) this.#endChunk();
    const part = { ...this.part(), leaves };
    this.#file.write(zipHeader(part), part.header);
    return part;
  }

  #endChunk(): void {
    this.#chunks.push(this.#hash.digest("hex"));
    this.#hash = createHash("sha256");
  }
}

/** Rows of a chunk. */
const chunkRows = 4096;

/**
 * The rows after row `after`, in chunks of 4096; the last chunk may be smaller. Chunks own their
 * memory.
 */
async function* regrouped(
  source: AsyncIterable<RowRecords>,
  after: number,
): AsyncGenerator<RowRecords, void, undefined> {
  let held: RowRecords | undefined;
  let count = 0;
  for await (const { rows, weights, state } of source) {
    if (rows.length === 0) continue;
    const [dim, width] = [weights.length / rows.length, state.length / rows.length];
    let from = firstBehind(rows, after);
    while (from < rows.length) {
      held ??= {
        rows: new Int32Array(chunkRows),
        weights: new Float32Array(chunkRows * dim),
        state: new Float32Array(chunkRows * width),
      };
      const end = Math.min(rows.length, from + chunkRows - count);
      held.rows.set(rows.subarray(from, end), count);
      held.weights.set(weights.subarray(from * dim, end * dim), count * dim);
      held.state.set(state.subarray(from * width, end * width), count * width);
      count += end - from;
      from = end;
      if (count < chunkRows) continue;
      yield held;
      [held, count] = [undefined, 0];
    }
  }
  if (held === undefined) return;
  const part = (values: Float32Array) => values.subarray(0, (values.length / chunkRows) * count);
  yield {
    rows: held.rows.subarray(0, count),
    weights: part(held.weights),
    state: part(held.state),
  };
}

/** Index of the first row greater than `after`, in ascending rows. */
function firstBehind(rows: Int32Array, after: number): number {
  if ((rows.at(-1) ?? 0) <= after) return rows.length;
  return rows.findIndex((row) => row > after);
}

/** The rows without their state per element; the state per row is kept. */
function withoutElementState(
  { rows, weights, state }: RowRecords,
  dim: number,
  { perElement, perRow }: StateShape,
): RowRecords {
  const width = perElement * dim + perRow;
  const rowState = new Float32Array(rows.length * perRow);
  for (let i = 0; i < rows.length; i++) {
    rowState.set(state.subarray((i + 1) * width - perRow, (i + 1) * width), i * perRow);
  }
  return { rows, weights, state: rowState };
}
