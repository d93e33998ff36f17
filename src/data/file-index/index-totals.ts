// Combines the indexes of the files of a data set, in the order of the files: the description of
// the whole index, its splits, and its digest, which is a hash of the files' digests.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import {
  blockSamples,
  bytesOfKeys,
  type CacheMeta,
  filesVersion,
  type KeyForm,
  type SourceFile,
} from "../cache/cache-format.ts";
import { cacheShapeOf } from "../cache/cache-key.ts";
import { StatisticsCollector } from "../cache/feature-statistics.ts";
import { pieceNumbers } from "../cache/file-index-format.ts";
import { mergedStarts } from "../cache/pieces.ts";
import type { SampleNumbers } from "../dataset.ts";
import { noSamples } from "../file-samples.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import type { FileFacts } from "../remote/file-facts.ts";
import { DamageCount } from "../tables/damage.ts";
import { oneLabel, targetWords } from "../targets.ts";
import { BadLines } from "../text/faults.ts";
import type { TextFacts, TextFactsState } from "../text/text-facts.ts";
import type { FileSamples, MadeIndex } from "./index-file.ts";

/** The facts of a file that `finish` needs. */
type KeptFile = Pick<FileSamples, "samples" | "opened"> & { readonly bad: number };

export class IndexTotals {
  readonly #options: ResolvedTableOptions;
  readonly #shape: ReturnType<typeof cacheShapeOf>;
  readonly #bad: BadLines;
  readonly #damage: DamageCount;
  readonly #statistics: StatisticsCollector;
  readonly #digest = createHash("sha256");
  readonly #files: KeptFile[] = [];
  readonly #about: TextFactsState[] = [];
  readonly #names: string[] = [];
  readonly #blocks: number[] = [];
  readonly #words: number[] = [];
  readonly #keys: Float64Array[] = [];
  /** (pieces, 4) of each file. */
  readonly #pieces: Float64Array[] = [];
  #samples = 0;
  #positives = 0;
  #labelled: number[] = [];
  #labelRanges: (readonly [number, number])[] = [];
  #keyForm: KeyForm | undefined;

  constructor(options: ResolvedTableOptions, tables: readonly TableShape[]) {
    this.#options = options;
    this.#shape = cacheShapeOf(options, tables);
    this.#bad = new BadLines(options.quarantineMax);
    this.#damage = new DamageCount(options, this.#bad);
    this.#statistics = new StatisticsCollector(this.#shape.wide, this.#shape.rows);
    this.#digest.update(`files ${filesVersion}\n`);
  }

  /** Type of the keys in the first file with keys; undefined: there is no such file yet. */
  get keyForm(): KeyForm | undefined {
    return this.#keyForm;
  }

  /** Adds the next file. @throws InputUnusableError if more is damaged than the job tolerates */
  add({ name, pieces, samples: own, keys }: MadeIndex): void {
    const { samples, about, bad, opened } = own;
    this.#bad.absorb(bad);
    this.#damage.absorb(own.damage);
    this.#statistics.absorb(own.statistics);
    if (samples > 0) this.#digest.update(`${samples} ${own.digest}\n`);
    this.#files.push({ samples, opened, bad: bad.count });
    this.#about.push(about);
    this.#names.push(name);
    this.#pieces.push(pieces);
    let [blocks, words] = [0, 0];
    for (let at = 0; at < pieces.length; at += pieceNumbers) {
      blocks += Math.ceil((pieces[at + 1] ?? 0) / blockSamples);
      words += pieces[at + 2] ?? 0;
    }
    this.#blocks.push(blocks);
    this.#words.push(words);
    this.#keys.push(keys);
    this.#keyForm ??= own.keyForm;
    this.#samples += samples;
    this.#positives += own.positives;
    this.#labelled = own.labelled.map((count, i) => count + (this.#labelled[i] ?? 0));
    this.#labelRanges = own.labelRanges.map(([least, most], i) => {
      const [low = Infinity, high = -Infinity] = this.#labelRanges[i] ?? [];
      return [Math.min(low, least), Math.max(high, most)];
    });
  }

  /**
   * The description of the index, its splits, and its keys if a column splits the data. `values`:
   * the value counts of the first samples; receives the facts of all lines.
   * @throws InputUnusableError if there is no sample
   */
  finish(
    values: TextFacts,
    facts: readonly FileFacts[],
    hasKeys: boolean,
  ): CacheMeta & { readonly starts: SampleNumbers; readonly keyValues: Float64Array | undefined } {
    if (this.#samples === 0) throw noSamples(this.#options, this.#bad);
    for (const about of this.#about) values.absorb(about);
    for (const { opened, samples, bad } of this.#files) {
      if (opened !== undefined && samples === 0) values.addEmptyFile(opened.path, bad, "row");
    }
    const { dense, features, wide, weighted, targets = oneLabel } = this.#shape;
    const described = {
      samples: this.#samples,
      features,
      dense,
      wide,
      weighted: wide.map((_, feature) => weighted[feature] === true),
      idsMax: this.#statistics.idsMax,
      ...(targetWords(targets) === 1 ? {} : { targets }),
      positives: this.#positives,
      ...(this.#labelled.length > 0 && { labelled: this.#labelled }),
      ...(this.#labelRanges.length > 0 && { labelRanges: this.#labelRanges }),
      digest: this.#digest.digest("hex"),
      statistics: this.#statistics.finish(),
      quarantine: this.#bad.summary(),
      ...values.meta(),
    };
    const keyValues = hasKeys ? joined(this.#keys, this.#samples) : undefined;
    const form = this.#keyForm ?? "number";
    const { starts, bytesMax } = this.#splits(described);
    return {
      ...described,
      ...(keyValues && { keys: { form, crc: crc32(bytesOfKeys(keyValues)) } }),
      sources: facts.map((own, i) => sourceOf(own, this.#files[i])),
      files: {
        names: this.#names,
        samples: this.#files.map(({ samples }) => samples),
        blocks: this.#blocks,
        words: this.#words,
        splitBytesMax: bytesMax,
      },
      version: filesVersion,
      isIndex: true,
      starts,
      keyValues,
    };
  }

  /** The starts of the splits, and the size in memory of the largest. */
  #splits(meta: Parameters<typeof mergedStarts>[1]) {
    const pieces = joined(this.#pieces);
    const count = pieces.length / pieceNumbers;
    const samplesOf = (piece: number) => pieces[pieceNumbers * piece + 1] ?? 0;
    const counts = Float64Array.from({ length: count }, (_, i) => samplesOf(i));
    const starts = mergedStarts(counts, meta);
    return { starts, bytesMax: splitBytesMax(pieces, starts) };
  }
}

/** Size in memory of the largest split. `pieces`: (pieces, 4), as `FileIndex.pieces`. */
export function splitBytesMax(pieces: Float64Array, starts: SampleNumbers): number {
  const count = pieces.length / pieceNumbers;
  const samplesOf = (piece: number) => pieces[pieceNumbers * piece + 1] ?? 0;
  let [piece, first, bytesMax] = [0, 0, 0];
  for (const end of starts.subarray(1)) {
    let words = 0;
    // A split ends with a piece, or within the first block of a piece, which is then counted whole.
    while (piece < count && first + samplesOf(piece) <= end) {
      words += pieces[pieceNumbers * piece + 2] ?? 0;
      first += samplesOf(piece++);
    }
    if (first < end) words += pieces[pieceNumbers * piece + 3] ?? 0;
    bytesMax = Math.max(bytesMax, 4 * words);
  }
  return bytesMax;
}

/** The numbers of all parts, one after another. */
export function joined(
  parts: readonly Float64Array[],
  length: number = parts.reduce((sum, part) => sum + part.length, 0),
): Float64Array {
  const all = new Float64Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The entry of a file in the description of an index. */
export function sourceOf(
  { path, bytes, version }: FileFacts,
  file: KeptFile | undefined,
): SourceFile {
  const modifiedMs = typeof version === "number" ? version : 0; // A server gives a tag instead.
  return { path, bytes, modifiedMs, sha256: file?.opened?.sha256, samples: file?.samples };
}
