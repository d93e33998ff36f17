// A safetensors file: 8 bytes with the length of its header, then the header, JSON with the type,
// shape and byte range of each tensor. Tensors follow the header contiguously. Everything is
// little-endian, as is every machine that Osiris supports.

import { z } from "zod";
import { type DiskFile, InputUnusableError } from "../../../internal.ts";
import { type SourceTensor, type TensorSource, tensorAt } from "../imports/tensor-source.ts";

/** The limit of the format's own readers. */
const headerBytesMax = 100_000_000;
/** The header is padded with spaces, so that the tensors are aligned for typed arrays. */
const alignmentBytes = 8;

/** Element types of the format: Osiris's name, and bytes per element. */
const types: Readonly<Record<string, readonly [string, number]>> = {
  F64: ["float64", 8],
  F32: ["float32", 4],
  F16: ["float16", 2],
  BF16: ["bfloat16", 2],
  I64: ["int64", 8],
  I32: ["int32", 4],
};

/** Bytes per element of a type; 0: the type is unknown. */
function elementBytes(dtype: string): number {
  return (Object.hasOwn(types, dtype) ? types[dtype]?.[1] : undefined) ?? 0;
}

const tensorSchema = z.object({
  dtype: z.string(),
  shape: z.array(z.int().nonnegative()),
  data_offsets: z.tuple([z.int().nonnegative(), z.int().nonnegative()]),
});

/** A tensor in a header. */
export type TensorRecord = z.output<typeof tensorSchema>;

/** A tensor to be written. */
export interface TensorSpec {
  readonly name: string;
  readonly dtype: "I64" | "F32";
  readonly shape: readonly number[];
}

/** The layout of a file: its header, and the offsets of its tensors. */
export interface TensorLayout {
  /** The first bytes of the file. */
  readonly header: Uint8Array;
  /** Offset of each tensor in the file, in the given order. */
  readonly starts: readonly number[];
  /** Bytes of the whole file. */
  readonly bytes: number;
}

/**
 * Lays out tensors contiguously, in the given order. Tensors with 8-byte elements must come first,
 * so that every tensor is aligned. `notes`: metadata strings.
 */
export function layOutTensors(
  tensors: readonly TensorSpec[],
  notes: Readonly<Record<string, string>>,
): TensorLayout {
  let end = 0;
  const records = tensors.map(({ name, dtype, shape }): [string, TensorRecord] => {
    const start = end;
    end += shape.reduce((product, extent) => product * extent, elementBytes(dtype));
    return [name, { dtype, shape: [...shape], data_offsets: [start, end] }];
  });
  const text = JSON.stringify({ __metadata__: notes, ...Object.fromEntries(records) });
  const json = new TextEncoder().encode(text);
  const length = alignmentBytes * Math.ceil(json.length / alignmentBytes);
  const header = new Uint8Array(8 + length).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(length), true);
  header.set(json, 8);
  const starts = records.map(
    ([
      ,
      {
        data_offsets: [start],
      },
    ]) => header.length + start,
  );
  return { header, starts, bytes: header.length + end };
}

/** A parsed header. */
export interface ReadHeader {
  readonly tensors: Readonly<Record<string, TensorRecord>>;
  readonly notes: Readonly<Record<string, string>>;
  /** First byte of the tensors in the file. */
  readonly first: number;
}

/**
 * Reads the header of a safetensors file. `path`: its name in errors.
 * @throws InputUnusableError where the file is no safetensors, or is cut short
 */
export function readTensorHeader(file: DiskFile, path: string): ReadHeader {
  const size = file.size();
  const head = new Uint8Array(8);
  file.read(head, 0);
  const length = Number(new DataView(head.buffer).getBigUint64(0, true));
  if (size < 8 || length > Math.min(headerBytesMax, size - 8)) {
    const message = `Expected a safetensors file, but ${path} is none, or is cut short`;
    throw new InputUnusableError(path, message);
  }
  const json = new Uint8Array(length);
  file.read(json, 8);
  let tensors: Record<string, TensorRecord>;
  let notes: Record<string, string>;
  try {
    const { __metadata__: found = {}, ...rest } = JSON.parse(new TextDecoder().decode(json));
    tensors = z.record(z.string(), tensorSchema).parse(rest);
    notes = z.record(z.string(), z.string()).parse(found);
  } catch (cause) {
    const message = `Expected ${path} to begin with a header of safetensors in JSON`;
    throw new InputUnusableError(path, message, { cause });
  }
  const first = 8 + length;
  const end = endOf(tensors, path);
  if (size === first + end) return { tensors, notes, first };
  const message = `Expected ${path} to have ${first + end} bytes, got ${size}: it is damaged`;
  throw new InputUnusableError(path, message);
}

/**
 * The end of the tensors' bytes, after checking that they are contiguous, as the format requires.
 * Otherwise a small file could declare any number of tensors that share its bytes. @throws
 * InputUnusableError
 */
function endOf(tensors: Readonly<Record<string, TensorRecord>>, path: string): number {
  let end = 0;
  const places = Object.entries(tensors).map(([name, one]) => ({ name, at: one.data_offsets }));
  for (const {
    name,
    at: [begin, last],
  } of places.sort(({ at: one }, { at: other }) => one[0] - other[0] || one[1] - other[1])) {
    if (begin !== end || last < begin) {
      const message = `Expected \`${name}\` of ${path} to lie at byte ${end} of the tensors`;
      throw new InputUnusableError(path, `${message}, got ${begin} to ${last}: it is damaged`);
    }
    end = last;
  }
  return end;
}

/** Opens a file. @throws InputUnusableError where it is cut short, or its header inconsistent */
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
  const size = elementBytes(dtype);
  const [type] = size > 0 ? (types[dtype] ?? [dtype]) : [dtype];
  const bytes = shape.reduce((product, extent) => product * extent, size);
  if (size > 0 && end - begin !== bytes) {
    const message = `Expected \`${name}\` of ${path} to have ${bytes} bytes, got ${end - begin}`;
    throw new InputUnusableError(path, message);
  }
  return tensorAt(file, start + begin, { type, size, shape });
}
