// Builds the input columns of transforms from text, row by row, and from columns of other forms.
//
//   numbers   the field as a number; empty: missing
//   lists     the parts between separators, each a number
//   ids       the parts, each a 64-bit integer, followed by a weight if the input has weights
//   texts     the parts unchanged, one byte per character
//
// Empty parts are left out, as in a bag.

import { type Column, type FieldColumn, textsAt } from "../columnar/column.ts";
import type { Source } from "../transforms/plan.ts";
import { IdBuilder, type TransformColumn } from "../transforms/values.ts";
import { type LineFault, show } from "./faults.ts";
import { splitAsJson } from "./json-lines.ts";
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

/**
 * Converts a column of `rows` rows to the form in which a transform reads it; `faults` receives the
 * first fault of each row. A column that has the form is used unchanged, unless its text would mean
 * something else: separated or empty texts, unsigned ids, missing weights.
 */
export function sourceOf(
  given: Source,
  column: Column | FieldColumn,
  rows: number,
  faults: Map<number, LineFault>,
): TransformColumn {
  const isField = column.form === "fields";
  const { offsets, weights } = isField || column.form === "numbers" ? noLists : column;
  // As in records, an id with a weight is text: the id, `:`, the weight.
  const weighted = weights === undefined ? given : { ...given, weightSeparator: ":" };
  const source = isField && column.isJson ? splitAsJson(given) : weighted;
  const isText = (isField || column.form === "texts") && source.separator !== undefined;
  if (!isField && column.form === source.form && !isText && !isOtherAsText(column, given)) {
    return column;
  }
  const columns = new SourceColumns([source], rows);
  for (let row = 0; row < rows; row++) {
    const first = offsets?.[row] ?? 0;
    const all = textsAt(column, row);
    const texts = weights ? all.map((text, i) => text && `${text}:${weights[first + i]}`) : all;
    const fault = columns.add(() => (isText ? (texts[0] ?? "") : texts));
    if (fault !== undefined && !faults.has(row)) faults.set(row, fault);
  }
  const [made] = columns.columns();
  return made as TransformColumn;
}

const noLists = { offsets: undefined, weights: undefined };

/** Whether the text of some entries means something else than the entries. */
function isOtherAsText(column: Column, { weightSeparator }: Source): boolean {
  if (column.form === "numbers") return false;
  // Also where an op would ignore it, an entry without a weight makes a bad row.
  if (column.weights?.every(Number.isFinite) === false) return true;
  if (column.form === "ids") return column.isUnsigned === true;
  const { codes, dictionary } = column;
  return weightSeparator !== undefined || codes.some((code) => dictionary[code] === "");
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
