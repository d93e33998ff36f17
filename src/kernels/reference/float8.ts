// The floats of 8 bits, by their definition (contract/precision.ts).

import type { Float8 } from "../contract/precision.ts";

/** Bits of the mantissa, the exponent's bias, the largest number, and the code beyond it. */
const formats = {
  float8e4m3: { mantissa: 3, bias: 7, largest: 448, over: 0x7f },
  float8e5m2: { mantissa: 2, bias: 15, largest: 57_344, over: 0x7c },
} as const;

/** The code of a float32, rounded to nearest, ties to even. All NaN have one code. */
export function encodeFloat8(format: Float8, value: number): number {
  const { mantissa, bias, largest, over } = formats[format];
  const size = Math.abs(value);
  const sign = Object.is(Math.sign(value), -0) || value < 0 ? 0x80 : 0;
  if (Number.isNaN(value)) return 0x7f;
  const power = Math.max(1 - bias, binadeOf(size));
  const steps = roundToEven(size / 2 ** (power - mantissa));
  if (size === Number.POSITIVE_INFINITY || steps * 2 ** (power - mantissa) > largest) {
    return over === 0x7f ? over : sign | over;
  }
  // Subnormals have fewer steps than a binade has; a carry leads to the next binade.
  const binades = power + bias - 1;
  return sign | ((binades << mantissa) + steps);
}

/** The number of a code. */
export function decodeFloat8(format: Float8, code: number): number {
  const { mantissa, bias, largest, over } = formats[format];
  const rest = code & 0x7f;
  const sign = code >= 0x80 ? -1 : 1;
  const power = Math.max(1, rest >> mantissa);
  const steps = rest - ((power - 1) << mantissa);
  const size = steps * 2 ** (power - bias - mantissa);
  if (size <= largest) return sign * size;
  return rest === over && over !== 0x7f ? sign * Number.POSITIVE_INFINITY : Number.NaN;
}

/** The whole e with 2^e <= size < 2^(e + 1), for a float32. */
function binadeOf(size: number): number {
  return size === 0 ? Number.NEGATIVE_INFINITY : exactLog2(size);
}

function exactLog2(size: number): number {
  const near = Math.floor(Math.log2(size));
  return 2 ** near > size ? near - 1 : 2 ** (near + 1) <= size ? near + 1 : near;
}

function roundToEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  return rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down;
}
