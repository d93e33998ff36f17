// Compiles the transforms of a job to a list of calls over columns, which run on every batch. Row r
// of every output is a function of row r of the file alone, so that batches may be cut anywhere, in
// training and prediction. A run of rows that are equal in all inputs of a transform is computed
// once (sessions/repeated-rows.ts).

import { transformsOf } from "../data-kinds.ts";
import type { ResolvedDataOptions } from "../options.ts";
import { type Heads, headsOf, RepeatedColumn, type RowRuns } from "../sessions/repeated-rows.ts";
import { hashCombine, twangMix64, upperHalf } from "./hash64.ts";
import type { OpName, Rows, Run, TransformOf } from "./op.ts";
import { ops } from "./ops.ts";
import { outputsOf } from "./order.ts";
import { keyOf, planOf, readsOf, type Source, type TransformPlan } from "./plan.ts";
import type { Transform } from "./transform-options.ts";
import { asIds, halvesOf, type TransformColumn } from "./values.ts";
import { readVocabulary } from "./vocabulary.ts";
import { referenceColumns, wholeColumns } from "./whole-columns.ts";

/** The compiled transforms of the data, if any. @throws as `compileTransforms` */
export function transformsFor(data: ResolvedDataOptions): CompiledTransforms | undefined {
  const transforms = transformsOf(data);
  return transforms && compileTransforms(transforms);
}

/** The outputs of the transforms for some rows. */
export interface MadeColumns {
  /** Columns by the name of the output, valid until the next run. */
  readonly columns: Pick<ReadonlyMap<string, TransformColumn>, "get"> & {
    /**
     * A column that was computed for the first row of each run of equal rows; undefined if it was
     * computed for all rows.
     */
    runsOf(name: string): RowRuns | undefined;
  };
  /** Reasons of bad rows, by row. */
  readonly faults: ReadonlyMap<number, string>;
  /** (rows): 0 for rows that sampling drops; undefined if it drops none. */
  readonly kept: Uint8Array | undefined;
}

/** The compiled transforms of a job. */
export interface CompiledTransforms extends TransformPlan {
  /**
   * Computes every output. `sources`: columns of the file, in the order of the plan's `sources`.
   */
  run(sources: readonly TransformColumn[], rows: Omit<Rows, "refuse">): MadeColumns;
}

/**
 * Ops that the addon computes faster than it compares rows, so that looking for equal rows does not
 * pay.
 */
const quick: ReadonlySet<OpName> = new Set(["bucketize"]);

interface Call {
  readonly run: Run;
  /** Whether looking for repeated rows pays. */
  readonly isSlow: boolean;
  readonly reads: readonly string[];
  readonly outputs: readonly string[];
  /** Name of the transform in the reason of a bad row. */
  readonly title: string;
}

/**
 * Compiles transforms that are free of problems, in the order of their schema. `sharesRows`:
 * whether repeated rows share results; false is for measurements.
 * @throws InputUnusableError if a vocabulary cannot be read, or differs from the job's
 */
export function compileTransforms(
  transforms: readonly Transform[],
  { sharesRows = true }: { readonly sharesRows?: boolean } = {},
): CompiledTransforms {
  const plan = planOf(transforms);
  const placeOf = (source: Source) =>
    plan.outputs.has(source.column) ? source.column : keyOf(source);
  const calls = transforms.flatMap((transform) => {
    if (transform.op === "sampling") return [];
    const reads = readsOf(transform).map(({ source }) => placeOf(source));
    const title = `the transform \`${transform.output}\` (${transform.op})`;
    const isSlow = !quick.has(transform.op) || wholeColumns() === referenceColumns;
    return [{ run: compiled(transform), isSlow, reads, outputs: outputsOf(transform), title }];
  });
  const samplings = transforms.flatMap((transform) => {
    if (transform.op !== "sampling") return [];
    const [read] = readsOf(transform);
    return [{ options: transform, read: read && placeOf(read.source) }];
  });
  return {
    ...plan,
    run(sources, rows) {
      const columns = new Map<string, RepeatedColumn>();
      for (const [i, source] of plan.sources.entries()) {
        columns.set(keyOf(source), RepeatedColumn.whole(sources[i] as TransformColumn));
      }
      const faults = new Map<number, string>();
      const runs = new Map<string, Heads | undefined>();
      for (const call of calls) runCall(call, columns, faults, rows, sharesRows ? runs : undefined);
      let kept: Uint8Array | undefined;
      for (const { options, read } of samplings) {
        const by = read === undefined ? undefined : columns.get(read)?.rows;
        const own = keptRows(options, by, rows);
        const before = kept;
        kept = before === undefined ? own : own.map((bit, row) => bit & (before[row] ?? 0));
      }
      const found = {
        get: (name: string) => columns.get(name)?.rows,
        runsOf: (name: string) => columns.get(name)?.runs,
      };
      return { columns: found, faults, kept };
    },
  };
}

function compiled(transform: Exclude<Transform, { op: "sampling" }>): Run {
  const vocabulary = transform.op === "mapId" ? readVocabulary(transform) : undefined;
  // The op matches its options by name, which TypeScript does not infer through the table.
  const { compile } = ops[transform.op] as {
    compile(options: Extract<Transform, { op: OpName }>, vocabulary: unknown): Run;
  };
  return compile(transform, vocabulary);
}

/**
 * Runs one call. `runs`: cached runs of equal rows, by the compared columns; undefined if rows do
 * not share results.
 */
function runCall(
  { run, isSlow, reads, outputs, title }: Call,
  columns: Map<string, RepeatedColumn>,
  faults: Map<number, string>,
  rows: Omit<Rows, "refuse">,
  runs: Map<string, Heads | undefined> | undefined,
): void {
  const inputs = reads.map((name) => columns.get(name) as RepeatedColumn);
  const heads =
    runs &&
    (sharedHeads(inputs) ?? (isSlow ? headsFor(reads, inputs, rows.rows, runs) : undefined));
  const refuse = (row: number, why: string) => {
    const [first, end] = heads ? [heads[row] ?? 0, heads[row + 1] ?? 0] : [row, row + 1];
    for (let at = first; at < end; at++) {
      if (!faults.has(at)) faults.set(at, `${title} has no value: ${why}`);
    }
  };
  if (heads === undefined) {
    const own = inputs.map((input) => input.rows);
    const made = run(own, { ...rows, refuse });
    for (const [i, name] of outputs.entries()) {
      columns.set(name, RepeatedColumn.whole(made[i] as TransformColumn));
    }
    return;
  }
  const own = inputs.map((input) => input.headsAt(heads));
  const made = run(own, { ...rows, rows: heads.length - 1, refuse });
  for (const [i, name] of outputs.entries()) {
    columns.set(name, RepeatedColumn.atHeads(made[i] as TransformColumn, heads));
  }
}

/** The runs by which all inputs were computed; undefined if they differ or there are none. */
function sharedHeads(inputs: readonly RepeatedColumn[]): Heads | undefined {
  const [first] = inputs;
  return inputs.every(({ heads }) => heads === first?.heads) ? first?.heads : undefined;
}

/** The runs of rows that are equal in all inputs; undefined if too few rows repeat. */
function headsFor(
  reads: readonly string[],
  inputs: readonly RepeatedColumn[],
  rows: number,
  runs: Map<string, Heads | undefined>,
): Heads | undefined {
  const key = JSON.stringify([...reads].sort());
  if (!runs.has(key)) {
    const own = inputs.map((input) => input.rows);
    runs.set(key, headsOf(own, rows));
  }
  return runs.get(key);
}

/**
 * (rows): 1 for rows that sampling keeps, a function of the seed and the row's identity alone, so
 * that a resumed run, or one that reads its files in other pieces, keeps the same rows. A row's
 * identity is the first id of `column`, if the options name one, or 0 for a row without an id;
 * otherwise it is the index of its file and its index in the file.
 */
function keptRows(
  { seed, rate, by }: TransformOf<"sampling">,
  column: TransformColumn | undefined,
  { rows, place, firstRow }: Pick<Rows, "rows" | "place" | "firstRow">,
): Uint8Array {
  const kept = new Uint8Array(rows);
  const ids = by === undefined ? undefined : asIds(column);
  const halves = ids && halvesOf(ids);
  const upper = Math.floor(seed / 0x1_0000_0000);
  for (let row = 0; row < rows; row++) {
    let [low, high] = [firstRow + row, place];
    if (ids !== undefined && halves !== undefined) {
      const at = ids.offsets[row] as number;
      const isEmpty = at === ids.offsets[row + 1];
      [low, high] = isEmpty ? [0, 0] : [halves[2 * at] as number, halves[2 * at + 1] as number];
    }
    const mixed = twangMix64(low | 0, high | 0);
    const hash = hashCombine(seed | 0, upper | 0, mixed, upperHalf());
    // The upper 53 bits as a number in [0, 1).
    const share = ((upperHalf() >>> 0) * 2 ** 21 + (hash >>> 11)) / 2 ** 53;
    kept[row] = share < rate ? 1 : 0;
  }
  return kept;
}
