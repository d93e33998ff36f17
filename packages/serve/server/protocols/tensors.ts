// Parses the tensors of an Open Inference Protocol (KServe v2) request: in JSON, or in binary after
// the JSON (the binary tensor data extension). Sizes are checked before anything is allocated.
//
// Sources: kserve/open-inference-protocol, the REST specification, "Tensor Data"; Triton, "Binary
// Tensor Data Extension".

import { RequestUnusableError } from "../../../../internal.ts";

/** An element of a tensor. Integers of 64 bits are bigints; in JSON, only those beyond 2^53 are. */
export type Element = string | number | bigint | boolean;

/** A tensor of a request, with a shape that fits its elements. */
export interface InputTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  /** Elements in row-major order, as many as the shape says. */
  readonly elements: readonly Element[];
}

/** Reads elements of a fixed size. */
interface FixedType {
  readonly bytes: number;
  readonly read: (view: DataView, at: number) => Element;
  /** Least and greatest integer; undefined: not an integer type. */
  readonly range?: readonly [min: number, max: number];
  /** Whether the protocol allows it in binary only. */
  readonly isBinary?: boolean;
}

/** Decodes a 16-bit float (IEEE 754 binary16). */
function halfOf(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 0x1f, bits & 0x3ff];
  const sign = bits >> 15 === 0 ? 1 : -1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent < 0x1f) return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
}

const word = new DataView(new ArrayBuffer(4));

/** Decodes a bfloat16: the upper half of a float32. */
function upperHalfOf(bits: number): number {
  word.setUint32(0, bits << 16);
  return word.getFloat32(0);
}

const integer = (
  bits: number,
  isSigned: boolean,
  read: (view: DataView, at: number) => Element,
): FixedType => {
  const range = isSigned ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
  return { bytes: bits / 8, read, range: range as [number, number] };
};

const fixedTypes: Readonly<Record<string, FixedType>> = {
  BOOL: { bytes: 1, read: (view, at) => view.getUint8(at) !== 0 },
  UINT8: integer(8, false, (view, at) => view.getUint8(at)),
  UINT16: integer(16, false, (view, at) => view.getUint16(at, true)),
  UINT32: integer(32, false, (view, at) => view.getUint32(at, true)),
  UINT64: integer(64, false, (view, at) => view.getBigUint64(at, true)),
  INT8: integer(8, true, (view, at) => view.getInt8(at)),
  INT16: integer(16, true, (view, at) => view.getInt16(at, true)),
  INT32: integer(32, true, (view, at) => view.getInt32(at, true)),
  INT64: integer(64, true, (view, at) => view.getBigInt64(at, true)),
  FP16: { bytes: 2, read: (view, at) => halfOf(view.getUint16(at, true)), isBinary: true },
  BF16: { bytes: 2, read: (view, at) => upperHalfOf(view.getUint16(at, true)), isBinary: true },
  FP32: { bytes: 4, read: (view, at) => view.getFloat32(at, true) },
  FP64: { bytes: 8, read: (view, at) => view.getFloat64(at, true) },
};

const dimensionsMax = 4;
const inputsMax = 20_000;

/**
 * Parses the tensors of a request. `inputs`: from its JSON; `binary`: the bytes after the JSON.
 * @throws RequestUnusableError
 */
export function tensorsOf(inputs: unknown, binary: Uint8Array): InputTensor[] {
  if (!Array.isArray(inputs) || inputs.length === 0) {
    throw new RequestUnusableError("Expected `inputs` to be a list of tensors, at least one");
  }
  if (inputs.length > inputsMax) {
    throw new RequestUnusableError(`Expected at most ${inputsMax} inputs, got ${inputs.length}`);
  }
  let at = 0;
  const seen = new Set<string>();
  const tensors = inputs.map((input: unknown, index) => {
    const about = aboutOf(input, index);
    if (seen.has(about.name)) refuse(about.name, "once, got two inputs with this name");
    seen.add(about.name);
    const bytes = binarySizeOf(input, about.name);
    if (bytes === undefined) return { ...about, elements: listed(about, input) };
    if (at + bytes > binary.length) {
      refuse(about.name, `to have ${bytes} bytes after the JSON, got ${binary.length - at}`);
    }
    const bytesOfTensor = binary.subarray(at, at + bytes);
    at += bytes;
    return { ...about, elements: unpacked(about, bytesOfTensor) };
  });
  if (at === binary.length) return tensors;
  const left = binary.length - at;
  throw new RequestUnusableError(
    `Expected ${at} bytes of tensors after the JSON, got ${left} more`,
  );
}

type About = Omit<InputTensor, "elements"> & { readonly count: number };

function aboutOf(input: unknown, index: number): About {
  if (typeof input !== "object" || input === null) {
    throw new RequestUnusableError(`Expected \`inputs[${index}]\` to be an object`);
  }
  const { name, shape, datatype } = input as Record<string, unknown>;
  if (typeof name !== "string" || name === "") {
    throw new RequestUnusableError(`Expected \`inputs[${index}].name\` to be text`);
  }
  if (typeof datatype !== "string" || !(datatype === "BYTES" || isFixed(datatype))) {
    const known = ["BYTES", ...Object.keys(fixedTypes)].join(", ");
    refuse(name, `to have a \`datatype\` of ${known}`);
  }
  const isShape =
    Array.isArray(shape) &&
    shape.length >= 1 &&
    shape.length <= dimensionsMax &&
    shape.every((size) => Number.isSafeInteger(size) && size >= 0);
  if (!isShape) refuse(name, `to have a \`shape\` of 1 to ${dimensionsMax} integers >= 0`);
  const sizes = shape as number[];
  const count = sizes.reduce((all, size) => all * size, 1);
  if (!Number.isSafeInteger(count)) refuse(name, "to have a `shape` with fewer elements");
  return { name, datatype: datatype as string, shape: sizes, count };
}

function isFixed(datatype: string): boolean {
  return Object.hasOwn(fixedTypes, datatype);
}

function binarySizeOf(input: unknown, name: string): number | undefined {
  const { parameters } = input as { parameters?: unknown };
  if (typeof parameters !== "object" || parameters === null) return undefined;
  const { binary_data_size: size } = parameters as { binary_data_size?: unknown };
  if (size === undefined) return undefined;
  if (Number.isSafeInteger(size) && (size as number) >= 0) return size as number;
  return refuse(name, "to have a `binary_data_size` that is an integer >= 0");
}

/** Reads elements from JSON, nested like the shape or flat. */
function listed({ name, datatype, shape, count }: About, input: unknown): Element[] {
  const { data } = input as { data?: unknown };
  if (fixedTypes[datatype]?.isBinary) refuse(name, `to be binary, as JSON has no ${datatype}`);
  if (!Array.isArray(data)) refuse(name, "to have a list `data` or a `binary_data_size`");
  const flat = (data as unknown[]).flat(shape.length - 1) as unknown[];
  if (flat.length !== count) {
    refuse(name, `to have ${count} elements, as in its shape, got ${flat.length}`);
  }
  const fixed = fixedTypes[datatype];
  for (const [at, one] of flat.entries()) {
    const element = elementOf(one, datatype, fixed);
    if (element === undefined) {
      refuse(name, `to have ${wantedOf(datatype, fixed)}: element ${at} is not`);
    }
    flat[at] = element;
  }
  return flat as Element[];
}

/** Converts a JSON value to an element; undefined: it does not have this type. */
function elementOf(
  one: unknown,
  datatype: string,
  fixed: FixedType | undefined,
): Element | undefined {
  if (datatype === "BYTES") return typeof one === "string" ? one : undefined;
  if (datatype === "BOOL") return typeof one === "boolean" ? one : undefined;
  const { range, bytes = 0 } = fixed ?? {};
  if (range === undefined) return floatOf(one, bytes);
  if (typeof one === "number") {
    const isHeld = Number.isSafeInteger(one) && one >= range[0] && one <= range[1];
    return isHeld ? one : undefined;
  }
  if (typeof one !== "bigint" || bytes < 8) return undefined;
  return (range[0] < 0 ? BigInt.asIntN(64, one) : BigInt.asUintN(64, one)) === one
    ? one
    : undefined;
}

/**
 * Converts a JSON value to a float; null is NaN, which JSON lacks. Undefined: not a value of the
 * type.
 */
function floatOf(one: unknown, bytes: number): number | undefined {
  if (one === null) return Number.NaN;
  if (typeof one !== "number" && typeof one !== "bigint") return undefined;
  const number = Number(one);
  return Number.isFinite(bytes === 4 ? Math.fround(number) : number) ? number : undefined;
}

function wantedOf(datatype: string, fixed: FixedType | undefined): string {
  if (datatype === "BYTES") return "text";
  if (datatype === "BOOL") return "true or false";
  return fixed?.range === undefined
    ? `finite numbers that fit ${datatype}, or null for a missing value`
    : `integers that fit ${datatype}`;
}

/** Reads binary elements: little-endian, without padding; BYTES are prefixed by their length. */
function unpacked({ name, datatype, count }: About, bytes: Uint8Array): Element[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fixed = fixedTypes[datatype];
  if (fixed !== undefined) {
    if (bytes.length !== count * fixed.bytes) {
      refuse(name, `to have ${count * fixed.bytes} bytes, as in its shape, got ${bytes.length}`);
    }
    return Array.from({ length: count }, (_, i) => fixed.read(view, i * fixed.bytes));
  }
  if (4 * count > bytes.length) refuse(name, `to have ${count} texts with their lengths`);
  const text = new TextDecoder();
  const elements: Element[] = [];
  let at = 0;
  while (elements.length < count) {
    const length = at + 4 <= bytes.length ? view.getUint32(at, true) : Number.POSITIVE_INFINITY;
    if (at + 4 + length > bytes.length) {
      refuse(name, `to have ${count} texts: its bytes end in text ${elements.length}`);
    }
    elements.push(text.decode(bytes.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  if (at !== bytes.length) refuse(name, `to end after ${count} texts, got more bytes`);
  return elements;
}

/** Throws a refusal that names the input. */
export function refuse(name: string, wanted: string): never {
  const shown = name.length > 100 ? `${name.slice(0, 97)}...` : name;
  throw new RequestUnusableError(`Expected the input \`${shown}\` ${wanted}`);
}
