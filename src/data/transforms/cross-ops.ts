// Transforms that combine several ids into one: n-grams of a list, and pairs of two lists. The
// results are hashed into 0 .. max - 1, like the ids of sigridHash.

import { hashCombine, upperHalf } from "./hash64.ts";
import { IdTable } from "./id-table.ts";
import { type Op, sameForm } from "./op.ts";
import { asIds, type ColumnType, halvesOf, idsType } from "./values.ts";
import { hashArguments, mixedHalves, setId, sigridHashOf, wholeColumns } from "./whole-columns.ts";

/**
 * Each window of n consecutive ids as one id: combine(... combine(mix(a), mix(b)) ..., mix(z)),
 * then SigridHash of the result. A list of fewer than n ids has no windows.
 */
export const nGram: Op<"nGram"> = {
  takes: [["ids"]],
  makes: (): ColumnType => idsType,
  compile(options) {
    const { n } = options;
    const hash = hashArguments(options);
    const columns = wholeColumns();
    return ([column], { rows }) => {
      const list = asIds(column);
      const offsets = new Int32Array(rows + 1);
      for (let row = 0; row < rows; row++) {
        const length = (list.offsets[row + 1] as number) - (list.offsets[row] as number);
        offsets[row + 1] = (offsets[row] as number) + Math.max(length - n + 1, 0);
      }
      const ids = new BigInt64Array(offsets[rows] as number);
      columns.nGram(ids, offsets, list.ids, list.offsets, n, hash);
      return [{ form: "ids", offsets, ids }];
    };
  },
};

/**
 * Each pair of an id of the first list and an id of the second as one id: combine(mix(a), mix(b)),
 * then SigridHash of the result. The second list varies fastest; only the first `pairsMax` pairs
 * are made.
 */
export const cartesian: Op<"cartesian"> = {
  takes: [["ids"], ["ids"]],
  makes: (): ColumnType => idsType,
  compile(options) {
    const { pairsMax } = options;
    const hash = hashArguments(options);
    return ([one, other], { rows }) => {
      const [outer, inner] = [asIds(one), asIds(other)];
      const [outerMixed, innerMixed] = [mixedHalves(halvesOf(outer)), mixedHalves(halvesOf(inner))];
      const offsets = new Int32Array(rows + 1);
      for (let row = 0; row < rows; row++) {
        const outerLength = (outer.offsets[row + 1] as number) - (outer.offsets[row] as number);
        const innerLength = (inner.offsets[row + 1] as number) - (inner.offsets[row] as number);
        const pairs = Math.min(outerLength * innerLength, pairsMax);
        offsets[row + 1] = (offsets[row] as number) + pairs;
      }
      const ids = new BigInt64Array(offsets[rows] as number);
      const out = halvesOf({ ids });
      for (let row = 0; row < rows; row++) {
        const [first, end] = [
          2 * (inner.offsets[row] as number),
          2 * (inner.offsets[row + 1] as number),
        ];
        let [i, j] = [2 * (outer.offsets[row] as number), first];
        for (let at = offsets[row] as number; at < (offsets[row + 1] as number); at++) {
          const low = hashCombine(
            outerMixed[i] as number,
            outerMixed[i + 1] as number,
            innerMixed[j] as number,
            innerMixed[j + 1] as number,
          );
          setId(out, at, sigridHashOf(low, upperHalf(), hash));
          j += 2;
          if (j === end) [i, j] = [i + 2, first];
        }
      }
      return [{ form: "ids", offsets, ids }];
    };
  },
};

/**
 * The multiset intersection of two lists, in the order of the first list: an id occurs as often as
 * it is in both. Weights are those of the first list.
 */
export const idListTransform: Op<"idListTransform"> = {
  takes: [["ids"], ["ids"]],
  makes: sameForm,
  compile() {
    return ([one, other], { rows }) => {
      const [kept, by] = [asIds(one), asIds(other)];
      const offsets = new Int32Array(rows + 1);
      const from: number[] = [];
      const [keptHalves, byHalves] = [halvesOf(kept), halvesOf(by)];
      const table = new IdTable();
      const left: number[] = [];
      for (let row = 0; row < rows; row++) {
        table.clear();
        for (let i = by.offsets[row] as number; i < (by.offsets[row + 1] as number); i++) {
          const { size } = table;
          const id = table.add(byHalves[2 * i] as number, byHalves[2 * i + 1] as number);
          left[id] = id === size ? 1 : (left[id] ?? 0) + 1;
        }
        for (let i = kept.offsets[row] as number; i < (kept.offsets[row + 1] as number); i++) {
          const id = table.find(keptHalves[2 * i] as number, keptHalves[2 * i + 1] as number);
          const count = id < 0 ? 0 : (left[id] ?? 0);
          if (count === 0) continue;
          left[id] = count - 1;
          from.push(i);
        }
        offsets[row + 1] = from.length;
      }
      const weights = kept.weights && Float32Array.from(from, (i) => kept.weights?.[i] ?? 1);
      const ids = BigInt64Array.from(from, (i) => kept.ids[i] ?? 0n);
      return [{ form: "ids", offsets, ids, ...(weights && { weights }) }];
    };
  },
};
