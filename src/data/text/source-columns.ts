// Builds the input columns of transforms from text, row by row.
//
//   numbers   the field as a number; empty: missing
//   lists     the parts between separators, each a number
//   ids       the parts, each a 64-bit integer, followed by a weight if the input has weights
//   texts     the parts unchanged, one byte per character
//
// Empty parts are left out, as in a bag.

import type { Source } from "../transforms/plan.ts";
import { IdBuilder, type TransformColumn } from "../transforms/values.ts";
import { type LineFault, show } from "./faults.ts";
import { decimal } from "./line-decoder.ts";

/** Builds one column, row by row. */
interface SourceBuilder {
  /** Adds a row of these parts; undefined adds a row without a value. Returns its fault, if any. */
  add(parts: readonly string[] | undefined): LineFault | undefined;
  column(): TransformColumn;
}

/** Builds all input columns of transforms, row by row. */
export class SourceColumns {
  readonly #sources: readonly Source[];
  readonly #builders: readonly SourceBuilder[];

  constructor(sources: readonly Source[], rows: number) {
    this.#sources = sources;
    this.#builders = sources.map((source) => builderOf(source, rows));
  }

  /**
   * Adds a row. `fieldOf` returns the field of a source, or a list of its parts; left undefined,
   * the row has no values. Returns the first fault; faulty values are missing from their columns.
   */
  add(
    fieldOf: ((source: number) => string | readonly string[]) | undefined,
  ): LineFault | undefined {
    let first: LineFault | undefined;
    for (const [i, builder] of this.#builders.entries()) {
      const value = fieldOf?.(i);
      const separator = this.#sources[i]?.separator;
      const parts =
        typeof value === "string" && separator !== undefined ? value.split(separator) : value;
      const fault = builder.add(typeof parts === "string" ? [parts] : parts);
      first ??= fault;
    }
    return first;
  }

  /** The columns, in the order of the sources. */
  columns(): TransformColumn[] {
    return this.#builders.map((builder) => builder.column());
  }
}

function builderOf(source: Source, rows: number): SourceBuilder {
  switch (source.form) {
    case "numbers":
      return numbersOf(source, rows);
    case "lists":
      return listsOf(source, rows);
    case "ids":
      return idsOf(source, rows);
    case "texts":
      return textsOf(source, rows);
    default:
      return source.form satisfies never;
  }
}

function noValue({ column }: Source, wanted: string, text: string): LineFault {
  return {
    kind: `expected \`${column}\`, which a transform reads, to be ${wanted}`,
    got: show(text),
  };
}

function numbersOf(source: Source, rows: number): SourceBuilder {
  const values = new Float64Array(rows).fill(Number.NaN);
  let row = 0;
  return {
    add(parts = []) {
      const [text = ""] = parts;
      const value = text === "" ? undefined : decimal(text);
      if (parts.length > 1) return noValue(source, "one number", parts.join());
      values[row++] = value ?? Number.NaN;
      return text === "" || value !== undefined ? undefined : noValue(source, "a number", text);
    },
    column: () => ({ form: "numbers", values }),
  };
}

function listsOf(source: Source, rows: number): SourceBuilder {
  const offsets = new Int32Array(rows + 1);
  const values: number[] = [];
  let row = 0;
  return {
    add(parts = []) {
      let fault: LineFault | undefined;
      for (const text of parts) {
        const value = text === "" ? undefined : decimal(text);
        if (value !== undefined) values.push(value);
        else if (text !== "") fault ??= noValue(source, "a list of numbers", text);
      }
      offsets[++row] = values.length;
      return fault;
    },
    column: () => ({ form: "lists", offsets, values: Float64Array.from(values) }),
  };
}

/** Integers of up to 15 digits are exact as numbers; longer ones are parsed as bigint. */
const plainInteger = /^[+-]?\d{1,15}(\.0*)?$/;
const wideInteger = /^([+-]?\d{1,20})(\.0*)?$/;

function idsOf(source: Source, rows: number): SourceBuilder {
  const { weightSeparator } = source;
  const builder = new IdBuilder(rows, weightSeparator !== undefined);
  const addOne = (entry: string): LineFault | undefined => {
    const [text, weight] = weightSeparator === undefined ? [entry, 1] : cut(entry, weightSeparator);
    if (weight === undefined) {
      return noValue(source, `an id, \`${weightSeparator}\` and a number`, entry);
    }
    if (plainInteger.test(text)) {
      const id = Number(text);
      builder.push(id, Math.floor(id / 0x1_0000_0000), weight);
      return undefined;
    }
    const [, digits] = wideInteger.exec(text) ?? [];
    const id = digits === undefined ? undefined : BigInt(digits.replace("+", ""));
    if (id === undefined || BigInt.asIntN(64, id) !== id) {
      return noValue(source, "an integer of 64 bits", text);
    }
    builder.push(Number(BigInt.asIntN(32, id)), Number(id >> 32n), weight);
    return undefined;
  };
  return {
    add(parts = []) {
      let fault: LineFault | undefined;
      for (const text of parts) if (text !== "") fault ??= addOne(text);
      builder.endRow();
      return fault;
    },
    column: () => builder.column(),
  };
}

/** Splits an entry at its last separator into the id or text, and the weight. */
function cut(entry: string, separator: string): [string, number | undefined] {
  const at = entry.lastIndexOf(separator);
  return [entry.slice(0, Math.max(at, 0)), at > 0 ? decimal(entry.slice(at + 1)) : undefined];
}

function textsOf(source: Source, rows: number): SourceBuilder {
  const { weightSeparator } = source;
  const offsets = new Int32Array(rows + 1);
  const codes: number[] = [];
  const weights: number[] = [];
  const dictionary: string[] = [];
  const known = new Map<string, number>();
  let row = 0;
  const addOne = (entry: string): LineFault | undefined => {
    const [text, weight] = weightSeparator === undefined ? [entry, 1] : cut(entry, weightSeparator);
    if (weight === undefined) {
      return noValue(source, `a text, \`${weightSeparator}\` and a number`, entry);
    }
    const code = known.get(text) ?? dictionary.push(text) - 1;
    known.set(text, code);
    codes.push(code);
    weights.push(weight);
    return undefined;
  };
  return {
    add(parts = []) {
      let fault: LineFault | undefined;
      for (const text of parts) if (text !== "") fault ??= addOne(text);
      offsets[++row] = codes.length;
      return fault;
    },
    column: () => ({
      form: "texts",
      offsets,
      codes: Int32Array.from(codes),
      dictionary,
      ...(weightSeparator === undefined ? {} : { weights: Float32Array.from(weights) }),
    }),
  };
}
