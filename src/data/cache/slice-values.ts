// The texts of a column beside the samples of an evaluation, by which it is cut into slices. The
// files are read once more, by the rules by which they become samples, so that the texts and the
// samples of a cache have one order: bad lines have none of both. Memory: 12 bytes a sample, and
// the first `sliceTextsMax` texts.

import { InvalidOptionError } from "../../errors/errors.ts";
import type { DiskFile } from "../../ports/disk.ts";
import type { ResolvedDataOptions, ResolvedFileOptions, TableShape } from "../options.ts";
import { factsOfAll } from "../remote/file-facts.ts";
import type { SliceColumn, SplitColumn } from "../split-keys.ts";
import { decodeText, named } from "../text/faults.ts";
import { CacheWriter } from "./cache-writer.ts";
import { cacheShapeOf, writeFiles } from "./prepare-cache.ts";

/** The values of a column. */
export interface SliceValues {
  readonly column: string;
  /** (samples): the place of each sample's value in `texts`; `texts.length`: it has no name. */
  readonly places: Uint32Array;
  /** The values that have a name, in the order of the data; null: a missing value. */
  readonly texts: readonly (string | null)[];
}

/**
 * The values of a column of the files for each of their `samples` samples. `keptBy`: the column
 * that splits the data, whose bad lines are no samples.
 * @throws InvalidOptionError where the files have no such column, its values cannot be told, or
 * data are generated
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
      "with one value a line, and let nobody write the files meanwhile";
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

/** The writer of an index writes nothing before it is finished, and this one never is. */
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
