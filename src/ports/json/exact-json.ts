// Reads JSON without a loss. `JSON.parse` rounds integers beyond 2^53, puts names that are integers
// before others, and of a name that is there twice it drops the first value: an id is then another
// id, and a weight another one's, without a word.
//
//   integers                 a number up to 2^53, beyond it a bigint
//   with `.` or `e`          a number: the nearest float64
//   an object repeats a name  refused, as RFC 8259 leaves its meaning open
//   names that are integers  in the order of the text, where objects below the outermost are maps
//
// One look over the text finds what would be lost. Most texts have nothing of it. In others it is
// marked, as text with a beginning that nothing else has, and restored in what `JSON.parse` makes.

/** Levels of nesting that are read, unless the caller sets fewer. */
export const jsonDepthMax = 512;

export interface ExactJsonOptions {
  /** @default jsonDepthMax */
  readonly depthMax?: number;
  /**
   * Called before any object is made: it throws where there are too many objects, or different
   * names. Of names, only those behind the first `namesFree` are compared, and up to `namesMax`.
   */
  readonly checkSize?: (size: { readonly objects: number; readonly names: number }) => void;
  /**
   * Whether an object below the outermost one may come as a map, which has its members in the order
   * of the text; it does where a name begins with a digit. @default false
   */
  readonly mayBeMaps?: boolean;
}

/** Parses JSON. @throws SyntaxError if `text` is no JSON, or an object in it repeats a name */
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
    if (value === undefined) return JSON.parse(text); // Throws what is wrong with it.
    value = restored(value, String.fromCharCode(1).repeat(marker.length / escaped.length));
  }
  if (namesIn(value) === names) return value;
  throw new SyntaxError("an object has a name twice");
}

/** The members of an object as `parseExactly` has it, in the order of the text. */
export function membersOf(object: object): Iterable<readonly [string, unknown]> {
  return object instanceof Map ? object : Object.entries(object);
}

/**
 * A value with its integers as numbers, and as text beyond 2^53: for options, whose schemas know no
 * bigint, and take such text where all digits count.
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

/** As `JSON.stringify`, of a value that `parseExactly` made: for messages. */
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

/** Digits of an integer that float64 may not hold. */
const longDigits = 16;

/** What `JSON.parse` would change: an integer, or the inner text of a name. */
interface Mark {
  readonly kind: "integer" | "name";
  readonly from: number;
  readonly end: number;
}

interface Survey {
  /** Names of all objects, each as often as it is there. */
  readonly names: number;
  readonly depth: number;
  readonly objects: number;
  /** Different names behind the first ones, up to one more than `namesMax`. */
  readonly different: number;
  readonly marks: readonly Mark[];
}

/**
 * Names that are not compared: most texts have fewer. A name that is new costs two microseconds
 * when it is parsed, one that was there before nearly nothing.
 */
const namesFree = 65_536;
/** Different names that are counted. */
export const namesMax = 65_536;

/** One look over a text, which need not be JSON. */
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

/** The integer one of whose digits lies at `at`; undefined: what is there is no integer. */
function integerAt(text: string, at: number): Mark | undefined {
  let [from, end] = [at, at + 1];
  while (isDigit(text.charCodeAt(from - 1))) from--;
  while (isDigit(text.charCodeAt(end))) end++;
  if (text.charCodeAt(from) === zero) return undefined; // No JSON.
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

/** The control character 1, which JSON has in this form alone. */
const escaped = "\\u0001";

/** What no text of a JSON begins with. */
function markerFor(text: string): string {
  let marker = escaped;
  while (text.includes(marker)) marker += escaped;
  return marker;
}

/** The value with what is marked as text, its marker before it; undefined: it is no JSON. */
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

/** A value, in place, with what was marked as it is. */
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

/** Names of all objects of a value. */
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
