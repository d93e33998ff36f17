// Transforms that compare two lists of ids, with one number per row (DPP's ComputeScore). A score
// is the weight of an id in its list, or 1 without weights. Scores of the same id in one list are
// summed, except for scoreMin and scoreMax.

import type { IdColumn } from "../columnar/column.ts";
import { IdTable } from "./id-table.ts";
import type { Op } from "./op.ts";
import { asIds, type ColumnType, halvesOf, numbersType } from "./values.ts";

/** The ids of both lists of a row, numbered in one table. */
class ComparedRow {
  /** Distinct ids of both lists; those of the first list come first. */
  readonly ids = new IdTable();
  /** Occurrences of each id in the first and the second list. */
  counts = [new Float64Array(64), new Float64Array(64)] as const;
  /** Summed scores of each id in the first and the second list. */
  sums = [new Float64Array(64), new Float64Array(64)] as const;

  clear(): void {
    for (const all of [...this.counts, ...this.sums]) all.fill(0, 0, this.ids.size);
    this.ids.clear();
  }

  /** Adds the entries first .. end - 1 of a list. */
  add(which: 0 | 1, { weights }: IdColumn, halves: Int32Array, first: number, end: number): void {
    for (let i = first; i < end; i++) {
      const id = this.ids.add(halves[2 * i] as number, halves[2 * i + 1] as number);
      if (id >= this.counts[0].length) this.#grow();
      const [counts, sums] = [this.counts[which], this.sums[which]];
      counts[id] = (counts[id] as number) + 1;
      sums[id] = (sums[id] as number) + (weights === undefined ? 1 : (weights[i] as number));
    }
  }

  #grow(): void {
    const larger = (from: Float64Array) => {
      const to = new Float64Array(2 * from.length);
      to.set(from);
      return to;
    };
    this.counts = [larger(this.counts[0]), larger(this.counts[1])];
    this.sums = [larger(this.sums[0]), larger(this.sums[1])];
  }
}

/** The entries of the second list, for ops that use single scores. */
interface Entries {
  readonly halves: Int32Array;
  readonly weights: Float32Array | undefined;
  readonly first: number;
  readonly end: number;
}

type ScoreName =
  | "hasOverlap"
  | "overlapCount"
  | "maxCount"
  | "jaccard"
  | "cosine"
  | "scoreSum"
  | "scoreMin"
  | "scoreMax";

/**
 * Creates an op whose value is `score` of a row. If that is undefined, the row is bad, for the
 * reason `why`.
 */
function scoreOp<Name extends ScoreName>(
  score: (row: ComparedRow, entries: Entries) => number | undefined,
  why = "",
): Op<Name> {
  return {
    takes: [["ids"], ["ids"]],
    makes: (): ColumnType => numbersType,
    compile() {
      return ([first, second], { rows, refuse }) => {
        const [one, other] = [asIds(first), asIds(second)];
        const [oneHalves, halves] = [halvesOf(one), halvesOf(other)];
        const values = new Float64Array(rows);
        const row = new ComparedRow();
        for (let r = 0; r < rows; r++) {
          const end = other.offsets[r + 1] as number;
          const entries = {
            halves,
            weights: other.weights,
            first: other.offsets[r] as number,
            end,
          };
          row.clear();
          row.add(0, one, oneHalves, one.offsets[r] as number, one.offsets[r + 1] as number);
          row.add(1, other, halves, entries.first, end);
          const value = score(row, entries);
          if (value === undefined) refuse(r, why);
          values[r] = value ?? Number.NaN;
        }
        return [{ form: "numbers", values }];
      };
    },
  };
}

/** The sum of `term` over the ids of both lists. */
function sumOfIds({ ids, counts, sums }: ComparedRow, term: Term): number {
  let total = 0;
  for (let id = 0; id < ids.size; id++) {
    const [inOne, inOther] = [counts[0][id] as number, counts[1][id] as number];
    total += term(inOne, inOther, sums[0][id] as number, sums[1][id] as number);
  }
  return total;
}

type Term = (inOne: number, inOther: number, sumOne: number, sumOther: number) => number;

function overlapOf(row: ComparedRow): number {
  return sumOfIds(row, (inOne, inOther) => Math.min(inOne, inOther));
}

/** 1 if any id is in both lists, else 0. */
export const hasOverlap = scoreOp<"hasOverlap">((row) => (overlapOf(row) > 0 ? 1 : 0));

/** Size of the multiset intersection of the lists. */
export const overlapCount = scoreOp<"overlapCount">(overlapOf);

/** Sum, over the ids that are in both lists, of the larger of the two numbers of occurrences. */
export const maxCount = scoreOp<"maxCount">((row) =>
  sumOfIds(row, (one, other) => (one > 0 && other > 0 ? Math.max(one, other) : 0)),
);

/** overlapCount / (entries of both lists - overlapCount); 0 for two empty lists. */
export const jaccard = scoreOp<"jaccard">((row) => {
  const overlap = overlapOf(row);
  const all = sumOfIds(row, (one, other) => one + other) - overlap;
  return all === 0 ? 0 : overlap / all;
});

/**
 * The cosine of the lists as vectors of summed scores. A list whose scores are all 0 makes the row
 * bad.
 */
export const cosine = scoreOp<"cosine">((row) => {
  const dot = sumOfIds(row, (_one, _other, a, b) => a * b);
  const norms =
    Math.sqrt(sumOfIds(row, (_one, _other, a) => a * a)) *
    Math.sqrt(sumOfIds(row, (_one, _other, _a, b) => b * b));
  return norms === 0 ? undefined : dot / norms;
}, "the scores of a list are all 0");

/** Sum of the second list's scores of the ids that are in both lists. */
export const scoreSum = scoreOp<"scoreSum">((row) =>
  sumOfIds(row, (one, other, _a, b) => (one > 0 && other > 0 ? b : 0)),
);

/** The least score in the second list of an id that is in both lists; 0 if there is none. */
export const scoreMin = scoreOp<"scoreMin">((row, entries) => extreme(row, entries, Math.min));

/** The greatest score in the second list of an id that is in both lists; 0 if there is none. */
export const scoreMax = scoreOp<"scoreMax">((row, entries) => extreme(row, entries, Math.max));

function extreme(
  { ids, counts }: ComparedRow,
  { halves, weights, first, end }: Entries,
  choose: (a: number, b: number) => number,
): number {
  let best: number | undefined;
  for (let i = first; i < end; i++) {
    const id = ids.find(halves[2 * i] as number, halves[2 * i + 1] as number);
    if (counts[0][id] === 0) continue;
    const score = weights === undefined ? 1 : (weights[i] as number);
    best = best === undefined ? score : choose(best, score);
  }
  return best ?? 0;
}
