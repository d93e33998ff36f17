// Reads tensors from a safetensors file as a `TensorSource`.

import { type DiskFile, InputUnusableError, onDisk } from "../../../internal.ts";
import { readTensorHeader, type TensorRecord } from "../safetensors/header.ts";
import type { SourceTensor, TensorSource } from "./tensor-source.ts";

/** Element types of the format: Osiris's name, and bytes per element. */
const types: Readonly<Record<string, readonly [string, number]>> = {
  F64: ["float64", 8],
  F32: ["float32", 4],
  F16: ["float16", 2],
  BF16: ["bfloat16", 2],
  I64: ["int64", 8],
  I32: ["int32", 4],
};

/** Opens the file. @throws InputUnusableError where it is cut short, or its header inconsistent */
export function openSafetensors(file: DiskFile, path: string): TensorSource {
  const { tensors: records, notes, first } = readTensorHeader(file, path);
  const tensors = new Map<string, SourceTensor>();
  for (const [name, record] of Object.entries(records)) {
    tensors.set(name, tensorOf(file, path, name, record, first));
  }
  const close = () => file.close();
  return { path, format: "safetensors", tensors, notes, optimizer: undefined, close };
}

function tensorOf(
  file: DiskFile,
  path: string,
  name: string,
  { dtype, shape, data_offsets: [begin, end] }: TensorRecord,
  start: number,
): SourceTensor {
  const [type, size] = (Object.hasOwn(types, dtype) ? types[dtype] : undefined) ?? [dtype, 0];
  const bytes = shape.reduce((product, extent) => product * extent, size);
  if (size > 0 && end - begin !== bytes) {
    const message = `Expected \`${name}\` of ${path} to have ${bytes} bytes, got ${end - begin}`;
    throw new InputUnusableError(path, message);
  }
  const rowBytes = shape.slice(1).reduce((product, extent) => product * extent, size);
  return {
    shape,
    type,
    check: async () => {},
    read(first, count) {
      const out = new Uint8Array(rowBytes * count);
      onDisk("read", path, () => file.read(out, start + begin + rowBytes * first));
      return out;
    },
  };
}
