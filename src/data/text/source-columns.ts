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

/** Collects the entries of one column, row by row. */
interface Entries {
  /** Appends an entry to the current row. Returns its fault, if any; it is then left out. */
  push(text: string, weight: number): LineFault | undefined;
  endRow(): void;
  column(): TransformColumn;
}

/** Builds all input columns of transforms, row by row. */
export class SourceColumns {
  readonly #sources: readonly (readonly [Source, Entries])[];

  constructor(sources: readonly Source[], rows: number) {
    this.#sources = sources.map((source) => [source, entriesOf[source.form](source, rows)]);
  }

  /**
   * Adds a row. `fieldOf` returns the field of a source, or a list of its parts; left undefined,
   * the row has no values. Returns the first fault; faulty values are missing from their columns.
   */
  add(
    fieldOf: ((source: number) => string | readonly string[]) | undefined,
  ): LineFault | undefined {
    let first: LineFault | undefined;
    for (const [i, [source, entries]] of this.#sources.entries()) {
      const value = fieldOf?.(i) ?? [];
      const { form, separator } = source;
      const whole = typeof value === "string" ? [value] : value;
      const isSplit = typeof value === "string" && separator !== undefined;
      const parts = isSplit ? value.split(separator) : whole;
      const isList = form === "numbers" && parts.length > 1;
      let fault = isList ? noValue(source, "one number", parts.join()) : undefined;
      for (const part of parts) if (part !== "") fault ??= addEntry(source, entries, part);
      entries.endRow();
      first ??= fault;
    }
    return first;
  }

  /** The columns, in the order of the sources. */
  columns(): TransformColumn[] {
    return this.#sources.map(([, entries]) => entries.column());
  }
}

/** Appends an entry, without the weight after its last separator. */
function addEntry(source: Source, entries: Entries, entry: string): LineFault | undefined {
  const { form, weightSeparator } = source;
  if (weightSeparator === undefined) return entries.push(entry, 1);
  const at = entry.lastIndexOf(weightSeparator);
  const weight = at > 0 ? decimal(entry.slice(at + 1)) : undefined;
  if (weight !== undefined) return entries.push(entry.slice(0, at), weight);
  const what = form === "texts" ? "a text" : "an id";
  return noValue(source, `${what}, \`${weightSeparator}\` and a number`, entry);
}

function noValue({ column }: Source, wanted: string, text: string): LineFault {
  return {
    kind: `expected \`${column}\`, which a transform reads, to be ${wanted}`,
    got: show(text),
  };
}

const entriesOf: { readonly [Form in Source["form"]]: (source: Source, rows: number) => Entries } =
  {
    numbers(source, rows) {
      const values = new Float64Array(rows).fill(Number.NaN);
      let row = 0;
      return {
        push(text) {
          const value = decimal(text);
          values[row] = value ?? Number.NaN;
          return value === undefined ? noValue(source, "a number", text) : undefined;
        },
        endRow() {
          row++;
        },
        column: () => ({ form: "numbers", values }),
      };
    },
    lists(source, rows) {
      const offsets = new Int32Array(rows + 1);
      const values: number[] = [];
      let row = 0;
      return {
        push(text) {
          const value = decimal(text);
          if (value === undefined) return noValue(source, "a list of numbers", text);
          values.push(value);
          return undefined;
        },
        endRow() {
          offsets[++row] = values.length;
        },
        column: () => ({ form: "lists", offsets, values: Float64Array.from(values) }),
      };
    },
    ids(source, rows) {
      const builder = new IdBuilder(rows, source.weightSeparator !== undefined);
      return {
        push(text, weight) {
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
        },
        endRow: () => builder.endRow(),
        column: () => builder.column(),
      };
    },
    texts(source, rows) {
      const offsets = new Int32Array(rows + 1);
      const codes: number[] = [];
      const weights: number[] = [];
      const known = new Map<string, number>();
      let row = 0;
      return {
        push(text, weight) {
          const code = known.get(text) ?? known.size;
          known.set(text, code);
          codes.push(code);
          weights.push(weight);
          return undefined;
        },
        endRow() {
          offsets[++row] = codes.length;
        },
        column: () => ({
          form: "texts",
          offsets,
          codes: Int32Array.from(codes),
          dictionary: [...known.keys()],
          ...(source.weightSeparator !== undefined && { weights: Float32Array.from(weights) }),
        }),
      };
    },
  };

/** Integers of up to 15 digits are exact as numbers; longer ones are parsed as bigint. */
const plainInteger = /^[+-]?\d{1,15}(\.0*)?$/;
const wideInteger = /^([+-]?\d{1,20})(\.0*)?$/;
