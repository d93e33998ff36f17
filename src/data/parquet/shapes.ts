// Which columns of a schema are readable, and how: flat columns and one level of lists. Any other
// column is refused with its name.
// https://github.com/apache/parquet-format/blob/master/LogicalTypes.md
//
//   flat      a leaf, also within structs: `user.id`
//   list      group LIST { repeated group { element } }, and its older forms: a repeated leaf,
//             group LIST { repeated leaf }
//   weighted  map<id, weight>, and lists of struct<id, weight>: the first member is the id

import type { SchemaElement, SchemaTree } from "hyparquet";
import {
  type Compared,
  comparedIntegers,
  comparedUnits,
  integerOf,
} from "../columnar/exact-values.ts";
import { CorruptFile } from "../tables/damage.ts";
import { leafKey } from "./footer.ts";

/** How the values of a leaf are read. */
export interface Leaf {
  /** Key of its path in the row groups (`leafKey`). */
  readonly path: string;
  readonly element: SchemaElement;
  /** Kind of its values, independent of their storage. */
  readonly kind: "integer" | "fraction" | "boolean" | "text" | "moment";
  /** Whether its integers are unsigned. */
  readonly isUnsigned: boolean;
  /** Divisor of a stored value: a power of ten for decimals, units per second for times, else 1. */
  readonly divisor: number;
  readonly isDecimal: boolean;
  /** How `where` compares its values. */
  readonly compared: Compared;
  /** Definition level of a present value. */
  readonly definitionMax: number;
  /** Whether its logical type is NULL, whatever its physical type is. */
  readonly isNull?: boolean;
}

/** How a column is read. */
export interface ColumnShape {
  readonly name: string;
  readonly list: "none" | "plain" | "weighted";
  readonly leaf: Leaf;
  /** The leaf of the weights, if the list is weighted. */
  readonly weights?: Leaf | undefined;
  /** Lowest definition level at which a list has an entry; 0 for a column without lists. */
  readonly entryLevel: number;
}

/** Names of the top-level columns, for error messages. */
export function columnNames(schema: SchemaTree): string[] {
  // A damaged file may lack a name; such a column is not selectable.
  return schema.children.flatMap(({ element }) => (element.name === undefined ? [] : element.name));
}

/** The column of a name; undefined if there is none. @throws CorruptFile if it is not readable */
export function shapeOf(schema: SchemaTree, name: string): ColumnShape | undefined {
  const found = find(schema, name);
  if (found === undefined) return undefined;
  const { level, node } = found;
  if (isRepeated(node)) return listShape(name, node, level, node);
  if (node.children.length === 0) {
    return { name, list: "none", leaf: leafOf(node, level + optional(node)), entryLevel: 0 };
  }
  const [only, ...others] = node.children;
  if (only === undefined || others.length > 0 || !isRepeated(only)) {
    const members = node.children.map(({ element }) => `\`${name}.${element.name}\``).join(", ");
    throw new CorruptFile(`it is a struct; name one of its members, ${members}`);
  }
  return listShape(name, only, level + optional(node), node);
}

/**
 * Finds the node of a dotted path, and the definition level above it. A node's own name may contain
 * dots, so whole names are tried first.
 */
function find(
  schema: SchemaTree,
  name: string,
): { readonly node: SchemaTree; readonly level: number } | undefined {
  let level = 0;
  let rest = name;
  for (let node: SchemaTree | undefined = schema; node !== undefined; ) {
    const whole: SchemaTree | undefined = node.children.find((one) => one.element.name === rest);
    if (whole !== undefined) return { node: whole, level };
    const inner: SchemaTree | undefined = node.children.find((one) => {
      return rest.startsWith(`${one.element.name}.`) && !isRepeated(one);
    });
    if (inner !== undefined) {
      level += optional(inner);
      rest = rest.slice(inner.element.name.length + 1);
    }
    node = inner;
  }
  return undefined;
}

/**
 * The shape of a list. `repeated`: the repeated node; `outer`: the column's node, possibly the
 * same.
 */
function listShape(
  name: string,
  repeated: SchemaTree,
  level: number,
  outer: SchemaTree,
): ColumnShape {
  const entryLevel = level + 1;
  const element = elementOf(repeated, outer);
  const at = entryLevel + (element === repeated ? 0 : optional(element));
  if (element.children.length === 0) {
    return { name, list: "plain", leaf: idLeaf(leafOf(element, at)), entryLevel };
  }
  const [id, weight, ...others] = element.children;
  const isPair = id !== undefined && weight !== undefined && others.length === 0;
  if (!isPair || [id, weight].some((one) => one.children.length > 0 || isRepeated(one))) {
    throw new CorruptFile("its entries are neither values nor pairs of id and weight");
  }
  const leaf = idLeaf(leafOf(id, at + optional(id)));
  const weights = leafOf(weight, at + optional(weight));
  if (weights.kind === "text" || weights.kind === "moment") {
    throw new CorruptFile(`\`${weight.element.name}\`, the weight of its entries, is no number`);
  }
  return { name, list: "weighted", leaf, weights, entryLevel };
}

/** Checks the leaf of a list's ids. @throws CorruptFile if its values cannot be ids */
function idLeaf(leaf: Leaf): Leaf {
  if (leaf.kind !== "fraction" && leaf.kind !== "moment") return leaf;
  throw new CorruptFile(
    "it is a list of fractions or times, and lists are of ids: integers or text",
  );
}

/** The node of an element: in maps and in older forms of lists, the repeated node itself. */
function elementOf(repeated: SchemaTree, outer: SchemaTree): SchemaTree {
  const [only, ...others] = repeated.children;
  if (only === undefined || others.length > 0) return repeated;
  const { name } = repeated.element;
  const isOlder = name === "array" || name === `${outer.element.name}_tuple`;
  return isOlder ? repeated : only;
}

function isRepeated({ element }: SchemaTree): boolean {
  return element.repetition_type === "REPEATED";
}

function optional({ element }: SchemaTree): number {
  return element.repetition_type === "OPTIONAL" ? 1 : 0;
}

function leafOf({ element, path }: SchemaTree, definitionMax: number): Leaf {
  const own = kindOf(element);
  return {
    path: leafKey(path),
    element,
    definitionMax,
    ...own,
    compared: comparedAs(element, own),
    ...(element.logical_type?.type === "NULL" && { isNull: true }),
  };
}

function comparedAs({ type }: SchemaElement, { kind, divisor, isDecimal }: Kind): Compared {
  switch (kind) {
    case "text":
      return { type: { kind: "text" } };
    case "boolean":
      return comparedIntegers(1);
    case "integer":
      return comparedIntegers(type === "INT64" ? 64 : 32);
    case "moment":
      return type === "INT96" ? comparedUnits(true, 1e9, int96Of) : comparedUnits(true, divisor);
    case "fraction":
      if (!isDecimal) return { type: { kind: "float", bits: floatBits[type ?? ""] ?? 64 } };
      return comparedUnits(false, divisor, type?.startsWith("INT") ? undefined : integerOf);
    default:
      return kind satisfies never;
  }
}

/** Bits of a float by its physical type; FIXED_LEN_BYTE_ARRAY holds float16. */
const floatBits: Readonly<Record<string, number>> = {
  FLOAT: 32,
  DOUBLE: 64,
  FIXED_LEN_BYTE_ARRAY: 16,
};

const nanosecondsPerDay = 86_400n * 10n ** 9n;

/** Nanoseconds since 1970 of an INT96 time: signed nanoseconds of the day, then a Julian day. */
export function int96Of(bytes: string): bigint {
  const own = Buffer.from(bytes, "latin1");
  const days = BigInt(own.readInt32LE(8) - 2_440_588);
  return days * nanosecondsPerDay + own.readBigInt64LE(0);
}

type Kind = Pick<Leaf, "kind" | "isUnsigned" | "divisor" | "isDecimal">;

/** The kind of a leaf's values. @throws CorruptFile if it holds neither numbers nor texts */
function kindOf(element: SchemaElement): Kind {
  const { type, converted_type: converted, logical_type: logical } = element;
  const kind = (name: Leaf["kind"], divisor = 1): Kind => {
    return { kind: name, isUnsigned: false, divisor, isDecimal: false };
  };
  if (logical?.type === "DECIMAL" || converted === "DECIMAL") {
    const scale = element.scale ?? (logical?.type === "DECIMAL" ? logical.scale : 0);
    // Powers of ten up to 10^22 are exact, so that the quotient is the double nearest the decimal.
    if (scale < 0 || scale > 22) throw new CorruptFile(`it is a decimal of the scale ${scale}`);
    const { type_length: bytes = 0 } = element;
    if (type === "FIXED_LEN_BYTE_ARRAY" && bytes > decimalBytesMax) {
      throw new CorruptFile(
        `it is a decimal of ${bytes} bytes, more than the limit of ${decimalBytesMax}`,
      );
    }
    return { ...kind("fraction", 10 ** scale), isDecimal: true };
  }
  if (logical?.type === "TIMESTAMP") return kind("moment", perSecond[logical.unit] ?? 1);
  if (converted === "TIMESTAMP_MILLIS") return kind("moment", 1e3);
  if (converted === "TIMESTAMP_MICROS") return kind("moment", 1e6);
  if (logical?.type === "DATE" || converted === "DATE") return kind("moment", 1 / 86_400);
  const isRefused = refused.has(logical?.type ?? "") || refused.has(converted ?? "");
  switch (isRefused ? undefined : type) {
    case "BOOLEAN":
      return kind("boolean");
    case "INT32":
    case "INT64": {
      const isUnsigned =
        converted?.startsWith("UINT_") || (logical?.type === "INTEGER" && !logical.isSigned);
      return { ...kind("integer"), isUnsigned: isUnsigned === true };
    }
    case "INT96":
      return kind("moment");
    case "FLOAT":
    case "DOUBLE":
      return kind("fraction");
    case "BYTE_ARRAY":
      return kind("text");
    case "FIXED_LEN_BYTE_ARRAY":
      return kind(logical?.type === "FLOAT16" ? "fraction" : "text");
    default:
      throw new CorruptFile(
        `it has the type ${logical?.type ?? converted ?? type}, which is not read`,
      );
  }
}

/** Most bytes of a decimal: 76 digits, the maximum of Arrow (decimal256), take 32. */
const decimalBytesMax = 32;

const perSecond: Readonly<Record<string, number>> = { MILLIS: 1e3, MICROS: 1e6, NANOS: 1e9 };

const refused = new Set([
  ...["TIME", "TIME_MILLIS", "TIME_MICROS", "INTERVAL", "UUID", "BSON"],
  ...["VARIANT", "GEOMETRY", "GEOGRAPHY"],
]);
