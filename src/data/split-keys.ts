// The key column: the column that splits lines into training, validation and test, or an evaluation
// into slices; and its values.

import type { KeyForm } from "./cache/cache-format.ts";
import type { SplitSpec } from "./column-options.ts";
import { type Moment, momentOf } from "./columnar/exact-values.ts";
import { murmurHash3 } from "./murmur-hash.ts";
import { type LineFault, show } from "./text/faults.ts";

/**
 * A column that is read alongside the samples. The cache stores the keys of a `SplitColumn` only.
 */
export type KeyColumn = SplitColumn | SliceColumn;

/** The column that splits the lines. */
export type SplitColumn =
  | { readonly kind: "time"; readonly column: string }
  | { readonly kind: "hash"; readonly column: string; readonly salt: number };

/** The column whose value is the slice of each evaluated sample. Empty text is a slice, too. */
export interface SliceColumn {
  readonly kind: "slice";
  readonly column: string;
  /** If set, each key is 1 or 0: whether this split accepts the line's value of `column`. */
  readonly keptBy?: SplitColumn | undefined;
}

/** The column whose keys a cache must store for this split, if any. */
export function keyColumnOf(split: SplitSpec | undefined): SplitColumn | undefined {
  if (split === undefined || split.kind === "order") return undefined;
  const { kind, column } = split;
  return kind === "time" ? { kind, column } : { kind, column, salt: split.salt };
}

/** The option that names the column. */
export function optionOfKey({ kind }: KeyColumn): string {
  return kind === "slice" ? "by" : "evaluation.split.column";
}

/** The keys of the good lines, in order. */
export interface SplitKeys {
  readonly form: KeyForm;
  /** (samples); for texts, the index in `texts`, or `sliceTextsMax` for a text beyond the limit. */
  readonly values: Float64Array;
  /** The texts of a slice column, one byte per character, in order of first occurrence. */
  readonly texts?: readonly string[] | undefined;
}

/** Most named texts of a slice column; later texts are not named. */
export const sliceTextsMax = 0x2_0000;

/**
 * Collects the keys of lines. A column must hold only numbers or only dates, because the two have
 * no common order.
 */
export class KeyCollector {
  readonly #key: KeyColumn;
  #form: KeyForm | undefined;
  #values = new Float64Array(1024);
  #count = 0;
  #next = 0;
  /** The texts of slices, and the index of each. */
  readonly #texts = new Map<string, number>();
  /** Determines which lines the split of the data accepts. */
  readonly #keptBy: KeyCollector | undefined;

  /** `form`: that of the lines before; left out: the first line decides. */
  constructor(key: KeyColumn, form?: KeyForm) {
    this.#key = key;
    this.#form = form;
    if (key.kind === "slice" && key.keptBy) this.#keptBy = new KeyCollector(key.keptBy);
  }

  /** Reads the key of a line from its field, one byte per character. Returns its fault, if any. */
  read(text: string): LineFault | undefined {
    const { kind, column } = this.#key;
    if (kind === "slice") return this.#takeSlice(text, this.#keptBy?.read(text));
    if (text.trim() === "") return { kind: `\`${column}\`, which splits the data, is missing` };
    if (this.#key.kind === "hash") {
      this.#next = murmurHash3(text, this.#key.salt);
      this.#form = "hash";
      return undefined;
    }
    const moment = momentOf(text);
    if (moment !== undefined) return this.take(moment, text);
    const what = `expected \`${column}\`, which splits the data by ${kind}, to be`;
    return { kind: `${what} a number or an ISO date`, got: show(text) };
  }

  /** Takes a parsed key, which messages show as `text`. Returns its fault, if any. */
  take(moment: Moment, text: string): LineFault | undefined {
    const { kind, column } = this.#key;
    if (kind === "slice") return this.#takeSlice(text, this.#keptBy?.take(moment, text));
    this.#form ??= moment.form;
    if (moment.form !== this.#form) {
      const all = `a ${this.#form}, as in the first line`;
      return { kind: `expected \`${column}\` to be ${all}`, got: show(text) };
    }
    this.#next = moment.value;
    return undefined;
  }

  /** Takes a slice; any text is valid. `fault`: the fault of the line's split key. */
  #takeSlice(text: string, fault: LineFault | undefined): undefined {
    this.#form = "text";
    if (this.#keptBy !== undefined) this.#next = fault === undefined ? 1 : 0;
    else {
      const own = text.trim() === "" ? "" : text; // Blank text is a missing value.
      const known = this.#texts.get(own) ?? Math.min(this.#texts.size, sliceTextsMax);
      if (known === this.#texts.size && known < sliceTextsMax) this.#texts.set(own, known);
      this.#next = known;
    }
  }

  /** Keeps the last key that was read, because its line is good. */
  keep(): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(2 * this.#count);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#count++] = this.#next;
  }

  /** The form of the keys; undefined: no line was read. */
  get form(): KeyForm | undefined {
    return this.#form;
  }

  keys(): SplitKeys {
    const values = this.#values.slice(0, this.#count);
    const texts = this.#key.kind === "slice" ? { texts: [...this.#texts.keys()] } : {};
    return { form: this.#form ?? "number", values, ...texts };
  }
}
