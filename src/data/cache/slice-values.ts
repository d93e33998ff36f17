// The values of a column for the samples of an evaluation, which is then reported by slices of
// equal value. The files are read again by the rules that made the samples, so that values and
// samples have the same order; a bad line has neither. Memory: 12 bytes per sample, and the first
// `sliceTextsMax` texts.

import { InvalidOptionError } from "../../errors/errors.ts";
import type { DiskFile } from "../../ports/disk.ts";
import { writeFiles } from "../file-samples.ts";
import type { ResolvedDataOptions, ResolvedFileOptions, TableShape } from "../options.ts";
import { factsOfAll } from "../remote/file-facts.ts";
import type { SliceColumn, SplitColumn } from "../split-keys.ts";
import { decodeText, named } from "../text/faults.ts";
import { cacheShapeOf } from "./cache-key.ts";
import { CacheWriter } from "./cache-writer.ts";

/** The values of a slice column, by sample. */
export interface SliceValues {
  readonly column: string;
  /**
   * (samples): index of each sample's value in `texts`; `texts.length` if the value is not in it.
   */
  readonly places: Uint32Array;
  /** The named values, in order of first occurrence; null stands for a missing value. */
  readonly texts: readonly (string | null)[];
}

/**
 * Reads the value of a column for each of the `samples` samples. `keptBy`: the column that splits
 * the data; lines in which it is bad are not samples.
 * @throws InvalidOptionError if the files lack the column, their good lines do not match the
 * samples, or the data are generated
 */
export async function readSliceValues(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  column: string,
  samples: number,
  keptBy?: SplitColumn,
): Promise<SliceValues> {
  if (options.kind === "synthetic") {
    const message =
      "`by` names a column of files, and the data of this job are generated: name files to " +
      "evaluate on";
    throw new InvalidOptionError("by", message);
  }
  const own = await keysOf(options, tables, { kind: "slice", column });
  const split = keptBy && ({ kind: "slice", column: keptBy.column, keptBy } as const);
  const kept = split && (await keysOf(options, tables, split)).values;
  const values = kept === undefined ? own.values : own.values.filter((_, i) => kept[i] === 1);
  if (values.length !== samples) {
    const message =
      `Cannot cut the evaluation into slices of \`${column}\`: ${named(options.paths)} has ` +
      `${values.length} good lines with it, and ${samples} samples were evaluated; name a column ` +
      "with one value a line, and do not change the files meanwhile";
    throw new InvalidOptionError("by", message);
  }
  const { texts = [] } = own;
  const places = Uint32Array.from(values, (value) => Math.min(value, texts.length));
  return { column, places, texts: texts.map((text) => (text === "" ? null : decodeText(text))) };
}

async function keysOf(
  options: ResolvedFileOptions,
  tables: readonly TableShape[],
  key: SliceColumn,
) {
  const facts = await factsOfAll(options.paths);
  const writer = new CacheWriter(nowhere, cacheShapeOf(options, tables), true);
  const { keys } = await writeFiles(writer, options, tables, () => {}, facts, key);
  return keys ?? { values: new Float64Array(0), texts: [] };
}

/**
 * A file that is never written: an index writer writes only when it is finished, and this one never
 * is.
 */
const nowhere: DiskFile = {
  path: "slices",
  write() {},
  read: () => 0,
  readLater: async () => 0,
  size: () => 0,
  truncate() {},
  sync() {},
  async synced() {},
  close() {},
};
