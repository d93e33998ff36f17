// The interface to tensor files of any format for imports: names, shapes, and rows in pieces.

import {
  type DiskFile,
  decode,
  InputUnusableError,
  onDisk,
  type Progress,
} from "../../../internal.ts";

/** Bytes per element of the types that weights may have. */
const floatBytes = { float32: 4, float64: 8, float16: 2, bfloat16: 2 } as const;

/** An element type of weights. */
export type FloatType = keyof typeof floatBytes;

/** A tensor of a file. */
export interface SourceTensor {
  readonly shape: readonly number[];
  /** `float32`, `int64` … */
  readonly type: string;
  /** Verifies its bytes by their checksum, if the format has one. @throws InputUnusableError */
  check(progress: Progress): Promise<void>;
  /** Rows `first` to `first + count - 1` as stored, little-endian; the caller owns the memory. */
  read(first: number, count: number): Uint8Array;
}

/** A tensor with its numbers from byte `start` of a file on. `size`: bytes of an element. */
export function tensorAt(
  file: DiskFile,
  start: number,
  { type, size, shape }: { type: string; size: number; shape: readonly number[] },
): SourceTensor {
  const rowBytes = shape.slice(1).reduce((product, extent) => product * extent, size);
  const read = (first: number, count: number) => {
    const out = new Uint8Array(rowBytes * count);
    onDisk("read", file.path, () => file.read(out, start + rowBytes * first));
    return out;
  };
  return { shape, type, check: async () => {}, read };
}

/** The state of one parameter: tensors by the last component of their name, and a step count. */
export interface ParameterState {
  readonly tensors: ReadonlyMap<string, SourceTensor>;
  /** Undefined: no step count. */
  readonly step: number | undefined;
}

/** The states of all parameters of an optimizer, by number or by name. */
export type OptimizerRecord = ReadonlyMap<number | string, ParameterState>;

/** A file of tensors, open for reading. */
export interface TensorSource {
  readonly path: string;
  readonly format: "PyTorch" | "safetensors" | "ONNX";
  readonly tensors: ReadonlyMap<string, SourceTensor>;
  /** Metadata strings, as written by an export. */
  readonly notes: Readonly<Record<string, string>>;
  /** The optimizer's state, if the file has it. */
  readonly optimizer: OptimizerRecord | undefined;
  close(): void;
}

/** Counts of numbers that the conversion changed or that are not finite. */
export interface Counts {
  /** Numbers of float64 that float32 cannot hold exactly: rounded to nearest. */
  rounded: number;
  /** NaN and infinities, which are kept. */
  notFinite: number;
}

/** Whether weights may have an element type. */
export function isFloat(type: string): type is FloatType {
  return Object.hasOwn(floatBytes, type);
}

/**
 * Rows of a tensor, converted to float32. The bits of float32 values are unchanged.
 * @throws InputUnusableError where a number is too large for float32
 */
export function floatsOf(
  { path }: TensorSource,
  name: string,
  tensor: SourceTensor,
  first: number,
  count: number,
  counts: Counts,
): Float32Array {
  const bytes = tensor.read(first, count);
  const floats = decoded(tensor.type as FloatType, bytes, (value) => {
    const rounded = Math.fround(value);
    if (rounded === value || Number.isNaN(value)) return rounded;
    if (Number.isFinite(rounded)) {
      counts.rounded++;
      return rounded;
    }
    const message = `Expected numbers within the range of float32 in \`${name}\` of ${path}, got ${value}`;
    throw new InputUnusableError(path, message);
  });
  for (const value of floats) if (!Number.isFinite(value)) counts.notFinite++;
  return floats;
}

function decoded(
  type: FloatType,
  { buffer, byteOffset, byteLength }: Uint8Array,
  rounded: (value: number) => number,
): Float32Array {
  const count = byteLength / floatBytes[type];
  switch (type) {
    case "float32":
      return new Float32Array(buffer, byteOffset, count);
    case "float64":
      return Float32Array.from(new Float64Array(buffer, byteOffset, count), rounded);
    case "bfloat16": {
      const bits = Uint32Array.from(
        new Uint16Array(buffer, byteOffset, count),
        (code) => code << 16,
      );
      return new Float32Array(bits.buffer);
    }
    case "float16":
      return Float32Array.from(new Uint16Array(buffer, byteOffset, count), (code) =>
        decode("float16", code, 0),
      );
    default:
      return type satisfies never;
  }
}

/** Names for an error message: the first ones, and the number of the others. */
export function someOf(names: readonly string[], most = 8): string {
  const shown = names.slice(0, most).map((name) => `\`${name}\``);
  const more = names.length - shown.length;
  return more > 0 ? `${shown.join(", ")} and ${more} more` : shown.join(", ");
}
