// Maps ids to rows with ONNX operators.
//
// Raw ids: the data's transforms and the tables' out-of-range policies. Their hashes are sequences
// of unsigned 64-bit operations that wrap. The results equal those of
// src/data/transforms/hash64.ts, src/data/murmur-hash.ts and src/embedding/lookup/ids-to-rows.ts.
//
// Dynamic ids: ONNX has no hash-table lookup. A table's ids are stored sorted, each with its row,
// and an unrolled binary search finds the rows of all ids of a batch at once, in ceil(log2(m))
// steps.
//
// n = ids of all samples of a batch, m = ids of a table that have a row.

import type { Name } from "../../../../internal.ts";
import type { ExportedTable } from "../exported-model.ts";
import { types } from "./messages.ts";
import type { Operators } from "./operators.ts";
import type { RawIds } from "./raw-ids.ts";

/** A step of a hash. `fold` by s is x ^ (x >> s). */
type Step = readonly [of: "times" | "xor" | "and" | "fold", by: bigint];

const low32: Step = ["and", 0xffff_ffffn];

/** MurmurHash3's finalisers for 64 and 32 bits. */
const fmix64: readonly Step[] = [
  ["fold", 33n],
  ["times", 0xff51_afd7_ed55_8ccdn],
  ["fold", 33n],
  ["times", 0xc4ce_b9fe_1a85_ec53n],
  ["fold", 33n],
];
const fmix32: readonly Step[] = [
  ["fold", 16n],
  ["times", 0x85eb_ca6bn],
  low32,
  ["fold", 13n],
  ["times", 0xc2b2_ae35n],
  low32,
  ["fold", 16n],
];

/**
 * folly's twang_mix64. Its ~k + (k << 21) equals ~(k * (1 - 2^21)); its other sums of shifts are
 * multiplications too.
 */
const twangMix64: readonly Step[] = [
  ["times", 1n - 2n ** 21n],
  ["xor", -1n],
  ["fold", 24n],
  ["times", 265n],
  ["fold", 14n],
  ["times", 21n],
  ["fold", 28n],
  ["times", 1n + 2n ** 31n],
];

/** folly's hash_128_to_64 with this upper half. */
function combined(upper: bigint): readonly Step[] {
  const mix: Step = ["times", 0x9ddf_ea08_eb38_2d69n];
  return [["xor", upper], mix, ["fold", 47n], ["xor", upper], mix, ["fold", 47n], mix];
}

/**
 * Adds the operators that map raw ids (n) to rows. `place`: the tensors of dynamic ids. Returns the
 * row of each id; -1 for a dynamic id without a row. An id that the job rejects gets a row past the
 * last one, which makes the runtime fail.
 */
export function rowsOfRawIds(
  to: Operators,
  ids: Name,
  raw: RawIds,
  place: IdsPlace | undefined,
): Name {
  let id = ids;
  for (const transform of raw.transforms) {
    const isHash = transform.op === "sigridHash";
    const hash = isHash && [...twangMix64, ...combined(BigInt(transform.salt))];
    const hashed = hash ? signed(to, after(to, unsigned(to, id), hash)) : id;
    // The remainder has the sign of the modulus.
    id = to.op("Mod", [hashed, to.integers([isHash ? transform.max : transform.modulus])]);
  }
  const shifted = raw.offset === 0 ? id : to.op("Sub", [id, to.integers([raw.offset])]);
  const row = place === undefined ? rowOf(to, shifted, raw) : findRows(to, shifted, place);
  const isTaken = within(to, id, raw.least, raw.most);
  return to.op("Where", [isTaken, row, to.integers([raw.rows])]);
}

/** Applies a table's policy for ids outside its rows. */
function rowOf(to: Operators, id: Name, { rows, beyond, bits }: RawIds): Name {
  if (beyond === "clamp") {
    return to.op("Min", [to.op("Max", [id, to.integers([0])]), to.integers([rows - 1])]);
  }
  if (beyond !== "hash") return id;
  const word = unsigned(to, id);
  const hash = bits === 64 ? after(to, word, fmix64) : after(to, word32(to, id, word), fmix32);
  const row = signed(to, to.op("Mod", [hash, to.word(BigInt(rows))]));
  return to.op("Where", [within(to, id, 0n, BigInt(rows - 1)), id, row]);
}

/**
 * An id as 32 bits: the id itself if it fits, else the lower half of its 64-bit hash with the
 * highest bit set.
 */
function word32(to: Operators, id: Name, word: Name): Name {
  const isShort = within(to, id, -(2n ** 31n), 2n ** 31n - 1n);
  const upper = signed(to, after(to, word, [low32]));
  const lower = signed(to, after(to, word, [...fmix64, low32]));
  const mixed = to.op("BitwiseOr", [lower, to.integers([0x8000_0000])]);
  return unsigned(to, to.op("Where", [isShort, upper, mixed]));
}

/** (n): whether least <= id <= most. */
function within(to: Operators, id: Name, least: bigint, most: bigint): Name {
  const isMore = to.op("GreaterOrEqual", [id, to.integers([least])]);
  return to.op("And", [isMore, to.op("LessOrEqual", [id, to.integers([most])])]);
}

function after(to: Operators, word: Name, steps: readonly Step[]): Name {
  return steps.reduce((x, [of, by]) => {
    if (of === "times") return to.op("Mul", [x, to.word(by)]);
    if (of === "and") return to.op("BitwiseAnd", [x, to.word(by)]);
    const other = of === "xor" ? to.word(by) : shifted(to, x, by);
    return to.op("BitwiseXor", [x, other]);
  }, word);
}

function shifted(to: Operators, x: Name, by: bigint): Name {
  return to.op("BitShift", [x, to.word(by)], { direction: "RIGHT" });
}

function unsigned(to: Operators, x: Name): Name {
  return to.op("Cast", [x], { to: types.uint64 });
}

function signed(to: Operators, x: Name): Name {
  return to.op("Cast", [x], { to: types.int64 });
}

/** The tensors of a table's ids in the graph. */
export interface IdsPlace {
  /** Name of the ids (m), ascending. */
  readonly ids: Name;
  /** Name of the row of each, (m). */
  readonly rows: Name;
  /** Number of ids of the table (m); 1 if it has none: ONNX then gets one placeholder id. */
  readonly count: number;
}

/** The tensors of a table's ids; undefined: the table has no dynamic ids. */
export function idsPlaceOf({ stored, ids }: ExportedTable): IdsPlace | undefined {
  if (ids === undefined) return undefined;
  const name = `embedding_bags.${stored.spec.name}`;
  return { ids: `${name}.ids`, rows: `${name}.id_rows`, count: Math.max(1, ids.count) };
}

/**
 * The ids of a table, ascending, and their rows. A table without ids gets one placeholder id with
 * row -1, so that the search has an id to read.
 */
export function sortedIds(ids: NonNullable<ExportedTable["ids"]>) {
  const all = [...ids.all()].sort((a, b) => (a.id < b.id ? -1 : 1));
  if (all.length === 0) all.push({ id: 0n, row: -1 });
  return {
    ids: BigInt64Array.from(all, ({ id }) => id),
    rows: BigInt64Array.from(all, ({ row }) => BigInt(row)),
  };
}

/** Adds the binary search. Returns the row of each id (n); -1: the id has no row. */
export function findRows(to: Operators, sought: Name, { ids, rows, count }: IdsPlace): Name {
  const last = to.integers([count - 1]);
  // Index of the last id that is <= the sought one, or 0.
  let at = to.op("Expand", [to.integers([0]), to.op("Shape", [sought])]);
  for (let bit = Math.ceil(Math.log2(count)) - 1; bit >= 0; bit--) {
    const next = to.op("Min", [to.op("Add", [at, to.integers([2 ** bit])]), last]);
    const id = to.op("Gather", [ids, next], { axis: 0 });
    at = to.op("Where", [to.op("LessOrEqual", [id, sought]), next, at]);
  }
  const found = to.op("Equal", [to.op("Gather", [ids, at], { axis: 0 }), sought]);
  const row = to.op("Gather", [rows, at], { axis: 0 });
  return to.op("Where", [found, row, to.integers([-1])]);
}
