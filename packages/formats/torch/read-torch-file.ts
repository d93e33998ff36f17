// Reads a torch.save file: its value as plain data, and the numbers of its tensors by rows, for any
// strides. Tensors are never loaded whole.

import { crc32 } from "node:zlib";
import {
  type Disk,
  type DiskFile,
  InputUnusableError,
  onDisk,
  type Progress,
  proofName,
  readZip,
  type ZipEntry,
} from "../../../internal.ts";
import { type Pickled, type PickledTensor, torchBytes } from "./pickled-values.ts";
import { unpickle } from "./unpickle.ts";

/** A file of torch.save. */
export interface TorchFile {
  readonly value: Pickled;
  /** The text of another entry, such as `extra/osiris.json`; undefined: no such entry. */
  note(name: string): string | undefined;
  /**
   * Reads all bytes of a tensor's storage and verifies their checksum, once per storage. @throws
   * InputUnusableError
   */
  check(tensor: PickledTensor, progress: Progress): Promise<void>;
  /** Rows `first` to `first + count - 1`, row-major, little-endian, in the tensor's type. */
  read(tensor: PickledTensor, first: number, count: number): Uint8Array;
  close(): void;
}

/** Most bytes of the pickle, and of a note. */
const [pickleBytesMax, noteBytesMax] = [2 ** 26, 2 ** 26];
/** Bytes read at a time for a checksum. */
const checkedBytes = 2 ** 20;
/** Largest stride for which a run is read in one piece, including the gaps. */
const strideMax = 8;

/** The entry with the job and digest of an Osiris export; torch.load ignores it. */
export const notesEntry = "extra/osiris.json";

/** The first bytes of a file of PyTorch before 1.6: a pickled magic number, in protocol 2. */
export const legacyMagic = Uint8Array.of(
  0x80,
  0x02,
  0x8a,
  0x0a,
  0x6c,
  0xfc,
  0x9c,
  0x46,
  0xf9,
  0x20,
);

/** Opens the file. @throws InputUnusableError where it is not a valid torch.save file */
export function openTorchFile(file: DiskFile, path: string): TorchFile {
  const refuse = (why: string) => {
    return new InputUnusableError(path, `Expected ${path} to be a file of torch.save: ${why}`);
  };
  const entries = readZip(file, refuse);
  if (entries.has(proofName)) {
    const message = `Expected a model of another program, but ${path} is one of Osiris already`;
    throw new InputUnusableError(
      path,
      `${message}: name it in the place of a checkpoint directory`,
    );
  }
  const root = rootOf(entries, refuse);
  const entry = (name: string) => entries.get(`${root}/${name}`);
  const bytesOf = (own: ZipEntry, most: number) => {
    if (own.bytes > most) throw refuse(`its entry \`${own.name}\` has ${own.bytes} bytes`);
    const bytes = new Uint8Array(own.bytes);
    onDisk("read", path, () => file.read(bytes, own.start));
    if (crc32(bytes) !== own.crc) throw refuse(damaged(own));
    return bytes;
  };
  const textOf = (name: string) => {
    const note = entry(name);
    return note && new TextDecoder().decode(bytesOf(note, noteBytesMax));
  };
  const order = textOf("byteorder")?.trim();
  if (order !== undefined && order !== "little") {
    throw refuse(
      `its numbers are ${order}-endian; save the model again on a little-endian machine`,
    );
  }
  const pickle = entry("data.pkl");
  if (pickle === undefined) throw refuse("it has no entry `data.pkl`");
  const value = unpickle(bytesOf(pickle, pickleBytesMax), path);
  const checked = new Set<string>();
  /** The entry with a tensor's numbers, after checking its length against the storage. */
  const numbersOf = ({ storage }: PickledTensor): ZipEntry => {
    const stored = entry(`data/${storage.key}`);
    const bytes = storage.count * torchBytes[storage.type];
    if (stored === undefined) throw refuse(`its entry \`data/${storage.key}\` is missing`);
    if (stored.bytes === bytes) return stored;
    const needed = `${storage.count} numbers of ${storage.type}, which are ${bytes} bytes`;
    throw refuse(
      `its pickle gives entry \`${stored.name}\` ${needed}, but the entry has ${stored.bytes} bytes`,
    );
  };
  return {
    value,
    note: textOf,
    async check(tensor, progress) {
      const numbers = numbersOf(tensor);
      if (checked.has(numbers.name)) return;
      checked.add(numbers.name);
      progress.expect(numbers.bytes);
      const buffer = new Uint8Array(Math.min(checkedBytes, numbers.bytes));
      let sum = 0;
      for (let at = 0; at < numbers.bytes; at += buffer.length) {
        const piece = buffer.subarray(0, Math.min(buffer.length, numbers.bytes - at));
        onDisk("read", path, () => file.read(piece, numbers.start + at));
        for (const bytes of progress.count([piece])) sum = crc32(bytes, sum);
        await progress.breathe();
      }
      if (sum !== numbers.crc) throw refuse(damaged(numbers));
    },
    read(tensor, first, count) {
      const rows = readRows(file, path, tensor, numbersOf(tensor), first, count);
      return tensor.isNegated ? negated(rows, torchBytes[tensor.storage.type]) : rows;
    },
    close: () => file.close(),
  };
}

/** Opens a path. @throws as `openTorchFile` */
export function openTorchPath(path: string, disk: Disk): TorchFile {
  const file = onDisk("open", path, () => disk.open(path, "read"));
  try {
    return openTorchFile(file, path);
  } catch (error) {
    file.close();
    throw error;
  }
}

function damaged({ name }: ZipEntry): string {
  const other = "or was written with `torch.serialization.set_crc32_options(False)`";
  return `the checksum of its entry \`${name}\` is wrong: the file is damaged, ${other}`;
}

/** The name of the folder that contains all entries. */
function rootOf(entries: ReadonlyMap<string, ZipEntry>, refuse: (why: string) => Error): string {
  const roots = [...entries.keys()].flatMap((name) => {
    const [root = "", ...rest] = name.split("/");
    return rest.join("/") === "data.pkl" ? [root] : [];
  });
  const [root, second] = roots;
  if (root === undefined || second !== undefined) {
    throw refuse(`it has ${roots.length} entries \`…/data.pkl\`, expected one`);
  }
  if (!entries.has(`${root}/constants.pkl`)) return root;
  throw refuse("it is a TorchScript program; save the state dict, `torch.save(m.state_dict(), …)`");
}

/** Negates floats of `size` bytes in place, by flipping the highest bit of their last byte. */
function negated(floats: Uint8Array, size: number): Uint8Array {
  for (let at = size - 1; at < floats.length; at += size) floats[at] = (floats[at] ?? 0) ^ 0x80;
  return floats;
}

/** See `TorchFile.read`. */
function readRows(
  file: DiskFile,
  path: string,
  { offset, shape, strides, storage }: PickledTensor,
  entry: ZipEntry,
  first: number,
  count: number,
): Uint8Array {
  const size = torchBytes[storage.type];
  // Axes from the last to the first: extent, stride in the file, and stride in the result.
  const axes: { readonly count: number; readonly from: number; readonly to: number }[] = [];
  let inner = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const extent = i === 0 ? count : (shape[i] ?? 0);
    if (extent !== 1) axes.push({ count: extent, from: strides[i] ?? 0, to: inner });
    inner *= extent;
  }
  const out = new Uint8Array(size * inner);
  if (out.length === 0) return out;
  const start = entry.start + size * (offset + first * (strides[0] ?? 0));
  const take = (bytes: Uint8Array, at: number) => {
    const read = onDisk("read", path, () => file.read(bytes, at));
    if (read !== bytes.length)
      throw new InputUnusableError(path, `Cannot read ${path}: the file ended`);
  };
  if (axes.every(({ from, to }) => from === to)) {
    take(out, start);
    return out;
  }
  // Reads runs along the axis with the smallest stride, and iterates over all other axes.
  const [run = { count: 1, from: 1, to: 1 }, ...others] = axes.toSorted(
    (a, b) => (a.from || Infinity) - (b.from || Infinity),
  );
  const isNear = run.from <= strideMax;
  const window = new Uint8Array(size * (isNear ? (run.count - 1) * run.from + 1 : 1));
  const runs = others.reduce((product, axis) => product * axis.count, 1);
  for (let index = 0; index < runs; index++) {
    let [rest, from, to] = [index, 0, 0];
    for (const axis of others) {
      const index = rest % axis.count;
      rest = Math.floor(rest / axis.count);
      from += index * axis.from;
      to += index * axis.to;
    }
    if (isNear) take(window, start + size * from);
    for (let i = 0; i < run.count; i++) {
      if (!isNear) take(window, start + size * (from + i * run.from));
      const at = isNear ? size * i * run.from : 0;
      out.set(window.subarray(at, at + size), size * (to + i * run.to));
    }
  }
  return out;
}
