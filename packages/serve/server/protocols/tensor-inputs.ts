// Converts the tensors of a request: to records, with a tensor per column of the job; or to an
// encoded batch, with the names of the ONNX export (packages/formats/docs/export.md).
//
//   column             shape (B) or (B,1): a value per record; (B,L): a list of L values per record
//   column.lengths     (B): for a column of shape (N), the length of each record's list
//   FEATURE.rows       (N), with FEATURE.lengths (B), and FEATURE.weights (N) if it has weights
//   FEATURE.ids        (N): instead of rows, for a table with 64-bit ids
//   dense              (B,D)
//
// B records, N = ids of all records, concatenated. A NaN is a missing value.

import {
  featuresOf,
  type JobSpec,
  type RecordValue,
  RequestTooLargeError,
  RequestUnusableError,
  type SampleRecord,
} from "../../../../internal.ts";
import type { ScoringCall } from "../models/engine.ts";
import { type Element, type InputTensor, refuse } from "./tensors.ts";

const lengthsSuffix = ".lengths";

/**
 * Converts tensors to a request. A shape with a zero dimension can claim any number of records in
 * no bytes: the number is checked against `samplesMax` before anything is allocated per record.
 * @throws RequestUnusableError if shapes do not fit together, or a name is unknown
 * @throws RequestTooLargeError
 */
export function callOf(
  tensors: readonly InputTensor[],
  { model }: Pick<JobSpec, "model">,
  samplesMax: number,
): ScoringCall {
  const names = new Set(encodedInputs(model));
  const isEncoded = tensors.some(({ name }) => names.has(name));
  return isEncoded ? encodedOf(tensors, model, samplesMax) : recordsOf(tensors, samplesMax);
}

function checkSamples(samples: number, samplesMax: number): void {
  if (samples > samplesMax) throw new RequestTooLargeError("samples", samplesMax, samples);
}

/** The names of the id tensors of all features: 64-bit ids, or rows. */
export function encodedInputs(model: JobSpec["model"]): string[] {
  return featuresOf(model).map(({ name, table }) => {
    return `${name}.${model.tables[table]?.idBits === 64 ? "ids" : "rows"}`;
  });
}

function recordsOf(tensors: readonly InputTensor[], samplesMax: number): ScoringCall {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const lengthsOf = ({ name }: InputTensor) => byName.get(`${name}${lengthsSuffix}`);
  const isLengths = ({ name }: InputTensor) =>
    name.endsWith(lengthsSuffix) && byName.has(name.slice(0, -lengthsSuffix.length));
  const columns = tensors.filter((tensor) => !isLengths(tensor));
  const [first] = columns;
  const count = first === undefined ? 0 : ((lengthsOf(first) ?? first).shape[0] ?? 0);
  checkSamples(count, samplesMax);
  // Without a prototype, so that a tensor may have any name.
  const records: Record<string, RecordValue | RecordValue[]>[] = Array.from({ length: count }, () =>
    Object.create(null),
  );
  for (const column of columns) {
    const values = valuesOf(column, lengthsOf(column), count);
    for (const [i, record] of records.entries()) record[column.name] = values[i];
  }
  return { kind: "records", records: records as SampleRecord[] };
}

/** A value or a list for each record. */
function valuesOf(
  column: InputTensor,
  lengths: InputTensor | undefined,
  count: number,
): (RecordValue | RecordValue[])[] {
  const { name, shape, elements } = column;
  const values = elements.map(recordValueOf);
  if (lengths !== undefined) {
    const counts = lengthsIn(lengths, count);
    checkSum(column, counts);
    let at = 0;
    return counts.map((length) => {
      at += length;
      return values.slice(at - length, at);
    });
  }
  const [records = 0, width = 1, ...more] = shape;
  if (records !== count)
    refuse(name, `to have ${count} records, as the other inputs have, got ${records}`);
  if (more.length > 0) refuse(name, "to have the shape [B], [B,1] or [B,L]");
  if (shape.length === 1 || width === 1) return values;
  return Array.from({ length: count }, (_, i) => values.slice(i * width, (i + 1) * width));
}

function recordValueOf(element: Element): RecordValue {
  return typeof element === "number" && Number.isNaN(element) ? null : element;
}

function lengthsIn({ name, shape, elements }: InputTensor, count: number): number[] {
  if (shape.length !== 1 || shape[0] !== count) refuse(name, `to have the shape [${count}]`);
  return elements.map((element) => {
    const length = Number(element);
    if (Number.isSafeInteger(length) && length >= 0) return length;
    return refuse(name, "to have integers >= 0");
  });
}

function checkSum({ name, shape, elements }: InputTensor, lengths: readonly number[]): void {
  const sum = lengths.reduce((all, length) => all + length, 0);
  if (shape.length === 1 && sum === elements.length) return;
  refuse(name, `to have the shape [${sum}], the sum of its lengths, got [${shape.join(",")}]`);
}

function encodedOf(
  tensors: readonly InputTensor[],
  model: JobSpec["model"],
  samplesMax: number,
): ScoringCall {
  const features = featuresOf(model);
  const left = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const take = (name: string): InputTensor | undefined => {
    const tensor = left.get(name);
    left.delete(name);
    return tensor;
  };
  const given = take("dense");
  const inputs = encodedInputs(model);
  const isWide = features.map(({ table }) => model.tables[table]?.idBits === 64);
  const parts = features.map(({ name }, i) => ({
    rows: take(inputs[i] ?? "") ?? refuse(inputs[i] ?? "", "with the other features"),
    lengths: take(`${name}${lengthsSuffix}`) ?? refuse(`${name}.lengths`, "with its feature"),
    weights: take(`${name}.weights`),
  }));
  const [unknown] = left.keys();
  if (unknown !== undefined) refuse(unknown, "to be an encoded input of the model");
  const samples = parts[0]?.lengths.shape[0] ?? given?.shape[0] ?? 0;
  checkSamples(samples, samplesMax);
  const lengths = parts.map((part) => {
    const lengths = lengthsIn(part.lengths, samples);
    checkSum(part.rows, lengths);
    if (part.weights !== undefined) checkSum(part.weights, lengths);
    return lengths;
  });
  const isWeighted = parts.some(({ weights }) => weights !== undefined);
  const total = lengths.flat().reduce((all, length) => all + length, 0);
  const weights = parts.flatMap((part) => numbersIn(part.weights));
  if (isWeighted && weights.length !== total) {
    throw new RequestUnusableError("Expected weights of all features, or of none");
  }
  // Rows need no upper halves, so requests with rows only avoid bigints.
  const ids = parts.map(({ rows }, i) => (isWide[i] === true ? idsIn(rows) : rowsIn(rows)));
  const isAnyWide = isWide.includes(true);
  return {
    kind: "batch",
    batch: {
      samples,
      dense: denseOf(given, samples, model.dense),
      lengths: Int32Array.from(lengths.flat()),
      ids: Int32Array.from(ids.flatMap((own) => Array.from<bigint | number, number>(own, lowOf))),
      highs: isAnyWide
        ? Int32Array.from(ids.flatMap((own) => Array.from<bigint | number, number>(own, highOf)))
        : undefined,
      weights: isWeighted ? Float32Array.from(weights) : undefined,
    },
  };
}

/** The 32-bit halves of an id in a batch. A row is its own lower half. */
function lowOf(id: bigint | number): number {
  return typeof id === "number" ? id : Number(BigInt.asIntN(32, id));
}

function highOf(id: bigint | number): number {
  return typeof id === "number" ? 0 : Number(id >> 32n);
}

function denseOf(dense: InputTensor | undefined, samples: number, width: number): Float32Array {
  if (width === 0 && dense === undefined) return new Float32Array();
  if (dense?.shape.length !== 2 || dense.shape[0] !== samples || dense.shape[1] !== width) {
    refuse("dense", `to have the shape [${samples},${width}]`);
  }
  return Float32Array.from(numbersIn(dense));
}

function numbersIn(tensor: InputTensor | undefined): number[] {
  if (tensor === undefined) return [];
  if (tensor.datatype === "BYTES") refuse(tensor.name, "to have numbers, got BYTES");
  const numbers = tensor.elements.map(Number);
  const isHeld = (number: number) => Number.isFinite(Math.fround(number));
  if (!numbers.every(isHeld)) refuse(tensor.name, "to have finite numbers that fit float32");
  return numbers;
}

/** Reads 64-bit ids: integers in binary or JSON, or text. */
function idsIn({ name, datatype, elements }: InputTensor): bigint[] {
  return elements.map((element) => {
    const isInteger =
      typeof element === "bigint" ||
      Number.isSafeInteger(element) ||
      (typeof element === "string" && /^-?\d{1,19}$/.test(element));
    const id = isInteger ? BigInt(element as bigint) : undefined;
    if (id !== undefined && BigInt.asIntN(64, id) === id) return id;
    return refuse(name, `to have 64-bit integers as ids, got another value of ${datatype}`);
  });
}

/** Reads rows of a table: 31 bits. The engine checks whether the table has them. */
function rowsIn(tensor: InputTensor): number[] {
  const rows = numbersIn(tensor);
  for (const row of rows) {
    if (!(Number.isInteger(row) && row >= 0 && row < 2 ** 31)) {
      refuse(tensor.name, "to have rows of a table, integers >= 0");
    }
  }
  return rows;
}
