// The entries of a ZIP file that torch.load reads: a pickle of protocol 2, and the numbers of each
// tensor in an entry of its own. The caller writes the numbers, in pieces.

/** A contiguous float32 tensor. `numbers`: identifies its source for the caller. */
export class TensorToWrite<T> {
  readonly shape: readonly number[];
  readonly numbers: T;

  constructor(shape: readonly number[], numbers: T) {
    this.shape = shape;
    this.numbers = numbers;
  }
}

/** A value of the pickle. A Map becomes an OrderedDict, like a state dict; an object a dict. */
export type ValueToWrite<T> =
  | null
  | boolean
  | number
  | string
  | TensorToWrite<T>
  | readonly ValueToWrite<T>[]
  | ReadonlyMap<string | number, ValueToWrite<T>>
  | { readonly [key: string]: ValueToWrite<T> };

/** An entry of the file: its name, its size, and its bytes or its tensor. */
export interface EntryToWrite<T> {
  readonly name: string;
  readonly bytes: number;
  readonly contents: Uint8Array | TensorToWrite<T>;
}

/** Name of the folder of all entries; torch.load accepts any. */
const root = "model";
/** Contents of the entry `version`, the version of PyTorch's format. */
const formatVersion = "3\n";

/**
 * The entries of a file with `value`, in their order. `notes`: further entries with text, which
 * torch.load ignores, by name.
 */
export function torchEntries<T>(
  value: ValueToWrite<T>,
  notes: Readonly<Record<string, string>>,
): EntryToWrite<T>[] {
  const tensors: TensorToWrite<T>[] = [];
  const pickle = pickleOf(value, tensors);
  const text = (own: string) => new TextEncoder().encode(own);
  const all: (readonly [string, EntryToWrite<T>["contents"]])[] = [
    ["data.pkl", pickle],
    ["byteorder", text("little")],
    ...Object.entries(notes).map(([name, own]) => [name, text(own)] as const),
    ...tensors.map((tensor, key) => [`data/${key}`, tensor] as const),
    ["version", text(formatVersion)],
  ];
  return all.map(([name, contents]) => {
    const bytes = contents instanceof Uint8Array ? contents.length : 4 * countOf(contents);
    return { name: `${root}/${name}`, bytes, contents };
  });
}

/** The number of elements of a tensor. */
function countOf({ shape }: TensorToWrite<unknown>): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Pickles a value, and appends its tensors to `tensors` in the order of their keys. */
function pickleOf<T>(value: ValueToWrite<T>, tensors: TensorToWrite<T>[]): Uint8Array {
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
  const tensor = (own: TensorToWrite<T>) => {
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
  const dict = (entries: Iterable<[string | number, ValueToWrite<T>]>) => {
    put(0x28);
    for (const [key, value] of entries) {
      if (typeof key === "number") number(key);
      else text(key);
      any(value);
    }
    put(0x75);
  };
  const any = (own: ValueToWrite<T>): void => {
    if (own === null) put(0x4e);
    else if (typeof own === "boolean") put(own ? 0x88 : 0x89);
    else if (typeof own === "number") number(own);
    else if (typeof own === "string") text(own);
    else if (own instanceof Map) {
      ascii("ccollections\nOrderedDict\n)R");
      dict(own);
    } else if (own instanceof TensorToWrite) tensor(own);
    else if (Array.isArray(own)) {
      put(0x5d, 0x28);
      for (const item of own) any(item);
      put(0x65);
    } else {
      put(0x7d);
      dict(Object.entries(own as Readonly<Record<string, ValueToWrite<T>>>));
    }
  };
  put(0x80, 2);
  any(value);
  put(0x2e);
  return Buffer.concat(pieces);
}
