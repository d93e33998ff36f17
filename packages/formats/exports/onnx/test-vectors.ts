// Test vectors of an exported model: records, the inputs computed from them, and the expected
// outputs, computed by the training kernels from the rows in the exported file. Only the rows of
// these records are read, as a table may be far larger than memory.
//
// B = records, L = labels.

import {
  areNumeric,
  blockRowsOf,
  type Calibration,
  createRecordEncoder,
  type EncodedBatch,
  featuresOf,
  IdOutOfRangeError,
  InvalidOptionError,
  type Kernels,
  LocalRows,
  openKernels,
  type RecordEncoder,
  type SampleRecord,
  Scorer,
  type ServedTable,
  shapesOf,
  weightedOf,
  wholeId,
} from "../../../../internal.ts";
import type { ExportedModel, ExportedTable } from "../exported-model.ts";
import type { FeatureInput, RawIds } from "./raw-ids.ts";
import { drawnRecords } from "./sample-records.ts";

/** Most records in a file. Only records that the job's rules accept are used. */
const recordsMax = 8;
const drawsMax = 64;
/** Most dynamic ids of a table to draw from. */
const idsMax = 64;

/** Inputs and outputs with which a client can check itself. Numbers are exact float32 values. */
export interface TestVectors {
  readonly records: readonly SampleRecord[];
  /** By input of the model; `dense` is (B,·). Ids are strings, because JSON rounds numbers. */
  readonly inputs: Readonly<Record<string, readonly unknown[]>>;
  /** (B,L) */
  readonly logits: readonly (readonly number[])[];
  /** (B,L) */
  readonly predictions: readonly (readonly number[])[];
  /** (B,L), where a calibration is stored with the model. */
  readonly calibrated?: readonly (readonly number[])[];
}

/** Reads a row of a table, (D), as it was exported. */
export type ReadRow = (table: ExportedTable, row: number) => Float32Array;

/**
 * Draws records and computes their inputs and outputs.
 * @throws InvalidOptionError where the job's rules accept none of the drawn records
 * @throws InputUnusableError where a vocabulary cannot be read
 */
export function testVectors(
  model: ExportedModel,
  of: readonly FeatureInput[],
  readRow: ReadRow,
): TestVectors {
  const { job, manifest } = model.checkpoint;
  const { data } = job;
  const encoder = createRecordEncoder(data, shapesOf(job.model), manifest.means);
  const records = takenRecords(model, of, encoder);
  const batch = encoder.encode(records);
  const { lookups, inputs } = inputsOf(model, of, batch, records);
  const { dense, samples } = batch;
  const width = dense.length / samples;
  const all = {
    ...(width > 0 && { dense: piecesOf(dense, width) }),
    ...inputs,
  };
  const kernels = kernelsOf(manifest.arithmetic);
  const logits = scorerOf(model, kernels).score(batch, {
    steps: manifest.cut,
    tables: model.tables.map((table, i) => {
      return servedTable(kernels, table, findIds(table, lookups[i] ?? new Map()), readRow);
    }),
  });
  const numeric = areNumeric(data);
  const { length: labels } = numeric;
  const predicted = (tasks: readonly (Pick<Calibration, "scale" | "offset"> | null)[] = []) => {
    const values = logits.map((logit, i) => {
      const { scale, offset } = tasks[i % labels] ?? { scale: 1, offset: 0 };
      return numeric[i % labels] === true ? logit : 1 / (1 + Math.exp(-(scale * logit + offset)));
    });
    return piecesOf(values, labels);
  };
  const out = { logits: piecesOf(logits, labels), predictions: predicted() };
  const tasks = model.calibration?.tasks;
  return { records, inputs: all, ...out, ...(tasks && { calibrated: predicted(tasks) }) };
}

function firstIds(ids: NonNullable<ExportedTable["ids"]>): bigint[] {
  const first: bigint[] = [];
  for (const { id } of ids.all()) if (first.push(id) === idsMax) break;
  return first;
}

/** Drawn records that the job's rules accept, as training would accept their lines. */
function takenRecords(
  model: ExportedModel,
  of: readonly FeatureInput[],
  encoder: RecordEncoder,
): SampleRecord[] {
  const ids = model.tables.map(({ ids: own }) => {
    return own && firstIds(own);
  });
  const taken: SampleRecord[] = [];
  let refusal: Error | undefined;
  let draws = 0;
  for (const record of drawnRecords(model.checkpoint.job, ids)) {
    try {
      inputsOf(model, of, encoder.encode([record]), [record]);
      taken.push(record);
    } catch (error) {
      if (!(error instanceof InvalidOptionError || error instanceof IdOutOfRangeError)) throw error;
      refusal = error;
    }
    if (taken.length === recordsMax || ++draws === drawsMax) break;
  }
  if (taken.length > 0 || refusal === undefined) return taken;
  const message = `The job's rules refuse every record that was drawn: ${refusal.message}`;
  throw new InvalidOptionError("records", message, { cause: refusal });
}

/** The inputs of a batch, and the looked-up ids of each table with their rows; dynamic ids: -1. */
function inputsOf(
  { tables, checkpoint: { job } }: ExportedModel,
  of: readonly FeatureInput[],
  batch: EncodedBatch,
  records: readonly SampleRecord[],
) {
  const features = featuresOf(job.model);
  const weighted = weightedOf(job.data, shapesOf(job.model));
  const specs = features.map(({ table }) => specOf(tables, table));
  const { lengths, rows, starts } = new LocalRows().take(batch, specs, 0);
  const lookups = tables.map(() => new Map<bigint, number>());
  const inputs: Record<string, readonly unknown[]> = {};
  for (const [i, { name, table }] of features.entries()) {
    const [first = 0, end = 0] = [starts[i], starts[i + 1]];
    const isDynamic = tables[table]?.ids !== undefined;
    const bag = Array.from({ length: end - first }, (_, at) => {
      const row = rows[first + at] ?? 0;
      return isDynamic ? wholeId(row, batch.highs?.[first + at] ?? 0) : BigInt(row);
    });
    for (const id of bag) lookups[table]?.set(id, isDynamic ? -1 : Number(id));
    const { name: input = "", raw } = of[i] ?? {};
    inputs[input] =
      raw === undefined
        ? bag.map((id) => (isDynamic ? String(id) : Number(id)))
        : records.flatMap((record) => rawIdsIn(record, raw));
    inputs[`${name}.lengths`] = [...lengths.subarray(i * batch.samples, (i + 1) * batch.samples)];
    if (weighted[i] === true) {
      inputs[`${name}.weights`] = [...(batch.weights?.subarray(first, end) ?? [])];
    }
  }
  return { inputs, lookups };
}

/** The ids of a drawn record's bag, as text. */
function rawIdsIn(record: SampleRecord, { source: { column, weightSeparator } }: RawIds): string[] {
  const entries = [record[column] ?? []].flat().map(String);
  if (weightSeparator === undefined) return entries;
  return entries.map((entry) => entry.slice(0, entry.lastIndexOf(weightSeparator)));
}

/** Fills in the rows of a table's dynamic ids. Ids without a row keep -1. */
function findIds({ ids }: ExportedTable, lookup: Map<bigint, number>): Map<bigint, number> {
  for (const { id, row } of ids?.all() ?? []) if (lookup.has(id)) lookup.set(id, row);
  return lookup;
}

function specOf(tables: readonly ExportedTable[], table: number) {
  const spec = tables[table]?.stored.spec;
  if (spec === undefined) throw new RangeError(`The model has no table ${table}`);
  return spec;
}

/**
 * Kernels with the arithmetic of training, if this process has them, so that the outputs equal the
 * model's bit for bit.
 */
function kernelsOf(trained: string): Kernels {
  const fastest = openKernels("auto");
  if (fastest.arithmetic === trained) return fastest;
  const reference = openKernels("reference");
  return reference.arithmetic === trained ? reference : fastest;
}

/**
 * A scorer over exported rows. Moving averages and decay are disabled, because the export has
 * already applied them.
 */
function scorerOf({ checkpoint: { job }, dense, graph }: ExportedModel, kernels: Kernels): Scorer {
  const tables = job.model.tables.map((table) => ({ ...table, l2Scope: "touched" as const }));
  const scorer = new Scorer({
    model: { ...job.model, tables },
    optimizer: { ...job.optimizer.sparse, ema: undefined },
    weighted: weightedOf(job.data, shapesOf(job.model)),
    kernels,
  });
  const flat = new Float32Array(graph.layout.length);
  for (const [i, { first }] of graph.layout.parameters.entries()) {
    flat.set(dense[i]?.values ?? [], first);
  }
  scorer.setDense(flat);
  return scorer;
}

/**
 * A table with only the needed rows. Each row stays in its row block, so that sums have the model's
 * order.
 */
function servedTable(
  kernels: Kernels,
  table: ExportedTable,
  rowsOfIds: ReadonlyMap<bigint, number>,
  readRow: ReadRow,
): ServedTable {
  const { dim, pooling, rowBlocks } = table.stored.spec;
  const blockRows = blockRowsOf(table.stored.spec);
  const byBlock = Array.from({ length: rowBlocks }, (): number[] => []);
  const wanted = new Set([...rowsOfIds.values()].filter((row) => row >= 0));
  for (const row of wanted) byBlock[Math.floor(row / blockRows)]?.push(row);
  const most = Math.max(1, ...byBlock.map(({ length }) => length));
  const rows = kernels.rows({ rows: rowBlocks * most, dim, pooling, rowBlocks, stateWidth: 0 });
  const places = new Map<number, number>();
  for (const [block, rowsOfBlock] of byBlock.entries()) {
    for (const [i, row] of rowsOfBlock.entries()) {
      places.set(row, block * most + i);
      kernels.writeRows(rows, block * most + i, readRow(table, row));
    }
  }
  const isDynamic = table.ids !== undefined;
  const find = (low: number, high: number) => {
    const row = rowsOfIds.get(isDynamic ? wholeId(low, high) : BigInt(low)) ?? -1;
    return places.get(row) ?? -1;
  };
  return { rows, places: undefined, base: 0, find };
}

function piecesOf(values: Float32Array, width: number): number[][] {
  return Array.from({ length: values.length / width }, (_, i) => {
    return [...values.subarray(i * width, (i + 1) * width)];
  });
}
