// Which columns of an Arrow schema are readable, and how: flat columns and one level of lists. Any
// other column is refused with its name. The rules are those of Parquet (../parquet/shapes.ts).
//
//   flat      a field, also within structs: `user.id`
//   list      list, large_list, fixed_size_list
//   weighted  map<id, weight>, and lists of struct<id, weight>: the first member is the id

import { Type } from "apache-arrow/fb/type";
import {
  type Compared,
  comparedIntegers,
  comparedUnits,
  integerOf,
} from "../columnar/exact-values.ts";
import type { AskedShape } from "../tables/asked-columns.ts";
import { CorruptFile } from "../tables/damage.ts";
import type { ArrowField, ArrowSchema } from "./metadata.ts";

/** A field that holds values: numbers, times or texts. */
export interface ArrowLeaf {
  readonly field: ArrowField;
  readonly kind: AskedShape["leaf"]["kind"];
  readonly compared: Compared;
  /** Whether the field has the type Null: it has no values. */
  readonly isNull?: boolean;
}

/** How a column is read. */
export interface ArrowShape extends AskedShape {
  /** Child indices that lead to the column's field, from the outermost struct on. */
  readonly path: readonly number[];
  readonly leaf: ArrowLeaf;
  /** The leaf of the weights, if the list is weighted. */
  readonly weights?: ArrowLeaf | undefined;
}

/** Names of the top-level columns, for error messages. */
export function columnNames({ fields }: ArrowSchema): string[] {
  return fields.map(({ name }) => name);
}

/** The column of a name; undefined if there is none. @throws CorruptFile if it is not readable */
export function shapeOf({ fields }: ArrowSchema, name: string): ArrowShape | undefined {
  const found = find(fields, name, []);
  if (found === undefined) return undefined;
  const { field, path } = found;
  if (!isList(field)) return { name, path, list: "none", leaf: leafOf(field) };
  const [entry] = field.children;
  if (entry === undefined) throw new CorruptFile("it is a list of nothing");
  const { children } = entry;
  if (entry.type !== Type.Struct_ || entry.dictionary !== undefined) {
    return { name, path, list: "plain", leaf: idLeaf(entry) };
  }
  const [id, weight, ...others] = children;
  if (id === undefined || weight === undefined || others.length > 0 || isNested(id)) {
    throw new CorruptFile("its entries are neither values nor pairs of id and weight");
  }
  const weights = isNested(weight) ? undefined : leafOf(weight);
  if (weights === undefined || weights.kind === "text" || weights.kind === "moment") {
    throw new CorruptFile(`\`${weight.name}\`, the weight of its entries, is no number`);
  }
  return { name, path, list: "weighted", leaf: idLeaf(id), weights };
}

/**
 * Finds a field by its dotted path. A field's own name may contain dots, so whole names are tried
 * first. @throws CorruptFile if the name is not unique
 */
function find(
  fields: readonly ArrowField[],
  name: string,
  above: readonly number[],
): { readonly field: ArrowField; readonly path: readonly number[] } | undefined {
  const whole = fields.findIndex((one) => one.name === name);
  if (whole !== fields.findLastIndex((one) => one.name === name)) {
    throw new CorruptFile("it is there more than once; give each column a name of its own");
  }
  const field = fields[whole];
  if (field !== undefined) return { field, path: [...above, whole] };
  const outer = fields.findIndex((one) => {
    return name.startsWith(`${one.name}.`) && one.type === Type.Struct_;
  });
  const struct = fields[outer];
  if (struct === undefined) return undefined;
  return find(struct.children, name.slice(struct.name.length + 1), [...above, outer]);
}

/** Whether the field's values are lists. */
export function isList({ type, dictionary }: ArrowField): boolean {
  return listTypes.has(type) && dictionary === undefined;
}

const listTypes = new Set([Type.List, Type.LargeList, Type.FixedSizeList, Type.Map]);

function isNested({ children }: ArrowField): boolean {
  return children.length > 0;
}

/** The leaf of a list's ids. @throws CorruptFile if its values cannot be ids */
function idLeaf(field: ArrowField): ArrowLeaf {
  const leaf = leafOf(field);
  if (leaf.kind !== "fraction" && leaf.kind !== "moment") return leaf;
  throw new CorruptFile(
    "it is a list of fractions or times, and lists are of ids: integers or text",
  );
}

/** The leaf of a field. @throws CorruptFile if it holds neither numbers nor texts */
function leafOf(field: ArrowField): ArrowLeaf {
  const { type, children, name } = field;
  if (type === Type.Struct_ && field.dictionary === undefined) {
    const members = children.map((one) => `\`${name}.${one.name}\``).join(", ");
    throw new CorruptFile(`it is a struct; name one of its members, ${members}`);
  }
  const kind = kinds.get(type);
  if (kind === undefined) {
    throw new CorruptFile(
      `it has the type ${Type[type]?.replace("_", "") ?? type}, which is not read`,
    );
  }
  if (Number.isNaN(field.divisor))
    throw new CorruptFile("it is a decimal of a scale beyond 0 to 22");
  const { bits, dictionary } = field;
  if (!widths.has(bits) || !(widths.has(dictionary?.bits ?? 8) && (dictionary?.bits ?? 8) <= 64)) {
    throw new CorruptFile(`its values have ${dictionary?.bits ?? bits} bits`);
  }
  const isDecimal = type === Type.Decimal;
  if (isDecimal && !decimalBits.has(bits)) throw new CorruptFile(`it is a decimal of ${bits} bits`);
  // Values of zero bytes would let a damaged file claim any number of values.
  if (type === Type.FixedSizeBinary && field.size < 1) {
    throw new CorruptFile(`its values have ${field.size} bytes`);
  }
  const isNull = type === Type.Null && dictionary === undefined;
  return { field, kind, compared: comparedAs(field, kind), ...(isNull && { isNull }) };
}

function comparedAs({ type, bits, divisor }: ArrowField, kind: ArrowLeaf["kind"]): Compared {
  switch (kind) {
    case "text":
      return { type: { kind: "text" } };
    case "boolean":
    case "integer":
      return comparedIntegers(bits);
    case "moment":
      return comparedUnits(true, divisor);
    case "fraction":
      if (type === Type.Decimal) return comparedUnits(false, divisor, integerOf);
      return { type: { kind: "float", bits } };
    default:
      return kind satisfies never;
  }
}

/** Widths of decimals in the Arrow format. */
const decimalBits = new Set([32, 64, 128, 256]);

/** Bits of numbers; 0 for all other types. */
const widths = new Set([0, 8, 16, 32, 64, 128, 256]);

const kinds: ReadonlyMap<Type, ArrowLeaf["kind"]> = new Map([
  [Type.Int, "integer"],
  [Type.FloatingPoint, "fraction"],
  [Type.Decimal, "fraction"],
  [Type.Bool, "boolean"],
  [Type.Date, "moment"],
  [Type.Timestamp, "moment"],
  ...[Type.Utf8, Type.LargeUtf8, Type.Utf8View, Type.Binary, Type.LargeBinary].map(asText),
  ...[Type.BinaryView, Type.FixedSizeBinary, Type.Null].map(asText),
]);

function asText(type: Type): [Type, "text"] {
  return [type, "text"];
}
