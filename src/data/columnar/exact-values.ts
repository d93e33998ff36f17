// Numbers and times in texts, also without rounding, and the comparison of a column's cells with a
// bound of the job in the column's own type. A 64-bit integer, a decimal and a time in nanoseconds
// have more digits than a float64; a float32 is compared with the bound rounded to float32.
//
//   integer   a number or a bigint                  the bound: a fraction has its ceiling
//   units     a decimal or a time as it is stored   the bound in these units: cents, nanoseconds
//   float     a float of 16, 32 or 64 bits          the bound rounded to as many bits
//   text      one character per byte                as numbers or dates if both are, else bytes

/** `digits` / 10 ^ `scale`, with as few digits as possible. */
export interface Exact {
  readonly digits: bigint;
  /** At least 0. */
  readonly scale: number;
}

/** A number, or a date in seconds since 1970. */
export interface ExactMoment extends Exact {
  readonly form: "number" | "date";
}

/** Longest text and largest exponent of a number; anything beyond is not treated as a number. */
const charactersMax = 1024;

/**
 * Parses a text as a number or an ISO date, by the rules of `momentOf`; undefined if it is neither.
 */
export function exactOf(text: string): ExactMoment | undefined {
  const trimmed = text.trim();
  if (isNumber(trimmed)) {
    const value = trimmed.length > charactersMax ? Number.NaN : Number(trimmed);
    return Number.isFinite(value) ? { form: "number", ...numberOf(trimmed) } : undefined;
  }
  const date = dateIn(trimmed);
  if (date === undefined) return undefined;
  const { dayMs, seconds, fraction } = date;
  const digits =
    BigInt(dayMs / 1000 + seconds) * 10n ** BigInt(fraction.length) + BigInt(fraction || 0);
  return { form: "date", ...shortened(digits, fraction.length) };
}

function numberOf(text: string): Exact {
  const [mantissa = "", power = "0"] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const exponent = Number(power);
  // A finite number with such an exponent is 0, or negligibly different from it.
  if (Math.abs(exponent) > charactersMax) return { digits: 0n, scale: 0 };
  const digits = BigInt(`${whole}${fraction}`.replace("+", ""));
  const scale = fraction.length - exponent;
  return scale < 0
    ? { digits: digits * 10n ** BigInt(-scale), scale: 0 }
    : shortened(digits, scale);
}

function shortened(digits: bigint, scale: number): Exact {
  let [own, left] = [digits, scale];
  for (; left > 0 && own % 10n === 0n; left--) own /= 10n;
  return { digits: own, scale: left };
}

/** Below 0, 0, or above 0. */
export function compareExact(one: Exact, other: Exact): number {
  const scale = Math.max(one.scale, other.scale);
  const scaled = (each: Exact) => each.digits * 10n ** BigInt(scale - each.scale);
  const [a, b] = [scaled(one), scaled(other)];
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A number, or a date in milliseconds since 1970. */
export interface Moment {
  readonly form: "number" | "date";
  readonly value: number;
}

const decimal = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const isoDate =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?(?:(Z)|([+-])(\d\d):?(\d\d))?)?$/;

/**
 * Parses a number or an ISO date. A date without a zone is UTC, on every host. Undefined for other
 * text, and for a day that does not exist.
 */
export function momentOf(text: string): Moment | undefined {
  const trimmed = text.trim();
  if (decimal.test(trimmed)) {
    const value = Number(trimmed);
    return Number.isFinite(value) ? { form: "number", value } : undefined;
  }
  const date = dateIn(trimmed);
  if (date === undefined) return undefined;
  const { dayMs, seconds, fraction } = date;
  return { form: "date", value: dayMs + 1000 * (seconds + Number(`0.${fraction}`)) };
}

/** Whether a text is a decimal number. */
export function isNumber(text: string): boolean {
  return decimal.test(text);
}

/** An ISO date. */
interface DateParts {
  /** Start of its day, in UTC milliseconds since 1970. */
  readonly dayMs: number;
  readonly seconds: number;
  /** Up to nine digits of a second. */
  readonly fraction: string;
}

/** Parses an ISO date; undefined for other text. */
function dateIn(text: string): DateParts | undefined {
  const parts = isoDate.exec(text);
  if (parts === null) return undefined;
  const numberAt = (place: number) => Number(parts[place] ?? 0);
  const [year, month, day] = [numberAt(1), numberAt(2), numberAt(3)];
  const [hour, minute, second] = [numberAt(4), numberAt(5), numberAt(6)];
  const [zoneHours, zoneMinutes] = [numberAt(10), numberAt(11)];
  if (hour > 23 || minute > 59 || second > 59 || zoneHours > 23 || zoneMinutes > 59)
    return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const zone = (parts[9] === "-" ? -1 : 1) * (60 * zoneHours + zoneMinutes);
  const seconds = 60 * (60 * hour + minute - zone) + second;
  return { dayMs: date.getTime(), seconds, fraction: parts[7]?.slice(1) ?? "" };
}

/** Formats a date as ISO text. */
export function dateOf(value: number): string {
  return new Date(value).toISOString();
}

/** The type of a column's values, as far as comparisons need it. */
export type ColumnType =
  | { readonly kind: "text" }
  /** Booleans are 0 and 1. */
  | { readonly kind: "integer" }
  | { readonly kind: "float"; readonly bits: number }
  | UnitType;

/** A stored integer u stands for u * `each` / 10 ^ `scale`: a number, or seconds since 1970. */
interface UnitType {
  readonly kind: "units";
  readonly isTime: boolean;
  readonly each: bigint;
  readonly scale: number;
}

/** How the cells of a column are read for comparison. */
export interface Compared {
  readonly type: ColumnType;
  /** The form to read that keeps all bits; undefined if the column's own form keeps them. */
  readonly raw?: "ids" | "texts" | undefined;
  /** Converts bytes, read as text, to the integer that they encode. */
  readonly unitsOf?: ((bytes: string) => bigint) | undefined;
}

/** Integers and booleans. Integers of more than 32 bits are read as ids, which have 64 bits. */
export function comparedIntegers(bits: number): Compared {
  return { type: { kind: "integer" }, ...(bits > 32 ? { raw: "ids" } : {}) };
}

/**
 * Decimals and times. `divisor`: stored units per unit of value. `unitsOf`: for values stored as
 * bytes.
 */
export function comparedUnits(
  isTime: boolean,
  divisor: number,
  unitsOf?: (bytes: string) => bigint,
): Compared {
  // A divisor below 1 means units longer than a second, such as days.
  const [each, scale] = divisor < 1 ? [BigInt(Math.round(1 / divisor)), 0] : [1n, scaleOf(divisor)];
  const type = { kind: "units", isTime, each, scale } as const;
  return unitsOf === undefined ? { type, raw: "ids" } : { type, raw: "texts", unitsOf };
}

function scaleOf(divisor: number): number {
  return Math.round(Math.log10(divisor));
}

/** The integer of big-endian bytes in two's complement. */
export function integerOf(bytes: string): bigint {
  if (bytes === "") return 0n;
  const hex = Buffer.from(bytes, "latin1").toString("hex");
  return BigInt.asIntN(8 * bytes.length, BigInt(`0x${hex}`));
}

/** A cell: a text of a text column, otherwise a number or a bigint. */
export type Cell = string | number | bigint;

/**
 * Position of a bound among the possible cells of a column: equal to a cell value (`isExact`), or
 * between it and the next smaller one.
 */
export interface Point {
  readonly at: number | bigint;
  readonly isExact: boolean;
}

/**
 * The position of a bound among numeric cells; undefined if the bound is not comparable with them.
 */
export function pointOf(
  type: Exclude<ColumnType, { kind: "text" }>,
  text: string,
): Point | undefined {
  const moment = momentFor(type, text);
  if (moment === undefined) return undefined;
  if (type.kind === "float") {
    const at = rounded(Number(moment.text), type.bits);
    return { at, isExact: Number.isFinite(at) };
  }
  const { each = 1n, scale = 0 } = type.kind === "units" ? type : {};
  const above = moment.exact.digits * 10n ** BigInt(scale);
  const below = 10n ** BigInt(moment.exact.scale) * each;
  const [whole, rest] = [above / below, above % below];
  const at = rest > 0n ? whole + 1n : whole;
  const number = Number(at);
  return { at: Number.isSafeInteger(number) ? number : at, isExact: rest === 0n };
}

function momentFor(type: ColumnType, text: string): { exact: Exact; text: string } | undefined {
  const exact = exactOf(text);
  const isTime = type.kind === "units" && type.isTime;
  if (exact !== undefined) return isTime || exact.form === "number" ? { exact, text } : undefined;
  // Boolean cells are 0 and 1.
  const digits = isTime ? undefined : { true: 1n, false: 0n }[text];
  return digits === undefined ? undefined : { exact: { digits, scale: 0 }, text: String(digits) };
}

/** Below 0, 0, or above 0. */
export function comparePoint(cell: number | bigint, { at, isExact }: Point): number {
  if (cell < at) return -1;
  return isExact && !(cell > at) ? 0 : 1;
}

/** The nearest float of `bits` bits, ties to even. */
function rounded(value: number, bits: number): number {
  if (bits === 64) return value;
  if (bits === 32) return Math.fround(value);
  const size = Math.abs(value);
  if (!(size > 0)) return value;
  const step = 2 ** (Math.max(Math.floor(Math.log2(size)), -14) - 10);
  const steps = size / step;
  const down = Math.floor(steps);
  const isUp = steps - down > 0.5 || (steps - down === 0.5 && down % 2 === 1);
  const nearest = (isUp ? down + 1 : down) * step;
  return Math.sign(value) * (nearest > 65_504 ? Number.POSITIVE_INFINITY : nearest);
}
