// Chooses how a proposed job encodes each feature, so that no information is lost: columns with few
// ids get a vocabulary; columns with many ids are hashed into a table with spare rows; quantities
// with a large range are read as logarithms, others are standardised.
//
//   few ids, text        mapId: the value's line in the vocabulary; all others share the last row
//   few ids, integers    the same with pairs, so that `12` and `12.0` are one id
//   many ids, text       hashed into 10 to 20 times as many rows
//   many ids, integers   read as integers; the table hashes those outside its rows
//
// A list column whose values are also the single values of another column, such as a user's last
// items beside the item, shares the table of that column.

import { join } from "node:path";
import { murmurHash3 } from "../../../internal.ts";
import type { AssignedColumn } from "./column-roles.ts";
import type { ColumnProfile } from "./column-tally.ts";

/** Most distinct values of a column with a vocabulary. */
const vocabularyMax = 1000;
/** Rarer values are left out of the vocabulary; they train the shared row of unknown values. */
const countMin = 2;
/** Rows of a hashed table per value: fewer than one in ten values then collides. */
const rowsForEach = 10;
/** Minimum and maximum rows of a hashed table. */
const [rowsMin, rowsMax] = [1024, 2 ** 20];
/** Embedding dimension of every table. */
export const dim = 16;
/** By default rows of small tables begin far from 0, and rows of rare ids stay near that value. */
const initScale = 0.05;
/** Least share of missing values for which a dense column gets an indicator feature. */
const missingMin = 0.01;
/** Numbers with a larger maximum are read as logarithms. */
const rangeMax = 100;
/** A dense column with a deviation outside these bounds, or a larger mean, is standardised. */
const [deviationMin, deviationMax] = [0.1, 10];
/** A list column shares the table of a column that contains at least this share of its values. */
const sharedMin = 0.5;

/** A vocabulary file that the job refers to. */
export interface VocabularyFile {
  readonly path: string;
  readonly bytes: Buffer;
}

/** A feature of the job. */
export interface EncodedColumn {
  readonly profile: ColumnProfile;
  /** The reason for the column's role, and how it is encoded. */
  readonly why: string;
  /** Its entry in `data.dense` or `data.categorical`. */
  readonly entry: { readonly column: string } & Readonly<Record<string, unknown>>;
  /** Its table; undefined: the feature is dense, or shares the table of another column. */
  readonly table?: Readonly<Record<string, unknown>>;
  /** The column whose table it shares; left out: it has its own table. */
  readonly tableOf?: string;
  /** The transform that computes the entry's column; undefined: it is a column of the files. */
  readonly transform?: Readonly<Record<string, unknown>>;
  readonly vocabulary?: VocabularyFile;
}

/** The dense features, in the order of `columns`. `names`: the names of all columns. */
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
    // `log` is log(1 + max(x, 0)), which maps all negative values to 0, so they must be small.
    const isLog = max > rangeMax && (min >= 0 || -min <= max / 10);
    if (isLog) return { profile, why, entry: { column: name, log: true, ...rules } };
    const isFar = Math.abs(mean) > deviationMax || deviation > deviationMax;
    const isFlat = deviation > 0 && deviation < deviationMin;
    // `scale` would reject lines with text, which these rules accept.
    if (texts > 0 || decimalComma || deviation === 0 || !(isFar || isFlat)) {
      return { profile, why, entry: { column: name, ...rules } };
    }
    const output = freeName(`${name}_scaled`, names);
    const [minus, over] = [mean, deviation].map((value) => Number(value.toPrecision(6)));
    const transform = { op: "scale", input: name, output, minus, over };
    return { profile, why: `${why}, standardised`, entry: { column: output, ...rules }, transform };
  });
}

/** The categorical features. `directory`: of vocabularies; undefined: all ids are hashed. */
export function encodeIds(
  columns: readonly AssignedColumn[],
  names: readonly string[],
  directory: string | undefined,
): EncodedColumn[] {
  const files = new Set<string>();
  const owners = columns.map((own) => ownerOf(own, columns));
  const encoded = new Map<string, EncodedColumn>();
  for (const [i, owner] of columns.entries()) {
    if (owners[i] !== owner) continue;
    const users = columns.filter((_, other) => owners[other] === owner);
    const whole = { ...owner, profile: together(owner.profile, users) };
    const vocabulary = directory === undefined ? undefined : vocabularyOf(whole.profile);
    const path = vocabulary && join(directory ?? "", freeFile(owner.profile.name, files));
    for (const user of users) {
      const column = { ...user, profile: { ...whole.profile, ...nameAndForm(user.profile) } };
      const found =
        vocabulary === undefined || path === undefined
          ? hashed(column, encoded.size)
          : byVocabulary(column, names, { path, ...vocabulary });
      encoded.set(user.profile.name, user === owner ? found : sharing(found, owner.profile.name));
    }
  }
  return columns.flatMap(({ profile }) => encoded.get(profile.name) ?? []);
}

/** The column whose table a column uses: itself, or for a list the column whose values it lists. */
function ownerOf(own: AssignedColumn, columns: readonly AssignedColumn[]): AssignedColumn {
  const { counts, areIntegers } = own.profile;
  if (!isList(own.profile) || counts.size === 0) return own;
  let [owner, most] = [own, sharedMin * counts.size];
  for (const other of columns) {
    if (isList(other.profile) || other.profile.areIntegers !== areIntegers) continue;
    const common = [...counts.keys()].filter((value) => other.profile.counts.has(value)).length;
    // Unrelated columns share some small integers by chance, so a minimum is required.
    if (common < listedMin || common < most) continue;
    [owner, most] = [other, common];
  }
  return owner;
}

/** Fewest distinct values that two columns must have in common to share a table. */
const listedMin = 20;

function isList(profile: ColumnProfile): boolean {
  return Object.keys(formOf(profile)).length > 0;
}

function nameAndForm({ name, form, separator }: ColumnProfile) {
  return { name, form, separator };
}

/** A column's profile, merged with the values of all columns that share its table. */
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

/** A feature that uses the table of column `owner` instead of its own. */
function sharing(found: EncodedColumn, owner: string): EncodedColumn {
  const { table: _table, vocabulary: _file, ...rest } = found;
  const why = `${found.why}; in the table of \`${owner}\`, whose values it lists`;
  return { ...rest, why, tableOf: owner };
}

/** A column's vocabulary; undefined: the column has too many values, or unusable ones. */
function vocabularyOf({ distinct, seen, counts, areIntegers }: ColumnProfile) {
  if (distinct > vocabularyMax || counts.size !== seen) return undefined;
  const kept = [...counts].filter(([, count]) => count >= countMin);
  const isUnusable = kept.some(([value]) => value === "" || /[\r\n]/.test(value));
  if (kept.length === 0 || isUnusable) return undefined;
  // Most frequent first, so that a later, longer vocabulary can extend this one.
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

/** A feature with a hashed table. `seed`: the table's index, which seeds the hash of text. */
function hashed({ profile, why }: AssignedColumn, seed: number): EncodedColumn {
  const { name, areIntegers, min, max } = profile;
  const rows = hashedRows(profile, seed);
  const entry = { column: name, ...(areIntegers ? { ids: "integer" } : {}), ...formOf(profile) };
  const isWide = Math.max(-min, max) >= 2 ** 31;
  const table = { name, rows, dim, initScale };
  const policy = areIntegers ? { ids: "hash", ...(isWide ? { idBits: 64 } : {}) } : {};
  return { profile, why, entry, table: { ...table, ...policy } };
}

/** Rows of a column's hashed table; for few texts, enough that no two seen values collide. */
function hashedRows({ distinct, seen, counts, areIntegers }: ColumnProfile, seed: number): number {
  const wanted = 2 ** Math.ceil(Math.log2(rowsForEach * Math.max(1, distinct)));
  let rows = Math.min(rowsMax, Math.max(rowsMin, wanted));
  if (areIntegers || distinct > vocabularyMax || counts.size !== seen) return rows;
  const hashes = Array.from(counts.keys(), (value) => murmurHash3(value, seed));
  const taken = () => new Set(hashes.map((hash) => hash % (rows - 1))).size;
  while (rows < rowsMax && taken() < hashes.length) rows *= 2;
  return rows;
}

/** The options by which a column with several ids per row is read; empty: one id per row. */
function formOf({ form, separator }: ColumnProfile): Readonly<Record<string, string>> {
  if (form === "list") return { list: "plain" };
  if (form === "map") return { list: "weighted" };
  return separator === undefined ? {} : { separator };
}

function sourceOf(profile: ColumnProfile): string | object {
  const rules = formOf(profile);
  return Object.keys(rules).length === 0 ? profile.name : { column: profile.name, ...rules };
}

/** A name that no column has, derived from `name`. */
function freeName(name: string, names: readonly string[]): string {
  let free = name;
  while (names.includes(free)) free = `${free}_`;
  return free;
}

/** An unused, portable file name for a column's vocabulary. */
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
