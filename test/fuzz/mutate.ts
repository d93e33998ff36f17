// Mutates inputs at random: their bytes, or the values of JSON and msgpack. A mutated input depends
// only on a seed, the name of a target and the number of a case.

import { crc32 } from "node:zlib";
import { purposes, RandomStream } from "../../src/ports/random.ts";

/** The stream of random numbers of one case. */
export function streamOf(seed: number, target: string, number: number): RandomStream {
  const own = (seed ^ crc32(Buffer.from(target))) >>> 0;
  return new RandomStream(own + Math.floor(seed / 2 ** 32) * 2 ** 32, purposes.fuzz, number);
}

/** One of `things`, drawn at random. */
export function oneOf<T>(stream: RandomStream, things: readonly T[]): T {
  return things[stream.below(things.length)] as T;
}

/**
 * Numbers that overflow in faulty readers: limits of integers of every width, and their neighbours.
 */
const interesting = [
  0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 4095, 4096, 32_767,
].concat([32_768, 65_535, 65_536, 2 ** 24, 2 ** 28, 2 ** 30, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]);
/** The same for 64 bits. */
const interestingWide = [
  -1n,
  -2n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  2n ** 53n,
  2n ** 53n + 1n,
  2n ** 32n,
];

/** Size of the longest input in bytes. */
const bytesMax = 1 << 18;

/** `bytes` with one to about ten mutations; blocks may come from `others`. */
export function changedBytes(
  stream: RandomStream,
  bytes: Uint8Array,
  others: readonly Uint8Array[],
): Uint8Array {
  let changed = Buffer.from(bytes);
  do changed = Buffer.from(changedOnce(stream, changed, others).subarray(0, bytesMax));
  while (stream.below(3) > 0);
  return changed;
}

function changedOnce(stream: RandomStream, bytes: Buffer, others: readonly Uint8Array[]): Buffer {
  const at = placeIn(stream, bytes.length);
  const length = Math.min(bytes.length - at, 1 + stream.below(1 << stream.below(10)));
  const [before, block, after] = [
    bytes.subarray(0, at),
    bytes.subarray(at, at + length),
    bytes.subarray(at + length),
  ];
  switch (stream.below(13)) {
    case 0: // Cuts off the end.
      return before;
    case 1: // Removes a block.
      return Buffer.concat([before, after]);
    case 2: // Repeats a block.
      return Buffer.concat([
        before,
        ...Array<Buffer>(1 + stream.below(4)).fill(block),
        block,
        after,
      ]);
    case 3: {
      // Inserts random bytes.
      const noise = Buffer.from(Array.from({ length: stream.below(40) }, () => stream.below(256)));
      return Buffer.concat([before, noise, block, after]);
    }
    case 4: {
      // Continues with the end of another input.
      const other = oneOf(stream, others);
      return Buffer.concat([before, other.subarray(placeIn(stream, other.length))]);
    }
    case 5: {
      // Inserts a block of another input.
      const other = oneOf(stream, others);
      const from = placeIn(stream, other.length);
      return Buffer.concat([before, other.subarray(from, from + length), after]);
    }
    case 6:
      return Buffer.concat([
        before,
        Buffer.alloc(length, oneOf(stream, [0, 255, 128, 127])),
        after,
      ]);
    default:
      changeInPlace(stream, bytes, at);
      return bytes;
  }
}

/** Flips a bit, or sets a byte or an integer of up to 8 bytes. */
function changeInPlace(stream: RandomStream, bytes: Buffer, at: number): void {
  if (bytes.length === 0) return;
  const old = bytes[at] ?? 0;
  const kind = stream.below(6);
  if (kind === 0) bytes[at] = old ^ (1 << stream.below(8));
  else if (kind === 1) bytes[at] = stream.below(256);
  else if (kind === 2) bytes[at] = old + oneOf(stream, [1, -1, 2, -2, 16, -16]);
  else if (kind === 3) bytes[at] = oneOf(stream, interesting);
  else {
    const wide = Buffer.alloc(8);
    const value = oneOf(stream, interesting);
    wide.writeBigInt64LE(kind === 4 ? BigInt(value) : oneOf(stream, interestingWide));
    const width = oneOf(stream, [2, 4, 8]);
    const own = wide.subarray(0, width);
    bytes.set((stream.below(2) === 0 ? own : own.reverse()).subarray(0, bytes.length - at), at);
  }
}

/**
 * A position in an input; half of the positions are in its first or last bytes, where counts and
 * offsets are.
 */
function placeIn(stream: RandomStream, length: number): number {
  if (length === 0) return 0;
  const kind = stream.below(4);
  if (kind > 1) return stream.below(length);
  const near = stream.below(Math.min(length, 1 << (4 + stream.below(8))));
  return kind === 0 ? near : length - 1 - near;
}

const strangeTexts = [
  "",
  "__proto__",
  "constructor",
  "toString",
  "a".repeat(5000),
  "\u0000",
  "../../x",
];
const strangeNumbers = [
  0,
  -0,
  -1,
  1.5,
  1e308,
  -1e308,
  5e-324,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  2 ** 53 - 1,
];
const strangeValues = [null, true, false, [], {}, [[]], [null], { "": 0 }];

/** A JSON value with one or more mutations; parts may come from `others`. */
export function changedValue(
  stream: RandomStream,
  value: unknown,
  others: readonly unknown[],
): unknown {
  const changed = structuredClone(value);
  do {
    const holders = holdersIn(changed);
    if (holders.length === 0) return strange(stream, changed);
    const holder = oneOf(stream, holders) as Record<string, unknown>;
    const names = Object.keys(holder);
    const name = oneOf(stream, names);
    const kind = stream.below(8);
    if (kind === 0) {
      if (Array.isArray(holder)) holder.splice(Number(name), 1);
      else delete holder[name];
    } else if (kind === 1) {
      const from = oneOf(stream, holdersIn(oneOf(stream, others)).concat([holder]));
      const own = (from as Record<string, unknown>)[oneOf(stream, Object.keys(from))];
      holder[name] = structuredClone(own);
    } else if (kind === 2) {
      if (Array.isArray(holder)) holder.push(structuredClone(holder[Number(name)]));
      else setOwn(holder, oneOf(stream, strangeTexts), holder[name]);
    } else if (kind === 3) {
      let nested: unknown = holder[name];
      for (let depth = stream.below(1 << stream.below(11)); depth > 0; depth--) nested = [nested];
      holder[name] = nested;
    } else holder[name] = strange(stream, holder[name]);
    if (JSON.stringify(changed).length > bytesMax) return null;
  } while (stream.below(3) > 0);
  return changed;
}

function strange(stream: RandomStream, value: unknown): unknown {
  if (typeof value === "number" && stream.below(2) === 0) {
    return oneOf(stream, [value + 1, value - 1, -value, value * 2, value / 2, String(value)]);
  }
  if (typeof value === "string" && stream.below(2) === 0) {
    return oneOf(stream, [
      `${value}x`,
      value.slice(1),
      value.toUpperCase(),
      value.repeat(3),
      [value],
    ]);
  }
  const values: readonly unknown[] = oneOf<readonly unknown[]>(stream, [
    ...[strangeTexts, strangeNumbers, strangeValues, interesting],
  ]);
  return structuredClone(oneOf(stream, values));
}

/** Sets an own property; even `__proto__` becomes one, as in the result of JSON.parse. */
function setOwn(holder: object, name: string, value: unknown): void {
  const is = { value, writable: true, enumerable: true, configurable: true };
  Object.defineProperty(holder, name, is);
}

/** All non-empty lists and objects within a value. */
function holdersIn(value: unknown, levels = 40): object[] {
  if (typeof value !== "object" || value === null || levels === 0) return [];
  if (ArrayBuffer.isView(value)) return [];
  const inner = Object.values(value).flatMap((one) => holdersIn(one, levels - 1));
  return Object.keys(value).length === 0 ? inner : [value, ...inner];
}
