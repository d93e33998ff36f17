// Checks features against the transforms that make them: dense features need numbers, categorical
// features ids or texts; and no transform may read the label, unless the job sets `labelAsFeature`.

import { expanded, inputsOf } from "./order.ts";
import { planOf, type TransformProblem } from "./plan.ts";
import type { Transform } from "./transform-options.ts";

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
