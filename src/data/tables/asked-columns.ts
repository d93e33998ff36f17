// The columns of a file that a job wants: checks that the file has them and that their types match
// the job, and determines the form in which each is read. Shared by all columnar formats.

import { InvalidOptionError } from "../../errors/errors.ts";
import type { ColumnForm } from "../columnar/column.ts";
import type { Compared } from "../columnar/exact-values.ts";
import { type FieldColumns, missing, namedColumns } from "../columnar/named-columns.ts";
import { type RowTest, rawName, rowTest } from "../columnar/row-filter.ts";
import { transformsOf } from "../data-kinds.ts";
import { partitionsOf } from "../files.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import { type KeyColumn, optionOfKey } from "../split-keys.ts";
import { labelsOf, targetColumnsOf } from "../targets.ts";
import { categoricalOf } from "../text/match-features.ts";
import { planOf, type Source } from "../transforms/plan.ts";
import { unusableAt } from "./damage.ts";

/** The properties of a column that determine whether it can be read as the job wants. */
export interface AskedShape {
  readonly name: string;
  readonly list: "none" | "plain" | "weighted";
  readonly leaf: {
    /** Kind of its values, independent of their storage. */
    readonly kind: "integer" | "fraction" | "boolean" | "text" | "moment";
    /** How `where` compares its values. */
    readonly compared: Compared;
    /** Whether its type is null: the column is missing in every row. */
    readonly isNull?: boolean;
  };
}

export interface FileColumns<Shape> {
  /** Names of the top-level columns, for error messages. */
  readonly names: readonly string[];
  /** The column of a name; undefined if there is none. Throws CorruptFile if it is not readable. */
  readonly shapeOf: (name: string) => Shape | undefined;
}

/**
 * A wanted column and its use, which matters for precision: integers keep 64 bits as ids, 53 as
 * numbers.
 */
export interface WantedColumn<Shape> {
  readonly shape: Shape;
  readonly isId: boolean;
  /**
   * Whether it is read for `where` alone, with all bits of its values. A column that a feature
   * reads as rounded numbers is read a second time this way. @default false
   */
  readonly isRaw?: boolean;
}

/** Key of a column in a batch. */
export function batchName({ shape, isRaw }: WantedColumn<AskedShape>): string {
  return isRaw === true ? rawName(shape.name) : shape.name;
}

/** The columns that a job reads of a file, and the tests of its rows. */
export interface AskedColumns<Shape> {
  readonly columns: FieldColumns;
  /**
   * Column names, to which the field indices of `columns` refer; then the outputs of transforms.
   */
  readonly header: readonly string[];
  readonly wanted: readonly WantedColumn<Shape>[];
  /** Tests that a row must pass to be a sample. */
  readonly tests: readonly RowTest[];
  /** Partition keys that serve as columns, with their values. */
  readonly partitions: ReadonlyMap<string, string | undefined>;
}

/**
 * Determines the columns that a job reads of the file at `path`. `kept` is set for a prediction:
 * labels, weight and group are not read and may be missing, and the columns `kept` are read beside
 * the features.
 * @throws InvalidOptionError if the file lacks a column, or has it with another type
 * @throws InputUnusableError if a column cannot be read
 */
export function askedColumns<Shape extends AskedShape>(
  path: string,
  { names, shapeOf }: FileColumns<Shape>,
  options: ResolvedTableOptions,
  tables: readonly TableShape[],
  {
    key,
    kept,
  }: { readonly key?: KeyColumn | undefined; readonly kept?: readonly string[] | undefined },
): AskedColumns<Shape> {
  const isPrediction = kept !== undefined;
  const roles = [
    ...rolesOf(options, key, isPrediction),
    ...(isPrediction ? keptRoles(kept) : whereRoles(options)),
  ];
  const shapes = new Map<string, Shape>();
  for (const { name } of roles) {
    if (shapes.has(name)) continue;
    try {
      const shape = shapeOf(name);
      if (shape !== undefined) shapes.set(name, shape);
    } catch (cause) {
      throw unusableAt({ kind: options.kind, path, column: name }, cause);
    }
  }
  const targets = isPrediction ? targetColumnsOf(options) : [];
  const inFile = new Set([...names, ...shapes.keys()]);
  const partitions = new Map([...partitionsOf(path)].filter(([name]) => !inFile.has(name)));
  const header = [...new Set([...inFile, ...partitions.keys(), ...targets])];
  const { columns, problems } = namedColumns(options, tables, { path, header }, key);
  const others = isPrediction
    ? absentOf(keptRoles(kept), path, [...inFile, ...partitions.keys()])
    : absentOf(whereRoles(options), path, header);
  const absent = [...problems, ...others];
  const wrong = absent.length > 0 ? absent : roles.flatMap((role) => problemOf(role, shapes, path));
  if (wrong.length > 0) throw InvalidOptionError.ofAll([...wrong]);
  const { outputs } = planOf(transformsOf(options) ?? []);
  const wanted = [...shapes.values()].flatMap((shape) => {
    return wantedAs(
      shape,
      roles.filter(({ name }) => name === shape.name),
    );
  });
  const featuresAlone = { ...columns, labels: [], weight: undefined, group: undefined };
  const tests = (isPrediction ? [] : (options.where ?? [])).map((predicate) => {
    return rowTest(predicate, shapes.get(predicate.column)?.leaf.compared);
  });
  const named = [...header, ...outputs.keys()];
  const own = isPrediction ? featuresAlone : columns;
  return { columns: own, header: named, wanted, tests, partitions };
}

/** The forms in which a column is read for its roles. */
function wantedAs<Shape extends AskedShape>(
  shape: Shape,
  roles: readonly Role[],
): WantedColumn<Shape>[] {
  const { leaf } = shape;
  const others = roles.filter(({ kind }) => kind !== "where");
  const isNumber = others.some(({ kind }) => kind === "number");
  const isText = others.some(({ kind }) => {
    return kind === "id" || kind === "text" || (kind === "kept" && !isNumber);
  });
  // Boolean labels are read as text, `true` and `false`. Integer labels are read as numbers, which
  // lose nothing when printed up to 2^53.
  const isLabelText = others.some(({ kind, isLong = false }) => {
    return kind === "label" && (leaf.kind === "boolean" || (isLong && leaf.kind === "integer"));
  });
  const isId = isText || isLabelText;
  const isCompared = others.length < roles.length;
  const isRaw = isCompared && leaf.compared.raw !== undefined && !(isId && leaf.kind === "integer");
  return [
    ...(others.length > 0 || !isRaw ? [{ shape, isId, isRaw: false }] : []),
    ...(isRaw ? [{ shape, isId, isRaw }] : []),
  ];
}

/** The use of a column by an option of the job. */
interface Role {
  readonly option: string;
  readonly name: string;
  /**
   * `number`: a dense feature or a weight; `text`: a group, or a column whose hash splits the data;
   * `kept`: written beside a prediction.
   */
  readonly kind: "label" | "number" | "text" | "time" | "id" | "where" | "kept";
  readonly list?: "plain" | "weighted" | undefined;
  readonly isHashed?: boolean;
  /** Whether a label that counts as positive is beyond 2^53. */
  readonly isLong?: boolean;
}

function rolesOf(
  options: ResolvedTableOptions,
  key: KeyColumn | undefined,
  isPrediction: boolean,
): Role[] {
  const { weight, group, dense, positive } = options;
  const isLong = [positive].flat().some((one) => Math.abs(Number(one)) > Number.MAX_SAFE_INTEGER);
  const targets: Role[] = [
    ...labelsOf(options).map((name): Role => {
      return { option: "data.label", name, kind: "label", isLong };
    }),
    ...(weight === undefined
      ? []
      : [{ option: "data.weight", name: weight, kind: "number" as const }]),
    ...(group === undefined ? [] : [{ option: "data.group", name: group, kind: "text" as const }]),
  ];
  const { sources, outputs } = planOf(transformsOf(options) ?? []);
  const features: Role[] = [
    ...dense.map(
      ({ column: name }, i): Role => ({ option: `data.dense[${i}]`, name, kind: "number" }),
    ),
    ...categoricalOf(options).map(({ column: name, list, ids }, i): Role => {
      return { option: `data.categorical[${i}]`, name, kind: "id", list, isHashed: ids === "hash" };
    }),
  ];
  return [
    ...(isPrediction ? [] : targets),
    ...(key === undefined ? [] : [keyRole(key)]),
    ...features.filter(({ name }) => !outputs.has(name)),
    ...sources.map(sourceRole),
  ];
}

/**
 * Role of the key column. A slice column may have any type, like a column kept beside predictions.
 */
function keyRole(key: KeyColumn): Role {
  const { kind, column: name } = key.kind === "slice" ? (key.keptBy ?? key) : key;
  const kinds = { hash: "text", time: "time", slice: "kept" } as const;
  return { option: optionOfKey(key), name, kind: kinds[kind] };
}

/** Role of a transform's input. A list that a separator splits from text is no list in the file. */
function sourceRole({ column: name, form, list }: Source): Role {
  const option = "data.transforms";
  if (form === "numbers") return { option, name, kind: "number" };
  return { option, name, kind: "id", list, isHashed: form === "texts" };
}

function whereRoles({ where = [] }: ResolvedTableOptions): Role[] {
  return where.map(({ column: name }, i) => {
    return { option: `data.where[${i}].column`, name, kind: "where" };
  });
}

function keptRoles(kept: readonly string[]): Role[] {
  return kept.map((name) => ({ option: "keep", name, kind: "kept" }));
}

/** The problems of columns that are not among `names`. */
function absentOf(roles: readonly Role[], path: string, names: readonly string[]) {
  return roles.flatMap(({ option, name }) => {
    if (names.includes(name)) return [];
    return { option, message: missing(option, name, path, names, []) };
  });
}

/** The problem of a column in its role, if any. */
function problemOf(
  { option, name, kind, list, isHashed = true }: Role,
  shapes: ReadonlyMap<string, AskedShape>,
  path: string,
): { readonly option: string; readonly message: string }[] {
  const shape = shapes.get(name);
  if (shape === undefined || kind === "kept") return [];
  const refuse = (what: string, advice: string) => {
    const message = `\`${option}\` names the column \`${name}\`, which ${what} in ${path}; ${advice}`;
    return [{ option, message }];
  };
  if (shape.leaf.isNull !== true && shape.list !== (list ?? "none")) {
    const says = shape.list === "none" ? "leave `list` out" : `say \`list: "${shape.list}"\``;
    const advice = kind === "id" ? says : "name a column with one value a row";
    return refuse(listWords[shape.list], advice);
  }
  const { kind: values } = shape.leaf;
  if (kind === "id" && values === "moment") return refuse("holds times", "name another column");
  if (values !== "fraction" && values !== "moment") return [];
  const isText = kind === "text" || (kind === "id" && isHashed);
  const advice = "a hash is of texts and integers: write it as one of them";
  const more = kind === "id" ? `${advice}, or say \`ids: "integer"\`` : advice;
  return isText ? refuse("holds fractions or times", more) : [];
}

const listWords = {
  none: "has one value a row",
  plain: "is a list",
  weighted: "is a list with weights",
};

/**
 * The form in which a column's values are read. As ids, integers are read as ids and booleans as
 * texts.
 */
export function formOf({ shape, isId, isRaw }: WantedColumn<AskedShape>): ColumnForm {
  const { list, leaf } = shape;
  if (isRaw === true && leaf.compared.raw !== undefined) return leaf.compared.raw;
  const mayBeNumbers = !isId && list === "none";
  switch (leaf.kind) {
    case "text":
      return "texts";
    case "boolean":
      return mayBeNumbers ? "numbers" : "texts";
    case "integer":
      return mayBeNumbers ? "numbers" : "ids";
    default:
      return "numbers";
  }
}
