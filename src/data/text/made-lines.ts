// Decodes lines of text with transforms: a chunk of lines becomes columns, transforms compute
// further columns, and each line takes its features from both.

import assert from "node:assert/strict";
import { transformsOf } from "../data-kinds.ts";
import type { ResolvedDataOptions } from "../options.ts";
import type { Sample } from "../sample.ts";
import {
  type CompiledTransforms,
  compileTransforms,
  type MadeColumns,
} from "../transforms/compile.ts";
import type { Columns } from "./columns.ts";
import type { LineFault } from "./faults.ts";
import { splitAsJson } from "./json-columns.ts";
import { decodeFeatures, decodeFields, fieldsOf } from "./line-decoder.ts";
import { type BagReaders, MadeFeatures } from "./made-features.ts";
import { SourceColumns } from "./source-columns.ts";
import type { KeyCollector } from "./split-keys.ts";

/** The compiled transforms of the data, if any. @throws InputUnusableError */
export function lineTransforms(options: ResolvedDataOptions): CompiledTransforms | undefined {
  const transforms = transformsOf(options);
  return transforms && compileTransforms(transforms);
}

/** Position of lines in the data, which determines which of them sampling keeps. */
export interface LinePlace {
  /** Index of the file among the files of the data. */
  readonly place: number;
  /** Number of the first line in its file. */
  readonly firstLine: number;
  /** Number of leading lines up to and including the header, which are not rows. @default 0 */
  readonly header?: number | undefined;
}

/** A chunk of lines, and the outputs of transforms for them. */
export class MadeLines {
  readonly #columns: Columns;
  /**
   * The fields or the fault of each line; undefined for a line that is empty or too long, or
   * belongs to the header.
   */
  readonly #fields: readonly (readonly string[] | LineFault | undefined)[];
  readonly #features: MadeFeatures;
  /** Outputs of the transforms, for display. */
  readonly made: MadeColumns;

  /** `lines`: undefined for a line that is too long. */
  constructor(
    transforms: CompiledTransforms,
    columns: Columns,
    lines: readonly (string | undefined)[],
    { place, firstLine, header = 0 }: LinePlace,
    readers: BagReaders = new Map(),
  ) {
    this.#columns = columns;
    this.#fields = lines.map((line, i) =>
      i < header || line === undefined || line === "" ? undefined : fieldsOf(line, columns),
    );
    const { sources: places = [] } = columns;
    const faults = new Map<number, LineFault>();
    const isJson = columns.json !== undefined;
    const read = isJson ? transforms.sources.map(splitAsJson) : transforms.sources;
    const sources = new SourceColumns(read, lines.length);
    for (const [row, fields] of this.#fields.entries()) {
      const fault = sources.add(isWhole(fields) ? (i) => fields[places[i] ?? -1] ?? "" : undefined);
      if (fault !== undefined) faults.set(row, fault);
    }
    // Row numbers match those of a columnar file: row 0 is the line below the header, or the first
    // line of JSON.
    const rows = { rows: lines.length, place, firstRow: firstLine - (isJson ? 1 : 2) };
    this.made = transforms.run(sources.columns(), rows);
    this.#features = new MadeFeatures(this.made, faults, readers);
  }

  /** Whether sampling keeps a line. */
  isKept(index: number): boolean {
    return this.made.kept === undefined || this.made.kept[index] === 1;
  }

  /** As `decodeLine`, for the line with this index, which must not be empty. */
  decode(sample: Sample, index: number, keys?: Pick<KeyCollector, "read">): LineFault | undefined {
    const fields = this.#fieldsOf(index);
    if (!isWhole(fields)) return fields;
    return decodeFields(sample, fields, this.#columns, keys, this.#features);
  }

  /** As `decodeFeatures`, for the line with this index, which must not be empty. */
  decodeFeatures(sample: Sample, index: number): LineFault | undefined {
    const fields = this.#fieldsOf(index);
    if (!isWhole(fields)) return fields;
    return decodeFeatures(sample, fields, this.#columns, this.#features);
  }

  #fieldsOf(index: number): readonly string[] | LineFault {
    const fields = this.#fields[index];
    assert(fields !== undefined, "a line that is not empty");
    this.#features.row = index;
    return fields;
  }
}

function isWhole(fields: readonly string[] | LineFault | undefined): fields is readonly string[] {
  return Array.isArray(fields);
}
