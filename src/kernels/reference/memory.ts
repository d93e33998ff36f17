// Tensors in JavaScript's memory, which the reference and the native kernels use. A tensor is a
// shape and a typed array; parts and reshapes share the array's memory.

import {
  type Kernels,
  type Rows,
  type RowsMemory,
  type RowsSpec,
  rowsExtent,
  type Tensor,
} from "../contract/kernels.ts";
import {
  type Codes,
  createExponents,
  decodeRow,
  encodeRow,
  type Precision,
  weightBytes,
} from "../contract/precision.ts";

/** Elements of a tensor: float32, or float64 if the reference kernels check gradients. */
export type Values = Float32Array | Float64Array;

/** A tensor of a CPU kernel. */
export class HostTensor implements Tensor {
  readonly shape: readonly number[];
  readonly data: Values;

  constructor(shape: readonly number[], data: Values) {
    this.shape = shape;
    this.data = data;
  }
}

/** The elements of a tensor made by one of the CPU implementations. */
export function valuesOf(t: Tensor): Values {
  return (t as HostTensor).data;
}

/** Number of elements in a shape. */
export function sizeOf(shape: readonly number[]): number {
  let size = 1;
  for (const extent of shape) size *= extent;
  return size;
}

/** The kernels that only move memory, on zeroed elements from `allocate`. */
export function createMemory(allocate: (length: number) => Values) {
  const tensor = (shape: readonly number[]): HostTensor =>
    new HostTensor(shape, allocate(sizeOf(shape)));
  return {
    tensor,
    // Shared memory is float32, whatever the precision of the arithmetic.
    view: (buffer, byteOffset, shape) =>
      new HostTensor(shape, new Float32Array(buffer, byteOffset, sizeOf(shape))),
    part(t, first, count) {
      const width = sizeOf(t.shape.slice(1));
      const data = valuesOf(t).subarray(first * width, (first + count) * width);
      return new HostTensor([count, ...t.shape.slice(1)], data);
    },
    reshape: (t, shape, first = 0) =>
      new HostTensor(shape, valuesOf(t).subarray(first, first + sizeOf(shape))),
    write: (t, values) => valuesOf(t).set(values),
    read: (t) => Float32Array.from(valuesOf(t)),
    fill: (t, value) => void valuesOf(t).fill(value),
    copy: (out, from) => valuesOf(out).set(valuesOf(from)),
    firstNonFinite: (t) => valuesOf(t).findIndex((value: number) => !Number.isFinite(value)),
    copyColumns,
    copyRuns(out, from, runs) {
      for (let at = 0; at < runs.length; at += 3) {
        copyColumns(out, runs[at]!, from, runs[at + 1]!, runs[at + 2]!);
      }
    },
    scaleColumns,
    rows: (spec) => reserve(tensor, spec),
    readRows,
    writeRows,
  } satisfies Partial<Kernels>;
}

function scaleColumns(t: Tensor, first: number, columns: number, factor: number): void {
  const values = valuesOf(t);
  const samples = t.shape[0]!;
  const width = samples === 0 ? 0 : values.length / samples;
  for (let sample = 0; sample < samples; sample++) {
    const at = sample * width + first;
    for (let i = at; i < at + columns; i++) values[i] = values[i]! * factor;
  }
}

function copyColumns(
  out: Tensor,
  outFirst: number,
  from: Tensor,
  fromFirst: number,
  columns: number,
): void {
  const [to, source] = [valuesOf(out), valuesOf(from)];
  const samples = out.shape[0]!;
  const outWidth = samples === 0 ? 0 : to.length / samples;
  const fromWidth = samples === 0 ? 0 : source.length / samples;
  for (let b = 0; b < samples; b++) {
    const [at, read] = [b * outWidth + outFirst, b * fromWidth + fromFirst];
    for (let c = 0; c < columns; c++) to[at + c] = source[read + c]!;
  }
}

function reserve(
  tensor: (shape: readonly number[]) => Tensor,
  spec: Parameters<Kernels["rows"]>[0],
): Rows {
  const { rows, dim, pooling, rowBlocks, precision = "float32" } = spec;
  const { blockRows = Math.max(1, Math.ceil(rows / rowBlocks)) } = spec;
  const { firstRow = 0, firstColumn = 0, tableDim = dim } = spec;
  const own = spec.memory === undefined ? allocateRows(tensor, spec) : openRows(spec, spec.memory);
  return {
    rows,
    dim,
    pooling,
    rowBlocks,
    blockRows,
    firstRow,
    firstColumn,
    tableDim,
    precision,
    ...own,
    averaged: spec.averaged ?? false,
    ...(spec.names !== undefined && { names: spec.names }),
  };
}

type RowArrays = Pick<Rows, "weights" | "codes" | "exponents" | "state" | "touched">;

/** Allocates the arrays, zeroed. */
function allocateRows(
  tensor: (shape: readonly number[]) => Tensor,
  { rows, dim, stateWidth, precision = "float32" }: RowsSpec,
): RowArrays {
  return {
    weights: tensor([precision === "float32" ? rows : 0, dim]),
    codes: reserveCodes(tensor, precision, rows * dim),
    exponents: createExponents(precision, rows, dim),
    state: tensor([rows, stateWidth]),
    touched: reserveMarks(tensor, rows),
  };
}

/** Opens the arrays in shared memory. */
function openRows(spec: RowsSpec, { buffer, at }: RowsMemory): RowArrays {
  const { rows, dim, stateWidth, precision = "float32" } = spec;
  const { weights, exponents, state, touched } = rowsExtent(spec);
  const floats = (from: number, height: number, width: number) =>
    new HostTensor([height, width], new Float32Array(buffer, at + from, height * width));
  const isWhole = precision === "float32";
  const codes = isWhole ? 0 : rows * dim;
  const quanta = exponents.rowBytes * rows;
  return {
    weights: floats(weights.at, isWhole ? rows : 0, dim),
    codes:
      precision === "int8"
        ? new Int8Array(buffer, at + weights.at, codes)
        : new Uint16Array(buffer, at + weights.at, codes),
    exponents: new Int8Array(buffer, at + exponents.at, quanta),
    state: floats(state.at, rows, stateWidth),
    touched: new Uint8Array(buffer, at + touched.at, rows),
  };
}

/** Allocates a byte for each row, in memory of the allocator of tensors. */
function reserveMarks(tensor: (shape: readonly number[]) => Tensor, rows: number): Uint8Array {
  const { buffer, byteOffset } = valuesOf(tensor([Math.ceil(rows / 4)]));
  return new Uint8Array(buffer, byteOffset, rows);
}

/** Allocates codes, in memory of the allocator of tensors. */
function reserveCodes(
  tensor: (shape: readonly number[]) => Tensor,
  precision: Precision,
  length: number,
): Codes {
  const count = precision === "float32" ? 0 : length;
  const { buffer, byteOffset } = valuesOf(
    tensor([Math.ceil((count * weightBytes(precision)) / 4)]),
  );
  return precision === "int8"
    ? new Int8Array(buffer, byteOffset, count)
    : new Uint16Array(buffer, byteOffset, count);
}

function readRows(rows: Rows, first: number, count: number): Float32Array {
  const { dim, precision } = rows;
  if (precision === "float32") {
    return Float32Array.from(valuesOf(rows.weights).subarray(first * dim, (first + count) * dim));
  }
  const weights = new Float32Array(count * dim);
  for (let i = 0; i < count; i++) {
    decodeRow(weights.subarray(i * dim, (i + 1) * dim), rows, first + i);
  }
  return weights;
}

function writeRows(rows: Rows, first: number, weights: Float32Array): void {
  const { dim, precision } = rows;
  if (precision === "float32") {
    valuesOf(rows.weights).set(weights, first * dim);
    return;
  }
  for (let i = 0; i * dim < weights.length; i++) {
    encodeRow(rows, first + i, weights.subarray(i * dim, (i + 1) * dim));
  }
}
