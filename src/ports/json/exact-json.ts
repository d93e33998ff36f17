// Parses JSON without loss. `JSON.parse` rounds integers beyond 2^53, moves names that are integers
// before other names, and keeps only the last value of a repeated name. So it silently changes ids,
// and assigns weights to the wrong ids.
//
//   integers                  a number up to 2^53, beyond it a bigint
//   with `.` or `e`           a number: the nearest float64
//   an object repeats a name  an error, as RFC 8259 leaves its meaning open
//   names that are integers   in the order of the text, where objects below the outermost are maps
//
// One scan of the text finds the values that would change. Most texts have none. Otherwise they are
// marked, as text with a unique prefix, and restored in the result of `JSON.parse`.

/** Most levels of nesting, unless the caller sets another limit. */
export const jsonDepthMax = 512;

export interface ExactJsonOptions {
  /** @default jsonDepthMax */
  readonly depthMax?: number;
  /**
   * Called before any object is created; it should throw if there are too many objects or different
   * names. Different names are counted only after the first `namesFree` names, and up to
   * `namesMax`.
   */
  readonly checkSize?: (size: { readonly objects: number; readonly names: number }) => void;
  /**
   * Whether objects below the outermost one may become maps, which keep the order of the text;
   * those with a name that begins with a digit do. @default false
   */
  readonly mayBeMaps?: boolean;
}

/** Parses JSON. @throws SyntaxError if `text` is not JSON, or an object in it repeats a name */
export function parseExactly(
  text: string,
  { depthMax = jsonDepthMax, mayBeMaps = false, checkSize }: ExactJsonOptions = {},
): unknown {
  const { names, depth, objects, different, marks } = survey(text, mayBeMaps);
  if (depth > depthMax) throw new SyntaxError(`at most ${depthMax} levels are read`);
  checkSize?.({ objects, names: different });
  let value: unknown;
  if (marks.length === 0) value = JSON.parse(text);
  else {
    const marker = markerFor(text);
    value = parseMarked(text, marks, marker);
    if (value === undefined) return JSON.parse(text); // Throws, with the position of the error.
    value = restored(value, String.fromCharCode(1).repeat(marker.length / escaped.length));
  }
  if (namesIn(value) === names) return value;
  throw new SyntaxError("an object has a name twice");
}

/** The members of an object from `parseExactly`, in the order of the text. */
export function membersOf(object: object): Iterable<readonly [string, unknown]> {
  return object instanceof Map ? object : Object.entries(object);
}

/**
 * A copy of a value with bigints as numbers, or as text beyond 2^53: for options, whose schemas do
 * not support bigint, and accept such text where all digits matter.
 */
export function longAsText(value: unknown): unknown {
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : String(value);
  }
  if (Array.isArray(value)) return value.map(longAsText);
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, longAsText(one)]));
}

/** `JSON.stringify` for a value from `parseExactly`, for messages. */
export function shownJson(value: unknown): string {
  const shown = JSON.stringify(value, (_, one: unknown) => {
    if (one instanceof Map) return Object.fromEntries(one);
    return typeof one === "bigint" ? String(one) : one;
  });
  return typeof value === "bigint" ? String(value) : (shown ?? String(value));
}

const quote = 0x22;
const backslash = 0x5c;
const [colon, comma, minus, point] = [0x3a, 0x2c, 0x2d, 0x2e];
const [zero, nine] = [0x30, 0x39];
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Integers with at least this many digits may exceed the exact range of float64. */
const longDigits = 16;

/** A part of the text that `JSON.parse` would change: an integer, or the position of a name. */
interface Mark {
  readonly kind: "integer" | "name";
  readonly from: number;
  readonly end: number;
}

interface Survey {
  /** Number of names of all objects, repetitions included. */
  readonly names: number;
  readonly depth: number;
  readonly objects: number;
  /** Number of different names after the first `namesFree`, up to one more than `namesMax`. */
  readonly different: number;
  readonly marks: readonly Mark[];
}

/**
 * The first names of a text are not compared, as most texts have fewer. Parsing a new name costs
 * two microseconds, a repeated name nearly nothing.
 */
const namesFree = 65_536;
/** Most different names that are counted. */
export const namesMax = 65_536;

/** Scans a text, which need not be valid JSON. */
function survey(text: string, marksNames: boolean): Survey {
  let [names, depth, deepest, objects, digits, textFrom, textEnd] = [0, 0, 0, 0, 0, 0, 0];
  const marks: Mark[] = [];
  const different = new Set<string>();
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= zero && code <= nine) {
      if (++digits < longDigits) continue;
      const mark = integerAt(text, at);
      if (mark !== undefined) marks.push(mark);
      while (isDigit(text.charCodeAt(at + 1))) at++;
      continue;
    }
    digits = 0;
    if (code === quote) {
      textFrom = ++at;
      for (let one = text.charCodeAt(at); one !== quote; one = text.charCodeAt(++at)) {
        if (at >= text.length) break;
        if (one === backslash) at++;
      }
      textEnd = at;
    } else if (code === colon) {
      names++;
      if (names > namesFree && different.size <= namesMax) {
        different.add(text.slice(textFrom, textEnd));
      }
      if (marksNames && depth > 1 && isDigitName(text, textFrom)) {
        marks.push({ kind: "name", from: textFrom, end: textFrom });
      }
    } else if (code === point) {
      while (isDigit(text.charCodeAt(at + 1))) at++;
    } else if (code === openObject || code === openList) {
      depth++;
      if (code === openObject) objects++;
      if (depth > deepest) deepest = depth;
    } else if (code === closeObject || code === closeList) depth--;
  }
  return { names, depth: deepest, objects, different: different.size, marks };
}

function isDigit(code: number): boolean {
  return code >= zero && code <= nine;
}

/** Whether a name begins with a digit, which may be escaped. */
function isDigitName(text: string, from: number): boolean {
  const first = text.charCodeAt(from);
  return isDigit(first) || (first === backslash && text.startsWith("\\u003", from));
}

/** The integer that has a digit at `at`; undefined: the text at `at` is not an integer value. */
function integerAt(text: string, at: number): Mark | undefined {
  let [from, end] = [at, at + 1];
  while (isDigit(text.charCodeAt(from - 1))) from--;
  while (isDigit(text.charCodeAt(end))) end++;
  if (text.charCodeAt(from) === zero) return undefined; // Leading zeros are not valid JSON.
  if (text.charCodeAt(from - 1) === minus) from--;
  let [before, after] = [from - 1, end];
  while (isSpace(text.charCodeAt(before))) before--;
  while (isSpace(text.charCodeAt(after))) after++;
  const [left, right] = [text.charCodeAt(before), text.charCodeAt(after)];
  const isValue =
    (before < 0 || left === openList || left === comma || left === colon) &&
    (after >= text.length || right === comma || right === closeList || right === closeObject);
  return isValue ? { kind: "integer", from, end } : undefined;
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}

/** The control character 1, which JSON can express only in this form. */
const escaped = "\\u0001";

/** A prefix that does not occur in the text. */
function markerFor(text: string): string {
  let marker = escaped;
  while (text.includes(marker)) marker += escaped;
  return marker;
}

/** Parses the text with its marked parts as text after a marker; undefined: it is not JSON. */
function parseMarked(text: string, marks: readonly Mark[], marker: string): unknown {
  let [marked, at] = ["", 0];
  for (const { kind, from, end } of marks) {
    marked += text.slice(at, from);
    marked += kind === "name" ? marker : `"${marker}${text.slice(from, end)}"`;
    at = end;
  }
  try {
    return JSON.parse(marked + text.slice(at));
  } catch {
    return undefined;
  }
}

/** Restores the marked integers and names of a value, in place. */
function restored(value: unknown, marker: string): unknown {
  if (typeof value === "string" && value.startsWith(marker)) {
    const exact = BigInt(value.slice(marker.length));
    const number = Number(exact);
    return Number.isSafeInteger(number) ? number : exact;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) value[i] = restored(value[i], marker);
    return value;
  }
  const members = value as Record<string, unknown>;
  let isMarked = false;
  for (const name in members) {
    members[name] = restored(members[name], marker);
    isMarked ||= name.startsWith(marker);
  }
  if (!isMarked) return members;
  const own = (name: string) => (name.startsWith(marker) ? name.slice(marker.length) : name);
  return new Map(Object.entries(members).map(([name, one]) => [own(name), one]));
}

/** Number of names of all objects of a value. */
function namesIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let names = 0;
  if (Array.isArray(value)) {
    for (const one of value) if (typeof one === "object") names += namesIn(one);
  } else if (value instanceof Map) {
    for (const one of value.values()) names += 1 + namesIn(one);
  } else {
    const members = value as Readonly<Record<string, unknown>>;
    for (const name in members) {
      names++;
      const one = members[name];
      if (typeof one === "object") names += namesIn(one);
    }
  }
  return names;
}
