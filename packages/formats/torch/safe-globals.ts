// The whitelist of globals that a pickle of torch.save may name, with a harmless implementation of
// each call that returns plain data. Any other name is refused, so no code of a file ever runs.

import {
  Global,
  type Pickled,
  PickledTensor,
  ScalarType,
  Storage,
  type TorchType,
  Tuple,
} from "./pickled-values.ts";

const storageTypes: Readonly<Record<string, TorchType>> = {
  "torch DoubleStorage": "float64",
  "torch FloatStorage": "float32",
  "torch HalfStorage": "float16",
  "torch BFloat16Storage": "bfloat16",
  "torch LongStorage": "int64",
  "torch IntStorage": "int32",
  "torch ShortStorage": "int16",
  "torch CharStorage": "int8",
  "torch ByteStorage": "uint8",
  "torch BoolStorage": "bool",
};

/** Most dimensions of a tensor. */
const rankMax = 8;
/** Most elements of a tensor whose strides repeat numbers of its storage, as `expand` does. */
const repeatedMax = 2 ** 24;

/** Thrown with the reason why a pickle is refused. */
export class CallRefused extends Error {}

type Call = (args: readonly Pickled[]) => Pickled;

const calls: Readonly<Record<string, Call>> = {
  "collections OrderedDict": (args) => {
    if (args.length > 0) throw new CallRefused("an OrderedDict made with arguments");
    return new Map();
  },
  "torch Size": ([items]) => {
    if (!(items instanceof Tuple)) throw new CallRefused("a size that is not made of a tuple");
    return items;
  },
  "torch._utils _rebuild_tensor_v2": tensorOf,
  "torch._utils _rebuild_parameter": ([tensor]) => {
    if (!(tensor instanceof PickledTensor))
      throw new CallRefused("a parameter that is not made of a tensor");
    return tensor;
  },
  "_codecs encode": ([text, encoding]) => {
    if (typeof text !== "string" || encoding !== "latin1" || /[^\0-\xff]/.test(text)) {
      throw new CallRefused("bytes that are not written as text in latin1");
    }
    return Uint8Array.from(Buffer.from(text, "latin1"));
  },
  "numpy dtype": ([code]) => {
    if (typeof code !== "string" || code.length > 8)
      throw new CallRefused("a NumPy dtype without a short code");
    return new ScalarType(code);
  },
  "numpy.core.multiarray scalar": scalarOf,
  "numpy._core.multiarray scalar": scalarOf,
};

/** A global of the whitelist; undefined: the name is not on it. */
export function globalOf(module: string, name: string): Global | undefined {
  const full = `${module} ${name}`;
  const isKnown = Object.hasOwn(calls, full) || Object.hasOwn(storageTypes, full);
  return isKnown ? new Global(full) : undefined;
}

/** The result of calling a global. @throws CallRefused */
export function called({ name }: Global, args: readonly Pickled[]): Pickled {
  const call = Object.hasOwn(calls, name) ? calls[name] : undefined;
  if (call === undefined) throw new CallRefused("a call of the type of a storage");
  return call(args);
}

/** The storage of a persistent id: ('storage', type, key, device, count). @throws CallRefused */
export function storageOf(id: Pickled): Storage {
  const [kind, type, key, , count] = id instanceof Tuple ? id.items : [];
  const elementType = type instanceof Global ? storageTypes[type.name] : undefined;
  if (kind !== "storage" || elementType === undefined)
    throw new CallRefused("a persistent id that is no storage of numbers");
  if (typeof key !== "string" || !/^\w{1,32}$/.test(key)) {
    throw new CallRefused("a storage whose key is not a short name");
  }
  return new Storage(elementType, key, natural(count, "a storage whose count"));
}

/** `_rebuild_tensor_v2`: (storage, offset, size, strides, requires_grad, hooks, metadata) */
function tensorOf(args: readonly Pickled[]): PickledTensor {
  const [storage, offset, size, strides, , , metadata] = args;
  if (!(storage instanceof Storage)) throw new CallRefused("a tensor without a storage");
  const lengths = (value: Pickled | undefined, what: string) => {
    if (!(value instanceof Tuple) || value.items.length > rankMax) {
      throw new CallRefused(`a tensor whose ${what} is not a tuple of at most ${rankMax}`);
    }
    return value.items.map((item) => natural(item, `a tensor whose ${what}`));
  };
  const shape = lengths(size, "size");
  const steps = lengths(strides, "stride");
  if (shape.length !== steps.length)
    throw new CallRefused("a tensor without a stride for each size");
  const first = natural(offset, "a tensor whose offset");
  const elements = shape.reduce((product, extent) => product * extent, 1);
  const last = shape.reduce((sum, extent, i) => sum + (extent - 1) * (steps[i] ?? 0), first);
  if (elements > 0 && !(last < storage.count)) {
    throw new CallRefused(
      `a tensor of (${shape.join(", ")}) that ends at number ${last} of a storage of ${storage.count}`,
    );
  }
  if (elements > Math.max(storage.count, repeatedMax)) {
    throw new CallRefused(
      `a tensor of ${elements} numbers that repeat the ${storage.count} of a storage`,
    );
  }
  return new PickledTensor(storage, first, shape, steps, isNegated(storage, metadata));
}

/**
 * Whether a tensor's metadata has the `neg` flag; PyTorch writes only flags that are set. A view
 * such as `x.conj().imag` is saved this way. Any other flag is refused, as it might change the
 * numbers.
 */
function isNegated({ type }: Storage, metadata: Pickled | undefined): boolean {
  if (metadata === undefined || metadata === null) return false;
  if (!(metadata instanceof Map))
    throw new CallRefused("a tensor whose metadata are not a dictionary");
  for (const [name, value] of metadata) {
    if (value === false || (name === "neg" && value === true)) continue;
    throw new CallRefused(`a tensor whose metadata have \`${String(name).slice(0, 40)}\``);
  }
  const isNegated = metadata.get("neg") === true;
  if (isNegated && !/float/.test(type))
    throw new CallRefused(`a tensor of ${type} that is negated`);
  return isNegated;
}

/** A NumPy scalar: (dtype, bytes), little-endian, as on every machine on which PyTorch runs. */
function scalarOf([type, bytes]: readonly Pickled[]): Pickled {
  if (!(type instanceof ScalarType) || !(bytes instanceof Uint8Array)) {
    throw new CallRefused("a NumPy number without a dtype and bytes");
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read: Readonly<Record<string, () => number | bigint | boolean>> = {
    f8: () => view.getFloat64(0, true),
    f4: () => view.getFloat32(0, true),
    i8: () => view.getBigInt64(0, true),
    u8: () => view.getBigUint64(0, true),
    i4: () => view.getInt32(0, true),
    u4: () => view.getUint32(0, true),
    b1: () => view.getUint8(0) !== 0,
  };
  const readNumber = Object.hasOwn(read, type.code) ? read[type.code] : undefined;
  if (readNumber === undefined || bytes.length !== Number(type.code.slice(1))) {
    throw new CallRefused(`a NumPy number of type ${type.code} in ${bytes.length} bytes`);
  }
  return readNumber();
}

function natural(value: Pickled | undefined, what: string): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw new CallRefused(`${what} is not a whole number`);
}
