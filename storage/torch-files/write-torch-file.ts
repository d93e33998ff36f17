// Writes a file that torch.load reads: a ZIP of stored entries with a pickle of protocol 2, and the
// numbers of each tensor in an entry of its own, at a multiple of 64 bytes. Numbers pass through in
// pieces.

import { crc32 } from "node:zlib";
import type { DiskFile } from "../../src/ports/disk.ts";
import type { Progress } from "../disk/progress.ts";
import { layZipOut } from "./lay-zip-out.ts";

/** A tensor of float32 to be written, contiguous. */
export interface WrittenTensor {
  readonly shape: readonly number[];
  /** Its numbers in row-major order; each piece may be overwritten by the next. */
  pieces(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** A value of the pickle. A Map is an OrderedDict, as a state dict is; an object is a dict. */
export type WrittenValue =
  | null
  | boolean
  | number
  | string
  | WrittenTensor
  | ReadonlyMap<string, WrittenValue>
  | { readonly [key: string]: WrittenValue };

/** Name of the folder of all entries; any will do. */
const root = "model";
/** Version of PyTorch's format, in an entry of its own. */
const formatVersion = "3\n";

/**
 * Writes the file front to back, but for the headers of entries, which have their check sums.
 * `notes`: texts that torch.load leaves alone, by the names of entries. `longMin`: for tests.
 */
export async function writeTorchFile(
  file: DiskFile,
  value: WrittenValue,
  notes: Readonly<Record<string, string>>,
  progress: Progress,
  longMin?: number,
): Promise<void> {
  const tensors: WrittenTensor[] = [];
  const pickle = pickleOf(value, tensors);
  const text = (name: string, own: string) => ({ name, whole: new TextEncoder().encode(own) });
  const small = [
    { name: "data.pkl", whole: pickle },
    text("byteorder", "little"),
    ...Object.entries(notes).map(([name, own]) => text(name, own)),
  ];
  const entries = [
    ...small.map(({ name, whole }) => ({ name, bytes: whole.length, pieces: () => [whole] })),
    ...tensors.map((tensor, key) => {
      return { name: `data/${key}`, bytes: 4 * countOf(tensor), pieces: () => tensor.pieces() };
    }),
    { name: "version", bytes: 2, pieces: () => [new TextEncoder().encode(formatVersion)] },
  ];
  const named = entries.map(({ name, bytes }) => ({ name: `${root}/${name}`, bytes }));
  const layout = layZipOut(named, longMin);
  progress.expect(layout.end);
  const sums: number[] = [];
  for (const [i, entry] of entries.entries()) {
    const start = layout.starts[i] ?? 0;
    let [at, sum] = [start, 0];
    for await (const piece of entry.pieces()) {
      file.write(piece, at);
      sum = crc32(piece, sum);
      at += piece.length;
      for (const _ of progress.count([piece]));
    }
    if (at !== start + entry.bytes) throw new RangeError(`${entry.name} has another length`);
    const header = layout.header(i, sum);
    file.write(header.bytes, header.at);
    sums.push(sum);
  }
  file.write(layout.directory(sums), layout.end);
}

/** Numbers of a tensor. */
function countOf({ shape }: WrittenTensor): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** The pickle of a value; its tensors, in the order of their keys. */
function pickleOf(value: WrittenValue, tensors: WrittenTensor[]): Uint8Array {
  const pieces: Uint8Array[] = [];
  const put = (...bytes: number[]) => void pieces.push(Uint8Array.from(bytes));
  const ascii = (text: string) => void pieces.push(new TextEncoder().encode(text));
  const word = (value: number) => [0, 8, 16, 24].map((shift) => (value >>> shift) & 0xff);
  const text = (own: string) => {
    const bytes = new TextEncoder().encode(own);
    put(0x58, ...word(bytes.length));
    pieces.push(bytes);
  };
  const number = (own: number) => {
    if (Number.isInteger(own) && own >= -(2 ** 31) && own < 2 ** 31 && !Object.is(own, -0)) {
      put(0x4a, ...word(own));
    } else if (Number.isSafeInteger(own) && !Object.is(own, -0)) {
      const bytes = new Uint8Array(8);
      new DataView(bytes.buffer).setBigInt64(0, BigInt(own), true);
      put(0x8a, 8, ...bytes);
    } else {
      const bytes = new Uint8Array(8);
      new DataView(bytes.buffer).setFloat64(0, own, false);
      put(0x47, ...bytes);
    }
  };
  const tuple = (items: readonly number[]) => {
    put(0x28);
    for (const item of items) number(item);
    put(0x74);
  };
  const tensor = (own: WrittenTensor) => {
    const { shape } = own;
    ascii("ctorch._utils\n_rebuild_tensor_v2\n((");
    text("storage");
    ascii("ctorch\nFloatStorage\n");
    text(String(tensors.length));
    text("cpu");
    number(countOf(own));
    ascii("tQ");
    tensors.push(own);
    number(0);
    tuple(shape);
    tuple(shape.map((_, i) => shape.slice(i + 1).reduce((product, extent) => product * extent, 1)));
    put(0x89);
    ascii("ccollections\nOrderedDict\n)RtR");
  };
  const dict = (entries: Iterable<[string, WrittenValue]>) => {
    put(0x28);
    for (const [key, own] of entries) {
      text(key);
      any(own);
    }
    put(0x75);
  };
  const any = (own: WrittenValue): void => {
    if (own === null) put(0x4e);
    else if (typeof own === "boolean") put(own ? 0x88 : 0x89);
    else if (typeof own === "number") number(own);
    else if (typeof own === "string") text(own);
    else if (own instanceof Map) {
      ascii("ccollections\nOrderedDict\n)R");
      dict(own);
    } else if (isTensor(own)) tensor(own);
    else {
      put(0x7d);
      dict(Object.entries(own as Readonly<Record<string, WrittenValue>>));
    }
  };
  put(0x80, 2);
  any(value);
  put(0x2e);
  return Buffer.concat(pieces);
}

function isTensor(value: object): value is WrittenTensor {
  return "pieces" in value && typeof value.pieces === "function";
}
