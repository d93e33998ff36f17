// How a first job reads each feature, so that no value is lost on the way: few ids by a vocabulary
// of their own, many by their hash, in a table with room; quantities of a large range by their
// logarithm, others standardised.
//
//   few ids, text        mapId: the line of the vocabulary's file; all others share one row behind
//   few ids, integers    the same by pairs, so that `12` and `12.0` are one id
//   many ids, text       hashed, into 10 to 20 times as many rows
//   many ids, integers   read as integers, hashed by the table where they lie beyond it
//
// A list of values that another column has one by one, as the last items of a user beside the item,
// looks up the table of that column.

import { join } from "node:path";
import { murmurHash3 } from "../../src/data/murmur-hash.ts";
import type { AssignedColumn } from "./column-roles.ts";
import type { ColumnProfile } from "./column-tally.ts";

/** Values of a column that has a vocabulary, at most. */
const vocabularyMax = 1000;
/** Rarer values share the row of those that are not in the vocabulary, and so train it. */
const countMin = 2;
/** Rows of a hashed table for each value: fewer than one value in ten then shares its row. */
const rowsForEach = 10;
/** Rows of a hashed table, at least and at most. */
const [rowsMin, rowsMax] = [1024, 2 ** 20];
/** Columns of a row of every table. */
export const dim = 16;
/** Rows of small tables would begin far from 0, and rows of rare ids stay where they begin. */
const initScale = 0.05;
/** From this share of missing values on, a dense column gets a second feature that marks them. */
const missingMin = 0.01;
/** Of numbers of a larger range the logarithm is taken. */
const rangeMax = 100;
/** A dense column with a larger mean, or a deviation outside of these, is standardised. */
const [deviationMin, deviationMax] = [0.1, 10];
/** A list column shares the table of a column that has at least this share of its values. */
const sharedMin = 0.5;

/** A file that a first job names. */
export interface VocabularyFile {
  readonly path: string;
  readonly bytes: Buffer;
}

/** A feature as a job has it. */
export interface EncodedColumn {
  readonly profile: ColumnProfile;
  /** Why the column is what it is, and how it is read. */
  readonly why: string;
  /** Its entry in `data.dense` or `data.categorical`. */
  readonly entry: { readonly column: string } & Readonly<Record<string, unknown>>;
  /** Its table; undefined: it is dense, or looks up that of another column. */
  readonly table?: Readonly<Record<string, unknown>>;
  /** The column whose table this column looks up; left out: it has a table of its own. */
  readonly tableOf?: string;
  /** What makes the column of the entry; undefined: it is a column of the files. */
  readonly transform?: Readonly<Record<string, unknown>>;
  readonly vocabulary?: VocabularyFile;
}

/** The dense features, in their order. `names`: those of all columns. */
export function encodeDense(
  columns: readonly AssignedColumn[],
  names: readonly string[],
): EncodedColumn[] {
  return columns.map(({ profile, why }) => {
    const { name, min, max, texts, missing, present, mean, deviation, decimalComma } = profile;
    const rules = {
      ...(missing >= missingMin * (missing + present) ? { missing: "indicator" } : {}),
      ...(texts > 0 ? { unreadable: "missing" } : {}),
      ...(decimalComma ? { decimalComma } : {}),
    };
    // `log` is log(1 + max(x, 0)): it makes all negative values equal, so they have to be small.
    const isLog = max > rangeMax && (min >= 0 || -min <= max / 10);
    if (isLog) return { profile, why, entry: { column: name, log: true, ...rules } };
    const isFar = Math.abs(mean) > deviationMax || deviation > deviationMax;
    const isFlat = deviation > 0 && deviation < deviationMin;
    // A transform makes a bad line of text, which these rules do not.
    if (texts > 0 || decimalComma || deviation === 0 || !(isFar || isFlat)) {
      return { profile, why, entry: { column: name, ...rules } };
    }
    const output = freeName(`${name}_scaled`, names);
    const [minus, over] = [mean, deviation].map((value) => Number(value.toPrecision(6)));
    const transform = { op: "scale", input: name, output, minus, over };
    return { profile, why: `${why}, standardised`, entry: { column: output, ...rules }, transform };
  });
}

/** The features of ids, in their order. `directory`: where vocabularies are written. */
export function encodeIds(
  columns: readonly AssignedColumn[],
  names: readonly string[],
  directory: string | undefined,
): EncodedColumn[] {
  const files = new Set<string>();
  const owners = columns.map((own) => ownerOf(own, columns));
  const encoded = new Map<string, EncodedColumn>();
  for (const [i, own] of columns.entries()) {
    if (owners[i] !== own) continue;
    const users = columns.filter((_, other) => owners[other] === own);
    const whole = { ...own, profile: together(own.profile, users) };
    const vocabulary = directory === undefined ? undefined : vocabularyOf(whole.profile);
    const path = vocabulary && join(directory ?? "", freeFile(own.profile.name, files));
    for (const user of users) {
      const column = { ...user, profile: { ...whole.profile, ...nameAndForm(user.profile) } };
      const found =
        vocabulary === undefined || path === undefined
          ? hashed(column, encoded.size)
          : byVocabulary(column, names, { path, ...vocabulary });
      encoded.set(user.profile.name, user === own ? found : sharing(found, own.profile.name));
    }
  }
  return columns.flatMap(({ profile }) => encoded.get(profile.name) ?? []);
}

/** The column whose table a column looks up: its own, or of a list that of the column it lists. */
function ownerOf(own: AssignedColumn, columns: readonly AssignedColumn[]): AssignedColumn {
  const { counts, areIntegers } = own.profile;
  if (!isList(own.profile) || counts.size === 0) return own;
  let [owner, most] = [own, sharedMin * counts.size];
  for (const other of columns) {
    if (isList(other.profile) || other.profile.areIntegers !== areIntegers) continue;
    const common = [...counts.keys()].filter((value) => other.profile.counts.has(value)).length;
    // Two columns of unrelated ids have small integers in common by chance.
    if (common < listedMin || common < most) continue;
    [owner, most] = [other, common];
  }
  return owner;
}

/** Fewest different values that a list column and the column whose table it shares both have. */
const listedMin = 20;

function isList(profile: ColumnProfile): boolean {
  return Object.keys(formOf(profile)).length > 0;
}

function nameAndForm({ name, form, separator }: ColumnProfile) {
  return { name, form, separator };
}

/** A column with the values of all that look up its table. */
function together(own: ColumnProfile, users: readonly AssignedColumn[]): ColumnProfile {
  if (users.length === 1) return own;
  const counts = new Map<string, number>();
  for (const { profile } of users) {
    for (const [value, count] of profile.counts)
      counts.set(value, (counts.get(value) ?? 0) + count);
  }
  const most = (of: (profile: ColumnProfile) => number) =>
    Math.max(...users.map(({ profile }) => of(profile)));
  return {
    ...own,
    counts,
    seen: Math.max(
      counts.size,
      most(({ seen }) => seen),
    ),
    distinct: Math.max(
      counts.size,
      most(({ distinct }) => distinct),
    ),
    min: -most(({ min }) => -min),
    max: most(({ max }) => max),
  };
}

/** A column that looks up the table of the column `owner`. */
function sharing(found: EncodedColumn, owner: string): EncodedColumn {
  const { table: _table, vocabulary: _file, ...rest } = found;
  const why = `${found.why}; in the table of \`${owner}\`, whose values it lists`;
  return { ...rest, why, tableOf: owner };
}

/** The lines of a column's vocabulary; undefined: it has too many values, or unusable ones. */
function vocabularyOf({ distinct, seen, counts, areIntegers }: ColumnProfile) {
  if (distinct > vocabularyMax || counts.size !== seen) return undefined;
  const kept = [...counts].filter(([, count]) => count >= countMin);
  const isUnusable = kept.some(([value]) => value === "" || /[\r\n]/.test(value));
  if (kept.length === 0 || isUnusable) return undefined;
  // The most frequent first: a longer vocabulary may go on from it.
  const values = kept.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([one]) => one);
  if (!areIntegers) return { values, lines: values };
  const pairs = values.map((value, place) => [BigInt(value), place] as const);
  if (pairs.some(([id]) => BigInt.asIntN(64, id) !== id)) return undefined;
  const sorted = pairs.sort(([a], [b]) => (a < b ? -1 : 1));
  return { values, lines: sorted.map(([id, place]) => `${id}\t${place}`) };
}

function byVocabulary(
  { profile, why }: AssignedColumn,
  names: readonly string[],
  { path, values, lines }: { path: string; values: readonly string[]; lines: readonly string[] },
): EncodedColumn {
  const { name, areIntegers, seen } = profile;
  const output = freeName(`${name}_id`, names);
  const known = values.length;
  const transform = {
    op: "mapId",
    input: sourceOf(profile),
    output,
    vocabulary: path,
    ...(areIntegers ? { form: "pairs" } : {}),
    unknown: known,
  };
  const rest = known < seen ? `, ${seen - known} rarer ones and new ones` : ", new ones";
  return {
    profile,
    why: `${why}; a row for each of ${known} values${rest} in one row`,
    entry: { column: output, table: name, ids: "integer" },
    table: { name, rows: known + 1, dim, initScale },
    transform,
    vocabulary: { path, bytes: Buffer.from(`${lines.join("\n")}\n`, "latin1") },
  };
}

/** `seed`: the index of the table, which hashes text. */
function hashed({ profile, why }: AssignedColumn, seed: number): EncodedColumn {
  const { name, areIntegers, min, max } = profile;
  const rows = hashedRows(profile, seed);
  const entry = { column: name, ...(areIntegers ? { ids: "integer" } : {}), ...formOf(profile) };
  const isWide = Math.max(-min, max) >= 2 ** 31;
  const table = { name, rows, dim, initScale };
  const policy = areIntegers ? { ids: "hash", ...(isWide ? { idBits: 64 } : {}) } : {};
  return { profile, why, entry, table: { ...table, ...policy } };
}

/** Rows for the values of a column: of few texts, so many that each seen one has its own. */
function hashedRows({ distinct, seen, counts, areIntegers }: ColumnProfile, seed: number): number {
  const wanted = 2 ** Math.ceil(Math.log2(rowsForEach * Math.max(1, distinct)));
  let rows = Math.min(rowsMax, Math.max(rowsMin, wanted));
  if (areIntegers || distinct > vocabularyMax || counts.size !== seen) return rows;
  const hashes = Array.from(counts.keys(), (value) => murmurHash3(value, seed));
  const taken = () => new Set(hashes.map((hash) => hash % (rows - 1))).size;
  while (rows < rowsMax && taken() < hashes.length) rows *= 2;
  return rows;
}

/** How a column that may have several ids is read. */
function formOf({ form, separator }: ColumnProfile): Readonly<Record<string, string>> {
  if (form === "list") return { list: "plain" };
  if (form === "map") return { list: "weighted" };
  return separator === undefined ? {} : { separator };
}

function sourceOf(profile: ColumnProfile): string | object {
  const rules = formOf(profile);
  return Object.keys(rules).length === 0 ? profile.name : { column: profile.name, ...rules };
}

/** A name that no column has. */
function freeName(name: string, names: readonly string[]): string {
  let free = name;
  while (names.includes(free)) free = `${free}_`;
  return free;
}

/** A file's name for a column, whatever characters that has. */
function freeFile(name: string, taken: Set<string>): string {
  const plain =
    name
      .replace(/[^\p{L}\p{N}_.-]+/gu, "-")
      .replace(/^\.+/, "")
      .slice(0, 60) || "column";
  let free = plain;
  for (let i = 2; taken.has(free.toLowerCase()); i++) free = `${plain}-${i}`;
  taken.add(free.toLowerCase());
  return `${free}.txt`;
}
