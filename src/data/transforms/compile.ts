// The transforms of a job as a list of calls over columns. Compiled once, run on batch after batch.
// Row r of every output is a function of row r of the file alone, so that batches may be cut
// anywhere, in training and at prediction.

import type { OpName, Rows, Run } from "./op.ts";
import { ops } from "./ops.ts";
import { outputsOf } from "./order.ts";
import { keyOf, planOf, readsOf, type Source, type TransformPlan } from "./plan.ts";
import { keptRows } from "./sampling.ts";
import type { Transform } from "./transform-options.ts";
import type { TransformColumn } from "./values.ts";
import { readVocabulary } from "./vocabulary.ts";

/** What the transforms make of some rows. */
export interface MadeColumns {
  /** By name of the output. Valid until the next run. */
  readonly columns: ReadonlyMap<string, TransformColumn>;
  /** Why a row is bad, by row; a row that is not there is good. */
  readonly faults: ReadonlyMap<number, string>;
  /** (rows): 0 for rows that sampling drops; undefined: it drops none. */
  readonly kept: Uint8Array | undefined;
}

/** The compiled transforms of a job. */
export interface CompiledTransforms extends TransformPlan {
  /** Computes every output. `sources`: the columns of the file, in the order of `sources`. */
  run(sources: readonly TransformColumn[], rows: Omit<Rows, "refuse">): MadeColumns;
}

interface Call {
  readonly run: Run;
  readonly reads: readonly string[];
  readonly outputs: readonly string[];
  /** What a bad row of it is told as. */
  readonly title: string;
}

/**
 * Compiles transforms that have no problems, in the order of their schema.
 * @throws InputUnusableError where a vocabulary cannot be read, or is not that of the job
 */
export function compileTransforms(transforms: readonly Transform[]): CompiledTransforms {
  const plan = planOf(transforms);
  const placeOf = (source: Source) =>
    plan.outputs.has(source.column) ? source.column : keyOf(source);
  const calls = transforms.flatMap((transform) => {
    if (transform.op === "sampling") return [];
    const reads = readsOf(transform).map(({ source }) => placeOf(source));
    const title = `the transform \`${transform.output}\` (${transform.op})`;
    return [{ run: compiled(transform), reads, outputs: outputsOf(transform), title }];
  });
  const samplings = transforms.flatMap((transform) => {
    if (transform.op !== "sampling") return [];
    const [read] = readsOf(transform);
    return [{ options: transform, read: read && placeOf(read.source) }];
  });
  return {
    ...plan,
    run(sources, rows) {
      const columns = new Map<string, TransformColumn>();
      for (const [i, source] of plan.sources.entries()) {
        columns.set(keyOf(source), sources[i] as TransformColumn);
      }
      const faults = new Map<number, string>();
      for (const call of calls) runCall(call, columns, faults, rows);
      let kept: Uint8Array | undefined;
      for (const { options, read } of samplings) {
        const own = keptRows(options, read === undefined ? undefined : columns.get(read), rows);
        const before = kept;
        kept = before === undefined ? own : own.map((bit, row) => bit & (before[row] ?? 0));
      }
      return { columns, faults, kept };
    },
  };
}

function compiled(transform: Exclude<Transform, { op: "sampling" }>): Run {
  const vocabulary = transform.op === "mapId" ? readVocabulary(transform) : undefined;
  // The op and its options have one name, which the compiler does not follow through the table.
  const { compile } = ops[transform.op] as {
    compile(options: Extract<Transform, { op: OpName }>, vocabulary: unknown): Run;
  };
  return compile(transform, vocabulary);
}

function runCall(
  { run, reads, outputs, title }: Call,
  columns: Map<string, TransformColumn>,
  faults: Map<number, string>,
  rows: Omit<Rows, "refuse">,
): void {
  const refuse = (row: number, why: string) => {
    if (!faults.has(row)) faults.set(row, `${title} has no value: ${why}`);
  };
  const inputs = reads.map((name) => columns.get(name) as TransformColumn);
  const made = run(inputs, { ...rows, refuse });
  for (const [i, name] of outputs.entries()) columns.set(name, made[i] as TransformColumn);
}
