// Reads a safetensors file by the format's specification, without code of the product.

import { readFileSync } from "node:fs";

export interface FileTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The tensor's numbers: float32, or int64 as bigints. */
  readonly values: Float32Array | BigInt64Array;
}

/** All tensors of a small file, in the order of their bytes, and its metadata. */
export function readTensorFile(path: string) {
  const bytes = readFileSync(path);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + length));
  const { __metadata__: notes, ...records } = header;
  const tensors = new Map<string, FileTensor>();
  let end = 0;
  const entries = Object.entries<{ dtype: string; shape: number[]; data_offsets: number[] }>(
    records,
  ).sort(([, a], [, b]) => (a.data_offsets[0] ?? 0) - (b.data_offsets[0] ?? 0));
  for (const [name, { dtype, shape, data_offsets: at }] of entries) {
    const [from = 0, to = 0] = at;
    if (from !== end) throw new Error(`${name} begins at ${from}, and not at ${end}`);
    end = to;
    const own = new Uint8Array(bytes.subarray(8 + length + from, 8 + length + to)).buffer;
    const values = dtype === "I64" ? new BigInt64Array(own) : new Float32Array(own);
    const size = shape.reduce((product, extent) => product * extent, 1);
    if (values.length !== size) throw new Error(`${name} has ${values.length} of ${size} numbers`);
    tensors.set(name, { dtype, shape, values });
  }
  if (8 + length + end !== bytes.length) throw new Error(`${path} has bytes behind its tensors`);
  return { tensors, notes: notes as Record<string, string> };
}

/** The bits of a tensor's numbers. */
export function bitsOf(tensor: FileTensor | undefined): Uint32Array {
  const { buffer } = tensor?.values ?? new Float32Array();
  return new Uint32Array(buffer);
}
