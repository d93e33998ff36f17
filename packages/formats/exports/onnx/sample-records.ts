// Random records for test vectors. They are drawn from the column definitions of a job, because its
// data may be unavailable: numbers, ids, texts and lists that the columns' rules accept, with some
// values missing.

import {
  columnsOf,
  featuresOf,
  type JobSpec,
  planOf,
  RandomStream,
  type RecordValue,
  readVocabulary,
  type SampleRecord,
  type Source,
  shapesOf,
  type Transform,
  transformsOf,
} from "../../../../internal.ts";

type Field = ReturnType<typeof columnsOf>["categorical"][number];

/**
 * An endless sequence of records, the same for every call with one job. `ids`: for each table, some
 * dynamic ids that have a row; undefined: the table has no dynamic ids.
 * @throws InputUnusableError where a vocabulary cannot be read
 */
export function* drawnRecords(
  { data, model }: Pick<JobSpec, "data" | "model">,
  ids: readonly (readonly bigint[] | undefined)[],
): Generator<SampleRecord, never, undefined> {
  const stream = new RandomStream(24, 1, 0);
  const draws = new Map<string, () => SampleRecord[string]>();
  const { dense, categorical } = columnsOf(data, shapesOf(model));
  // Each column is missing in one of eight records.
  let record = 0;
  const isMissing = (missing: unknown, column: number) =>
    missing !== "reject" && (record + column) % 8 === 7;
  for (const { name, at, isInteger, missing, isMade } of dense) {
    if (isMade === true) continue;
    draws.set(name, () => (isMissing(missing, at) ? null : numberOf(stream, isInteger)));
  }
  const features = featuresOf(model);
  for (const [i, field] of categorical.entries()) {
    if (field.isMade === true) continue;
    const known = ids[features[i]?.table ?? -1];
    const entry = () => weightedEntry(stream, idOf(stream, field, known), field.weightSeparator);
    const isBag =
      data.kind === "synthetic" || field.separator !== undefined || field.list !== undefined;
    draws.set(field.name, () => {
      if (isMissing(field.missing, i + 3)) return null;
      return isBag ? Array.from({ length: 1 + stream.below(3) }, entry) : entry();
    });
  }
  const transforms = transformsOf(data) ?? [];
  for (const source of planOf(transforms).sources) {
    const { column, list, separator } = source;
    if (draws.has(column)) continue;
    const words = wordsOf(transforms, column);
    const entry = () => sourceEntry(stream, source, words);
    const isBag = list !== undefined || separator !== undefined;
    const at = draws.size;
    draws.set(column, () => {
      if (isMissing(undefined, at)) return null;
      return isBag ? Array.from({ length: 1 + stream.below(3) }, entry) : entry();
    });
  }
  for (; ; record++) yield Object.fromEntries(Array.from(draws, ([name, draw]) => [name, draw()]));
}

function numberOf(stream: RandomStream, isInteger: boolean): number {
  return isInteger ? stream.below(100) : Math.round(1000 * stream.normal()) / 1000;
}

function idOf(stream: RandomStream, field: Field, known: readonly bigint[] | undefined): string {
  const { ids, rows, offset, beyond } = field;
  if (ids === "hash") return `text ${stream.below(1000)}`;
  const drawn = BigInt(stream.below(rows) + offset);
  if (known !== undefined) {
    const knownId = known[stream.below(known.length + 1)];
    return String(knownId === undefined ? drawn : knownId + BigInt(offset));
  }
  const isBeyond = beyond !== "reject" && stream.below(4) === 0;
  return String(isBeyond ? drawn + BigInt(rows) : drawn);
}

/** An id as text, with a weight if the feature is weighted. */
function weightedEntry(stream: RandomStream, id: string, separator: string | undefined): string {
  return separator === undefined ? id : `${id}${separator}${(1 + stream.below(8)) / 4}`;
}

function sourceEntry(
  stream: RandomStream,
  { form, list, weightSeparator }: Source,
  words: readonly string[],
): RecordValue {
  if (form === "numbers" || form === "lists") return numberOf(stream, false);
  const separator = list === "weighted" ? ":" : weightSeparator;
  const word = words[stream.below(words.length + 1)];
  const other = form === "texts" ? `text ${stream.below(1000)}` : String(stream.below(1000));
  return weightedEntry(stream, word ?? other, separator);
}

/** Some entries of a column's vocabularies. */
function wordsOf(transforms: readonly Transform[], column: string): string[] {
  return transforms.flatMap((transform) => {
    if (transform.op !== "mapId" || transform.input.column !== column) return [];
    const vocabulary = readVocabulary(transform);
    if (vocabulary.form === "pairs") return Array.from(vocabulary.keys.subarray(0, 8), String);
    const texts = [...vocabulary.places.keys()].slice(0, 8);
    return texts.map((text) => Buffer.from(text, "latin1").toString("utf8"));
  });
}
