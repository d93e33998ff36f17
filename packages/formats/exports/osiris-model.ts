// Writes a model file (storage/checkpoints/store/model-file.ts), which all code that reads a
// checkpoint directory can read too. Each row is hashed on the way, so that the file can prove that
// its rows lead to the run's digest; a checkpoint whose rows do not match is not exported.
//
// Memory holds one chunk of rows and one chunk of the file at a time.

import { z } from "zod";
import {
  addSum,
  CheckpointCorruptError,
  chunkBytes,
  type DiskFile,
  denseHeaderBytes,
  densePart,
  dynamicDigest,
  encodeRows,
  endOf,
  firstPage,
  hashOf,
  idLeavesOfPart,
  idsOfPart,
  idsPartNameOf,
  joinIds,
  leavesOfSums,
  modelDigest,
  needState,
  type OpenCheckpoint,
  type Progress,
  paddedBytes,
  pageBytes,
  partNameOf,
  quantaOf,
  type RowRecords,
  rowHashing,
  rowsOfTable,
  type Section,
  type StoredTable,
  sectionSchema,
  type TableProof,
  type TableSpec,
  tableDigest,
  tableSchema,
  type Unfinished,
} from "../../../internal.ts";
import type { ExportedModel } from "./exported-model.ts";
import { markBytes } from "./file-pieces.ts";
import { narrowed, regrouped } from "./narrowed-rows.ts";

/** The resume mark: finished sections, and the written part of the next one. */
export const osirisMark = z.object({
  sections: z.array(sectionSchema),
  tables: z.array(tableSchema),
  open: z
    .object({
      /** Bytes of the section, and the hashes of its whole chunks. */
      bytes: z.int().nonnegative(),
      chunks: z.array(z.string()),
      /** The last row written, the number of rows, and the sums of their hashes. */
      after: z.int(),
      rows: z.int().nonnegative(),
      sums: z.array(z.int()),
      storedSums: z.array(z.int()),
    })
    .optional(),
});
type OsirisMark = z.output<typeof osirisMark>;

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
  const isWhole = withOptimizer || job.optimizer.sparse.ema !== undefined;
  const done: OsirisMark = { sections: [], tables: [], ...last };
  const { sections } = done;
  for (const { stored } of tables) progress.expect(stored.bytes);
  if (last === undefined) file.write(firstPage(), 0);
  const next = () => endOfSections(sections);

  const dense = store.readWholePart(manifest, densePart);
  const denseLeaf = hashOf(dense.subarray(denseHeaderBytes));
  const small = (name: string, bytes: Uint8Array) => {
    if (sections.some((one) => one.name === name)) return;
    const writer = new SectionWriter(file, name, next());
    writer.write(bytes);
    sections.push(writer.finish());
  };
  small(densePart, dense);
  const idLeaves = specs.map((spec, table): string[] | undefined => {
    if (spec.dynamic === undefined) return undefined;
    const parts = manifest.parts.filter(({ name }) => idsOfPart(name, specs)?.table === table);
    const own = parts.map(({ name }) => store.readWholePart(manifest, name));
    const name = idsPartNameOf({ table, firstBlock: 0, blocks: spec.rowBlocks }, specs);
    const joined = joinIds(own, name);
    small(name, joined);
    return idLeavesOfPart(joined, name);
  });
  const begun = done.tables.length;
  for (const { stored } of tables.slice(0, begun)) progress.skip(stored.bytes);
  for (const { stored } of tables.slice(begun)) {
    const isNext = stored.table === begun;
    const proof = await writeTable(
      { unfinished, done, everyBytes, open: isNext ? last?.open : undefined },
      { checkpoint, stored, isWhole: isWhole || stored.state.perElement === 0 },
      progress,
    );
    done.tables.push(proof);
  }
  const digests = done.tables.map(({ digest }, table) => {
    const own = idLeaves[table];
    return own === undefined ? digest : dynamicDigest(digest, own);
  });
  const digest = modelDigest(denseLeaf, digests);
  const isExact = job.checkpoint.bits === 32;
  if (isExact && digest !== manifest.modelDigest) {
    const reason = `its parts have the digest sha256:${digest}, expected sha256:${manifest.modelDigest}`;
    throw new CheckpointCorruptError(store.directory, reason);
  }
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const footer = {
    jobIdentity: manifest.jobIdentity,
    job: store.jobText,
    manifest: text(store.manifestText(manifest)),
    ...{ digest, sections, tables: done.tables },
    ...(calibration && { calibration }),
  };
  file.write(endOf(footer, next()), next());
}

/** Offset of the next section. */
function endOfSections(sections: readonly Section[]): number {
  const last = sections.at(-1);
  return last === undefined ? pageBytes : last.first + paddedBytes(last.bytes);
}

/** Writes the rows of a table as a section. Returns their number and digests. */
async function writeTable(
  to: {
    readonly unfinished: Unfinished<OsirisMark>;
    readonly done: OsirisMark;
    readonly everyBytes: number;
    readonly open: OsirisMark["open"];
  },
  from: { checkpoint: OpenCheckpoint; stored: StoredTable; isWhole: boolean },
  progress: Progress,
): Promise<TableProof> {
  const { unfinished, done, everyBytes, open } = to;
  const { stored, isWhole } = from;
  const { spec, state } = stored;
  const kept = isWhole ? state : { perElement: 0, perRow: state.perRow };
  const whole = createTotal(spec, state, open?.sums);
  const own = isWhole ? whole : createTotal(spec, kept, open?.storedSums);
  const name = nameOf(stored);
  const writer = new SectionWriter(unfinished.file, name, endOfSections(done.sections), open);
  let rows = open?.rows ?? 0;
  let marked = writer.bytes;
  const after = open?.after ?? -1;

  /** The remaining rows, hashed on the way. Records a mark between chunks, at intervals. */
  async function* hashed(): AsyncGenerator<RowRecords> {
    const source = rowsOfTable(from.checkpoint, stored, progress);
    let last = after;
    for await (const chunk of regrouped(source, after)) {
      if (rows > 0 && writer.bytes - marked >= everyBytes) {
        writer.flush();
        const { bytes, chunks } = writer;
        const sums = [...whole.sums];
        const at = { bytes, chunks: [...chunks], after: last, rows, sums };
        await unfinished.save({ ...done, open: { ...at, storedSums: [...own.sums] } });
        marked = bytes;
      }
      whole.add(chunk);
      const records = isWhole ? chunk : narrowed(chunk, spec.dim, state);
      if (own !== whole) own.add(records);
      rows += chunk.rows.length;
      last = chunk.rows.at(-1) ?? last;
      yield records;
    }
  }
  const width = kept.perElement * spec.dim + kept.perRow;
  let isHeader = open !== undefined; // A resumed file has the header already.
  for await (const piece of encodeRows(spec.dim, width, hashed(), spec.precision)) {
    if (!isHeader) writer.write(piece);
    isHeader = false;
  }
  done.sections.push(writer.finish());
  const leftOut = isWhole ? 0 : state.perElement;
  const stated = from.checkpoint.store.statedDigests?.get(stored.table);
  const digest = stated ?? whole.digest();
  return { rows, leftOut, digest, stored: own.digest() };
}

function nameOf({ table, spec }: StoredTable): string {
  const { rowBlocks: blocks, dim } = spec;
  const specs = Array.from({ length: table + 1 }, () => spec);
  return partNameOf(
    { table, firstBlock: 0, blocks, firstQuantum: 0, quanta: quantaOf(dim) },
    specs,
  );
}

/** Accumulates the hashes of a table's rows, from which it computes the table's digest. */
function createTotal(
  { dim, rowBlocks: blocks }: TableSpec,
  state: StoredTable["state"],
  begun: readonly number[] = [0, 0],
) {
  const tile = { firstBlock: 0, blocks, firstQuantum: 0, quanta: quantaOf(dim) };
  const hashing = rowHashing({ ...tile, columns: dim }, dim, state);
  const sums = Uint32Array.from(begun);
  return {
    sums,
    add(records: RowRecords) {
      for (let i = 0; i < records.rows.length; i++) addSum(sums, hashing.of(records, i));
    },
    digest: () => tableDigest([{ ...tile, leaves: leavesOfSums(sums) }]),
  };
}

/** Writes a section chunk by chunk, from its first byte or from a resume mark. */
class SectionWriter {
  readonly chunks: string[];
  readonly #file: DiskFile;
  readonly #name: string;
  readonly #first: number;
  readonly #chunk = new Uint8Array(chunkBytes);
  #filled = 0;

  constructor(file: DiskFile, name: string, first: number, open?: OsirisMark["open"]) {
    this.#file = file;
    this.#name = name;
    this.#first = first;
    this.chunks = [...(open?.chunks ?? [])];
    this.#filled = (open?.bytes ?? 0) - this.chunks.length * chunkBytes;
    if (this.#filled > 0) file.read(this.#chunk.subarray(0, this.#filled), this.#at());
  }

  /** Bytes of the section so far. */
  get bytes(): number {
    return this.chunks.length * chunkBytes + this.#filled;
  }

  write(bytes: Uint8Array): void {
    for (let from = 0; from < bytes.length; ) {
      const piece = bytes.subarray(from, from + chunkBytes - this.#filled);
      this.#chunk.set(piece, this.#filled);
      this.#filled += piece.length;
      from += piece.length;
      if (this.#filled === chunkBytes) this.#end(chunkBytes);
    }
  }

  /** Writes the unfinished chunk, so that a mark can follow; the chunk stays open. */
  flush(): void {
    this.#file.write(this.#chunk.subarray(0, this.#filled), this.#at());
  }

  /** Pads the last page with zeros and returns the section. */
  finish(): Section {
    const { bytes } = this;
    if (this.#filled > 0) {
      const padded = paddedBytes(this.#filled);
      this.#chunk.fill(0, this.#filled, padded);
      this.#end(padded);
    }
    return { name: this.#name, first: this.#first, bytes, chunks: this.chunks };
  }

  #end(bytes: number): void {
    const chunk = this.#chunk.subarray(0, bytes);
    this.#file.write(chunk, this.#at());
    this.chunks.push(hashOf(chunk));
    this.#filled = 0;
  }

  #at(): number {
    return this.#first + this.chunks.length * chunkBytes;
  }
}
