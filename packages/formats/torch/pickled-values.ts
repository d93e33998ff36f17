// The values of a pickle of torch.save as plain data: none of them is code, and nothing is run.

/** The element type of a storage. */
export type TorchType =
  | "float64"
  | "float32"
  | "float16"
  | "bfloat16"
  | "int64"
  | "int32"
  | "int16"
  | "int8"
  | "uint8"
  | "bool";

/** Bytes per element. */
export const torchBytes: Readonly<Record<TorchType, number>> = {
  float64: 8,
  float32: 4,
  float16: 2,
  bfloat16: 2,
  int64: 8,
  int32: 4,
  int16: 2,
  int8: 1,
  uint8: 1,
  bool: 1,
};

/** A storage: numbers in an entry of the file, of which several tensors may be views. */
export class Storage {
  readonly type: TorchType;
  /** Name of the entry within `data/`. */
  readonly key: string;
  readonly count: number;

  constructor(type: TorchType, key: string, count: number) {
    this.type = type;
    this.key = key;
    this.count = count;
  }
}

/** A view of a storage; element (i, j) is number offset + i * strides[0] + j * strides[1]. */
export class PickledTensor {
  readonly storage: Storage;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** PyTorch's `neg` bit: whether its numbers are those of the storage, negated. */
  readonly isNegated: boolean;

  constructor(
    storage: Storage,
    offset: number,
    shape: readonly number[],
    strides: readonly number[],
    isNegated: boolean,
  ) {
    this.storage = storage;
    this.offset = offset;
    this.shape = shape;
    this.strides = strides;
    this.isNegated = isNegated;
  }
}

/** A global of the whitelist, by name. */
export class Global {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** A NumPy dtype by its code, such as `f8`. */
export class ScalarType {
  readonly code: string;

  constructor(code: string) {
    this.code = code;
  }
}

/** A tuple, as distinct from a list. */
export class Tuple {
  readonly items: readonly Pickled[];

  constructor(items: readonly Pickled[]) {
    this.items = items;
  }
}

/** The key of a dictionary. */
export type PickledKey = string | number | boolean | bigint;

/** A dict, or an OrderedDict. */
export type PickledDict = Map<PickledKey, Pickled>;

/** A value of a pickle. */
export type Pickled =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Pickled[]
  | PickledDict
  | Tuple
  | Global
  | ScalarType
  | Storage
  | PickledTensor;

/** A value's kind in Python's terms, for error messages. */
export function kindOf(value: Pickled | undefined): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return "a bool";
  if (typeof value === "number" || typeof value === "bigint") return "a number";
  if (typeof value === "string") return "a str";
  if (value instanceof Uint8Array) return "bytes";
  if (Array.isArray(value)) return "a list";
  if (value instanceof Map) return "a dict";
  if (value instanceof Tuple) return "a tuple";
  if (value instanceof PickledTensor) return "a tensor";
  if (value instanceof Storage) return "a storage";
  return `\`${value instanceof Global ? value.name : "numpy.dtype"}\``;
}
