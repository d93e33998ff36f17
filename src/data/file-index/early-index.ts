// The early index, with which a run begins while its files are still being indexed. It has the
// numbers of samples and blocks of each file, as the Parquet footers prove them
// (parquet/proven-rows.ts), and the name of each file's index, which a reader opens once it exists.
// Order and splits equal those of the complete index. If a footer proves too little, there is no
// early index, and the run waits for the complete one.

import { createHash } from "node:crypto";
import { join } from "node:path";
import { InputUnusableError } from "../../errors/errors.ts";
import { cacheSuffix, freeName } from "../cache/cache-directory.ts";
import {
  blockSamples,
  type CacheMeta,
  earlyVersion,
  headerBytes,
  onDisk,
  sampleHeadWords,
} from "../cache/cache-format.ts";
import { writeFrame } from "../cache/cache-frame.ts";
import { cacheKey, cacheShapeOf } from "../cache/cache-key.ts";
import type { CacheShape } from "../cache/cache-writer.ts";
import { pieceNumbers } from "../cache/file-index-format.ts";
import { mergedStarts, pieceSamplesMin } from "../cache/pieces.ts";
import type { SampleNumbers } from "../dataset.ts";
import { type ProvenGroup, provenRows } from "../parquet/proven-rows.ts";
import type { FileFacts } from "../remote/file-facts.ts";
import { changed } from "../remote/web-requests.ts";
import { targetWords } from "../targets.ts";
import { type IndexedData, nameOf } from "./index-file.ts";
import { joined, sourceOf, splitBytesMax } from "./index-totals.ts";

/** An early index, as the footers prove it. */
export interface EarlyIndex {
  readonly path: string;
  readonly meta: CacheMeta;
  readonly starts: SampleNumbers;
  /** Upper bound of the mean ids of a bag, for each feature. */
  readonly idsMean: readonly number[];
}

/** Number of files whose Parquet footers are read concurrently. */
const askedAtOnce = 16;

const earlySuffix = `.early.index${cacheSuffix}`;

/** Whether the file at a path is an early index. */
export function isEarlyIndex(path: string): boolean {
  return path.endsWith(earlySuffix);
}

export function earlyPathOf(
  { options, tables }: Pick<IndexedData, "options" | "tables">,
  facts: readonly FileFacts[],
): string {
  const key = cacheKey(options, tables, undefined, facts);
  return join(options.cache, `${options.kind}-${key}${earlySuffix}`);
}

/**
 * Reads the footers and writes the early index. `at`: its path, by default `earlyPathOf` the data.
 * Undefined: the footers do not prove the samples. @throws InputUnusableError if a file cannot be
 * read
 */
export async function earlyIndexOf(
  data: IndexedData,
  facts: readonly FileFacts[],
  at?: string,
): Promise<EarlyIndex | undefined> {
  const { options, tables, disk } = data;
  if (options.kind !== "parquet" || data.key !== undefined || options.damagedMax > 0) {
    return undefined;
  }
  const totals = new EarlyTotals(cacheShapeOf(options, tables));
  for (let first = 0; first < facts.length; first += askedAtOnce) {
    const some = facts.slice(first, first + askedAtOnce);
    const found = await Promise.all(some.map((own, i) => provenIn(data, own, first + i)));
    for (const one of found) {
      if (one === undefined) return undefined;
      totals.add(one);
    }
  }
  const index = totals.index(data, facts);
  if (index === undefined) return undefined;
  const { path = index.path, meta, starts } = { ...index, path: at };
  const building = freeName(path, disk);
  onDisk("make", options.cache, () => disk.makeDirectory(options.cache));
  const file = onDisk("make", building, () => disk.open(building, "write"));
  writeFrame(file, headerBytes, new Uint32Array(starts.buffer, 0, 2 * starts.length), meta);
  onDisk("sync", building, () => file.sync());
  file.close();
  onDisk("rename", building, () => disk.rename(building, path));
  return { ...index, path };
}

/** The proven row groups of a file. */
interface ProvenFile {
  readonly groups: readonly ProvenGroup[];
  /** SHA-256 of the footer, hex. */
  readonly sha256: string;
}

/** Reads the footer of a file; undefined if it does not prove all samples. */
async function provenIn(
  { options, tables }: IndexedData,
  facts: FileFacts,
  place: number,
): Promise<ProvenFile | undefined> {
  if (options.kind !== "parquet") return undefined;
  const { openParquet } = await import("../parquet/open-columns.ts");
  const file = await openParquet(options.paths[place] ?? "", options, tables);
  try {
    const { path, size, tag } = file;
    if (size !== facts.bytes || (tag !== undefined && tag !== facts.version)) throw changed(path);
    const groups = provenRows(file)?.filter(({ rows }) => rows > 0);
    const sha256 = createHash("sha256").update(file.footer.bytes).digest("hex");
    return groups && { groups, sha256 };
  } finally {
    await file.close();
  }
}

/** Sums over the files, in their order; memory: 32 bytes for each row group. */
class EarlyTotals {
  readonly #shape: CacheShape;
  /** Words of an id of each feature. */
  readonly #idWords: readonly number[];
  readonly #sums: Float64Array;
  readonly #most: Float64Array;
  readonly #digest = createHash("sha256");
  /** For each file (row groups, 4), with upper bounds of words: see `FileIndex.pieces`. */
  readonly #pieces: Float64Array[] = [];
  readonly #counts: number[] = [];
  readonly #blocks: number[] = [];
  #label: readonly [number, number] = [Infinity, -Infinity];
  #isExact = true;

  constructor(shape: CacheShape) {
    this.#shape = shape;
    this.#idWords = shape.wide.map((isWide) => (isWide ? 2 : 1));
    this.#sums = new Float64Array(shape.features);
    this.#most = new Float64Array(shape.features);
  }

  add({ groups, sha256 }: ProvenFile): void {
    this.#digest.update(sha256);
    const pieces = new Float64Array(pieceNumbers * groups.length);
    let [samples, blocks] = [0, 0];
    for (const [i, group] of groups.entries()) {
      const { rows, ids, label } = group;
      const first = this.#wordsOf(group, Math.min(rows, blockSamples));
      pieces.set([i, rows, this.#wordsOf(group, rows), first], pieceNumbers * i);
      samples += rows;
      blocks += Math.ceil(rows / blockSamples);
      for (const [feature, { sum, most, isExact }] of ids.entries()) {
        this.#sums[feature] = (this.#sums[feature] ?? 0) + sum;
        this.#most[feature] = Math.max(this.#most[feature] ?? 0, most);
        this.#isExact &&= isExact;
      }
      this.#label = [Math.min(this.#label[0], label[0]), Math.max(this.#label[1], label[1])];
    }
    this.#pieces.push(pieces);
    this.#counts.push(samples);
    this.#blocks.push(blocks);
  }

  /** Upper bound of the words of `rows` samples of a row group. */
  #wordsOf({ ids }: ProvenGroup, rows: number): number {
    const head = rows * (1 + sampleHeadWords(this.#shape)) + Math.ceil(rows / blockSamples);
    return ids.reduce((sum, { most, sum: all }, i) => {
      return sum + (this.#idWords[i] ?? 1) * Math.min(all, most * rows);
    }, head);
  }

  index(data: IndexedData, facts: readonly FileFacts[]): EarlyIndex | undefined {
    const { dense, features, wide, weighted, targets } = this.#shape;
    const samples = this.#counts.reduce((sum, one) => sum + one, 0);
    const [least, most] = this.#label;
    // Data of one class, and data without samples, are refused with counts that only rows have.
    if (samples === 0 || least === most || most <= 0 || weighted.includes(true)) return undefined;
    const sums = Array.from(this.#sums);
    const shape = { samples, dense, features, wide, weighted: wide.map(() => false) };
    const own = { ...shape, ...(targets && targetWords(targets) > 1 && { targets }) };
    const rule = { ...own, statistics: sums.map((idsSum) => ({ idsSum })) };
    // Pieces are merged up to a share of the samples, or to less if they have many words. The true
    // number of words has no effect if even its upper bound does not reduce the share.
    const share = pieceSamplesMin({ ...own, statistics: undefined });
    if (!this.#isExact && pieceSamplesMin(rule) < share) return undefined;
    const pieces = joined(this.#pieces);
    const rows = Float64Array.from({ length: pieces.length / pieceNumbers }, (_, i) => {
      return pieces[pieceNumbers * i + 1] ?? 0;
    });
    const starts = mergedStarts(rows, rule);
    const meta: CacheMeta = {
      ...own,
      idsMax: Array.from(this.#most),
      positives: 0,
      quarantine: { count: 0, kept: [], reasons: [] },
      digest: this.#digest.digest("hex"),
      sources: facts.map((one) => sourceOf(one, undefined)),
      files: {
        names: facts.map((one, place) => nameOf(data, { facts: one, place })),
        samples: this.#counts,
        blocks: this.#blocks,
        words: [],
        splitBytesMax: splitBytesMax(pieces, starts),
      },
      version: earlyVersion,
      isIndex: true,
    };
    const idsMean = sums.map((sum) => sum / samples);
    return { path: earlyPathOf(data, facts), meta, starts, idsMean };
  }
}

/** @throws InputUnusableError if a file has another number of samples than its footer proved */
export function checkEarly(early: CacheMeta, whole: CacheMeta): void {
  const then = early.files?.samples ?? [];
  const place = (whole.files?.samples ?? []).findIndex((samples, i) => samples !== then[i]);
  if (place < 0) return;
  const path = whole.sources?.[place]?.path ?? "";
  const message =
    `The footer of ${path} promises ${then[place]} good rows, but it has ` +
    `${whole.files?.samples[place]}: its statistics are wrong. Train it as a new run, which begins ` +
    "when all files are indexed, or write the file again";
  throw new InputUnusableError(path, message);
}
