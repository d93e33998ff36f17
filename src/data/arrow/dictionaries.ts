// The dictionaries that the wanted columns of an Arrow file use, each read when the first record
// batch needs it. In a stream, a dictionary may grow (a delta) or be replaced between two batches.

import type { RangeReader, ReadCounts } from "../tables/byte-ranges.ts";
import { TextBudget } from "../tables/memory-budget.ts";
import { columnReaders, placesOf } from "./batch-buffers.ts";
import { type ArrowIndex, bodyAt, type DictionaryPlace } from "./messages.ts";
import type { ArrowLeaf } from "./shapes.ts";
import { type ArrowDictionary, type Values, valuesOf } from "./values.ts";

/** Reads dictionaries, and caches the latest state of each dictionary id. */
export class Dictionaries {
  readonly #file: RangeReader;
  readonly #index: ArrowIndex;
  readonly #counts: ReadCounts;
  readonly #known = new Map<number, { readonly key: string; readonly own: ArrowDictionary }>();

  constructor(file: RangeReader, index: ArrowIndex, counts: ReadCounts) {
    this.#file = file;
    this.#index = index;
    this.#counts = counts;
  }

  /**
   * The dictionary of a leaf as it is at record batch `batch`; undefined, without a read, if the
   * leaf has no dictionary. `take` receives the bytes that are read. @throws CorruptFile
   */
  async of(
    leaf: ArrowLeaf,
    batch: number,
    take: (bytes: Uint8Array) => void,
  ): Promise<ArrowDictionary | undefined> {
    const { field } = leaf;
    const id = field.dictionary?.id;
    if (id === undefined) return undefined;
    const known = this.#index.dictionaries.filter((one) => {
      return one.id === id && one.batchesBefore <= batch;
    });
    const places = known.slice(
      Math.max(
        0,
        known.findLastIndex(({ isDelta }) => !isDelta),
      ),
    );
    const key = places.map(({ block }) => block.start).join();
    const before = this.#known.get(id);
    if (before?.key === key) return before.own;
    const plain = { ...leaf, field: { ...field, dictionary: undefined } };
    const parts: Values[] = [];
    for (const place of places) parts.push(await this.#read(place, plain, take));
    const own = dictionaryOf(parts);
    this.#known.set(id, { key, own });
    return own;
  }

  async #read(
    { block }: DictionaryPlace,
    leaf: ArrowLeaf,
    take: (bytes: Uint8Array) => void,
  ): Promise<Values> {
    const body = await bodyAt(this.#file, block);
    const places = placesOf([leaf.field], body.layout);
    const [read] = columnReaders(this.#file, body, [places], this.#counts);
    const [place] = places;
    if (read === undefined || place === undefined) throw new TypeError("a dictionary has a column");
    const bytes = await read(take);
    return valuesOf(place, leaf, { layout: body.layout, bytes, dictionaries: new Map() });
  }
}

/** A dictionary that consists of the values of all parts, concatenated. */
function dictionaryOf(parts: readonly Values[]): ArrowDictionary {
  const values = parts.length === 1 && parts[0] !== undefined ? parts[0] : joined(parts);
  let texts: readonly string[] | undefined;
  return {
    values,
    texts() {
      if (texts !== undefined) return texts;
      const budget = new TextBudget();
      texts = Array.from({ length: values.length }, (_, at) => {
        const text = values.isThere(at) ? values.textAt(at) : "";
        budget.take(text.length);
        return text;
      });
      return texts;
    },
  };
}

function joined(parts: readonly Values[]): Values {
  const starts: number[] = [];
  let length = 0;
  for (const part of parts) {
    starts.push(length);
    length += part.length;
  }
  const ask = <Result>(at: number, question: (part: Values, at: number) => Result): Result => {
    const which = starts.findLastIndex((start) => start <= at);
    const part = parts[which];
    if (part === undefined) throw new TypeError("a value of the dictionary");
    return question(part, at - (starts[which] ?? 0));
  };
  return {
    length,
    isThere: (at) => ask(at, (part, i) => part.isThere(i)),
    numberAt: (at) => ask(at, (part, i) => part.numberAt(i)),
    lowAt: (at) => ask(at, (part, i) => part.lowAt(i)),
    highAt: (at) => ask(at, (part, i) => part.highAt(i)),
    textAt: (at) => ask(at, (part, i) => part.textAt(i)),
  };
}
