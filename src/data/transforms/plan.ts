// The inputs and outputs of a job's transforms, and the checks that they fit together, before any
// row is read. Dense features need numbers, categorical features ids or texts; and no transform may
// read the label, unless the job sets `labelAsFeature`.

import { ops } from "./ops.ts";
import { circleOf, expanded, inputsOf, outputsOf } from "./order.ts";
import type { Transform, TransformInput } from "./transform-options.ts";
import type { ColumnType, TransformForm } from "./values.ts";

/** A column of the file, and the form in which a transform reads it. */
export interface Source {
  readonly column: string;
  readonly form: TransformForm;
  readonly separator?: string | undefined;
  readonly weightSeparator?: string | undefined;
  /** Whether the column holds lists, plain or weighted; undefined for a single value or text. */
  readonly list?: "plain" | "weighted" | undefined;
}

/** A problem of an entry: its path, the expectation, and the value found. */
export interface TransformProblem {
  readonly path: (string | number)[];
  readonly error: string;
  readonly input: unknown;
}

/** The inputs of the transforms from the file, and their outputs. */
export interface TransformPlan {
  /** Sources in the order of the transforms, each once. */
  readonly sources: readonly Source[];
  /** Types by the name of the output. */
  readonly outputs: ReadonlyMap<string, ColumnType>;
}

/** The plan of transforms that are free of problems. */
export function planOf(transforms: readonly Transform[]): TransformPlan {
  const outputs = typesOf(transforms, []);
  const sources = new Map<string, Source>();
  for (const transform of transforms) {
    for (const { source } of readsOf(transform)) {
      if (!outputs.has(source.column)) sources.set(keyOf(source), source);
    }
  }
  return { sources: [...sources.values()], outputs };
}

/** Key of a source; equal sources are read once. */
export function keyOf({ column, form, separator, weightSeparator, list }: Source): string {
  return JSON.stringify([column, form, separator ?? "", weightSeparator ?? "", list ?? ""]);
}

/** All problems of a job's transforms. */
export function problemsOf(transforms: readonly Transform[]): TransformProblem[] {
  const problems: TransformProblem[] = [];
  const seen = new Map<string, number>();
  for (const [index, transform] of transforms.entries()) {
    for (const output of outputsOf(transform)) {
      const other = seen.get(output);
      if (other !== undefined) {
        const error = `the name of no other output, and transforms[${other}] makes \`${output}\``;
        problems.push({ path: [index, "output"], error, input: output });
        break;
      }
      seen.set(output, index);
    }
  }
  if (problems.length > 0) return problems;
  const circle = circleOf(transforms);
  if (circle !== undefined) {
    const way = circle.names.join(" from ");
    const error = `no output that is made of the transform itself (${way})`;
    return [{ path: circle.path, error, input: circle.names.at(1) }];
  }
  typesOf(transforms, problems);
  return problems;
}

interface Read {
  readonly source: Source;
  readonly path: readonly (string | number)[];
  readonly takes: readonly TransformForm[];
}

/** The inputs of a transform, each with the form in which a column of the file is read for it. */
export function readsOf(transform: Transform): Read[] {
  const allTakes = transform.op === "sampling" ? [["ids" as const]] : ops[transform.op].takes;
  return inputsOf(transform).map(({ input, path }, i) => {
    const takes: readonly TransformForm[] = allTakes[i] ?? [];
    return { source: { ...input, form: fileForm(transform, input, takes) }, path, takes };
  });
}

/** The form in which a column of the file is read for this input. */
function fileForm(
  transform: Transform,
  { separator, weightSeparator, list }: TransformInput,
  takes: readonly TransformForm[],
): TransformForm {
  if (transform.op === "mapId" && transform.form === "pairs") return "ids";
  const [first = "numbers"] = takes;
  const isWeighted = weightSeparator !== undefined || list === "weighted";
  const isList = separator !== undefined || list !== undefined || isWeighted;
  if (!isList || first !== "numbers") return first;
  if (isWeighted && takes.includes("ids")) return "ids";
  return takes.includes("lists") ? "lists" : takes.includes("ids") ? "ids" : first;
}

/** The types of all outputs. Mismatches are added to `problems`, and then ignored. */
function typesOf(
  transforms: readonly Transform[],
  problems: TransformProblem[],
): Map<string, ColumnType> {
  const indexes = new Map<string, number>();
  for (const [index, transform] of transforms.entries()) {
    for (const output of outputsOf(transform)) indexes.set(output, index);
  }
  const types = new Map<string, ColumnType>();
  const open = new Set<number>();
  const visit = (index: number): void => {
    const transform = transforms[index];
    if (transform === undefined || open.has(index)) return;
    open.add(index);
    const found = readsOf(transform).map(({ source, path, takes }): ColumnType => {
      const maker = indexes.get(source.column);
      if (maker !== undefined) visit(maker);
      const type = types.get(source.column);
      const problem = problemOf(source, type, takes, transform);
      if (problem !== undefined) {
        const at = problem.option === undefined ? [] : [problem.option];
        problems.push({ path: [index, ...path, ...at], ...problem });
      }
      return type ?? { form: source.form, isWeighted: isWeighted(source) };
    });
    if (transform.op === "sampling") return;
    const type = ops[transform.op].makes(found);
    for (const output of outputsOf(transform)) types.set(output, type);
  };
  for (const index of transforms.keys()) visit(index);
  return types;
}

function isWeighted({ weightSeparator, list }: Source): boolean {
  return weightSeparator !== undefined || list === "weighted";
}

/** The problem of an input, if any. `type`: type of the output that it names, if it names one. */
function problemOf(
  { column, separator, weightSeparator, list, form }: Source,
  type: ColumnType | undefined,
  takes: readonly TransformForm[],
  transform: Transform,
): { error: string; input: unknown; option?: string } | undefined {
  const lists = Object.entries({ separator, weightSeparator, list });
  const [written, value] = lists.find(([, given]) => given !== undefined) ?? [];
  if (type === undefined) {
    if (list !== undefined && (separator ?? weightSeparator) !== undefined) {
      const error = "left out beside `separator` and `weightSeparator`, which split text";
      return { error, input: list, option: "list" };
    }
    if (value === undefined || form !== "numbers") {
      const hasWeights = weightSeparator !== undefined || list === "weighted";
      if (!hasWeights || form === "ids" || form === "texts") return undefined;
      const error = `left out, as \`${transform.op}\` reads numbers`;
      const option = list === undefined ? "weightSeparator" : "list";
      return { error, input: list ?? weightSeparator, option };
    }
    const error = `left out, as \`${transform.op}\` reads one number a row`;
    return { error, input: value, ...(written && { option: written }) };
  }
  if (value !== undefined) {
    const error = `left out, as \`${column}\` is made by a transform and is no text to split`;
    return { error, input: value, ...(written && { option: written }) };
  }
  const wanted = transform.op === "mapId" ? [transform.form === "pairs" ? "ids" : "texts"] : takes;
  if (wanted.includes(type.form)) return undefined;
  const error = `a column of ${wanted.join(" or ")}, as \`${transform.op}\` reads them, and \`${column}\` has ${type.form}`;
  return { error, input: column };
}

/** The parts of a data section that are checked. */
export interface FeatureSection {
  readonly transforms?: readonly Transform[] | undefined;
  readonly dense: readonly { readonly column: string }[];
  readonly categorical: readonly {
    readonly column: string;
    readonly separator?: string | undefined;
    readonly weightSeparator?: string | undefined;
    readonly list?: string | undefined;
  }[];
  readonly kind: string;
  readonly label: string | readonly string[];
  readonly labelAsFeature: boolean;
}

/** All problems of the section's features. Paths are relative to the section. */
export function featureProblems(section: FeatureSection): TransformProblem[] {
  const { transforms, dense, categorical } = section;
  if (transforms === undefined) return [];
  const { outputs } = planOf(transforms);
  const problems: TransformProblem[] = [];
  for (const [i, { column }] of dense.entries()) {
    const [first] = expanded([{ column }], transforms);
    const form = outputs.get(first?.column ?? column)?.form;
    if (form === undefined || form === "numbers") continue;
    const error = `a column of numbers, and the transform \`${column}\` makes ${form}`;
    problems.push({ path: ["dense", i], error, input: column });
  }
  for (const [i, entry] of categorical.entries()) {
    const { column, separator, weightSeparator, list } = entry;
    const [first] = expanded([{ column }], transforms);
    const form = outputs.get(first?.column ?? column)?.form;
    if (form === undefined) continue;
    if (form !== "ids" && form !== "texts") {
      const error = `a column of ids or texts, and the transform \`${column}\` makes ${form}`;
      problems.push({ path: ["categorical", i], error, input: column });
    }
    const lists = Object.entries({ separator, weightSeparator, list });
    const [option, written] = lists.find(([, given]) => given !== undefined) ?? [];
    if (option === undefined) continue;
    const error = `left out, as a transform makes \`${column}\`, which is no text to split`;
    problems.push({ path: ["categorical", i, option], error, input: written });
  }
  return [...problems, ...listProblems(section), ...labelProblems(section, outputs)];
}

/** CSV has no lists other than text split by `separator`. */
function listProblems({ kind, transforms = [] }: FeatureSection): TransformProblem[] {
  if (kind !== "csv") return [];
  const inputs = transforms.flatMap(inputsOf).map(({ input }) => input);
  const wrong = inputs.find(({ list }) => list !== undefined);
  const error = `without \`list\`, as a field of text is split by \`separator\` (\`${wrong?.column}\`)`;
  return wrong === undefined ? [] : [{ path: ["transforms"], error, input: wrong.list }];
}

function labelProblems(
  { transforms = [], label, labelAsFeature }: FeatureSection,
  outputs: ReadonlyMap<string, unknown>,
): TransformProblem[] {
  const labels = typeof label === "string" ? [label] : label;
  const taken = transforms.flatMap((transform): TransformProblem[] => {
    const wrong = inputsOf(transform).find(({ input }) => labels.includes(input.column));
    if (labelAsFeature || wrong === undefined) return [];
    const error =
      `made of other columns than the label, \`${wrong.input.column}\`: a model that reads the ` +
      "label predicts nothing (say `labelAsFeature: true` where it is meant)";
    return [{ path: ["transforms"], error, input: wrong.input.column }];
  });
  const made = labels.filter((name) => outputs.has(name));
  const error = "a column of the file, and a transform makes it";
  return [...taken, ...made.map((name) => ({ path: ["label"], error, input: name }))];
}
