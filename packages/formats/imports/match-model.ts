// Matches the tensors of a file to a job's model: every tensor of the model must be in the file
// with its shape, and the file must have no others.

import {
  type Fields,
  graphOf,
  InputUnusableError,
  InvalidOptionError,
  isSection,
  type JobOptions,
  type JobSpec,
  type Means,
  type ParameterLayout,
  resolveJob,
} from "../../../internal.ts";
import {
  type ForeignTensor,
  foreignTensors,
  type NamesKind,
  namesKinds,
  recognise,
  unwrapped,
} from "../dlrm-names/foreign-tensors.ts";
import { type ImportedIds, idNames, idsOfTables } from "./imported-ids.ts";
import { deriveJob, tableNames } from "./imported-job.ts";
import { optimizersOf, stateIn, type TakenState, takeState } from "./optimizer-state.ts";
import { isFloat, type SourceTensor, someOf, type TensorSource } from "./tensor-source.ts";

/** A file whose tensors match a job's model. */
export interface ReadModel {
  readonly source: TensorSource;
  readonly kind: NamesKind;
  /** The job that was given, found in the file or derived; `job` is its complete form. */
  readonly options: JobOptions;
  readonly job: JobSpec;
  readonly jobFrom: "given" | "file" | "shapes";
  readonly layout: ParameterLayout;
  /** The tensors of the model, each with its tensor in the file. */
  readonly wanted: readonly (ForeignTensor & { readonly tensor: SourceTensor })[];
  readonly state: TakenState;
  /** The ids of each table; undefined: the table has no dynamic ids. */
  readonly ids: readonly (ImportedIds | undefined)[];
  readonly types: readonly string[];
  readonly means: Means | undefined;
}

/** Most problems of one kind that an error message lists. */
const namedMax = 8;

/**
 * Matches a file to the given, found or derived job. @throws InputUnusableError, InvalidOptionError
 */
export function readModel(
  source: TensorSource,
  asked: {
    readonly from: NamesKind | undefined;
    readonly isFresh: boolean;
    readonly job: JobOptions | undefined;
  },
): ReadModel {
  const { path, tensors, notes, optimizer } = source;
  const names = [...tensors.keys()];
  const kind = asked.from ?? kindOf(source, names);
  if (!namesKinds.includes(kind)) {
    const message = `Expected \`from\` to be one of ${namesKinds.join(", ")}, got ${kind}`;
    throw new InvalidOptionError("from", message);
  }
  const known = unwrapped(kind, names).names;
  const plainOf = (name: string) => [...unwrapped(kind, [name]).names.keys()][0] ?? name;
  const stateOf =
    optimizer === undefined || asked.isFresh ? undefined : stateIn(optimizer, known, plainOf);
  const { options, jobFrom } = jobOf(source, kind, known, asked.job, stateOf);
  const job = resolveJob(options);
  const ids = idsOfTables(job, source, (name) => tensors.get(known.get(name) ?? ""));
  const ofIds = job.model.tables
    .filter(({ dynamic }) => dynamic)
    .flatMap(({ name }) => idNames(name));
  const { layout } = graphOf(job.model);
  const inOrder = kind === "torchrec" && source.format === "PyTorch";
  const order = inOrder ? tableNames(kind, shapesOf(source, known)) : undefined;
  const wanted =
    kind === "osiris" ? ownTensors(job, layout) : foreignTensors(kind, job.model, order);
  const found = wanted.flatMap((one) => {
    const tensor = tensors.get(known.get(one.name) ?? "");
    return tensor === undefined ? [] : [{ ...one, tensor }];
  });
  const others = new Map([...known].filter(([name]) => !ofIds.includes(name)));
  checkAll(path, wanted, found, others);
  return {
    ...{ source, kind, options, job, jobFrom, layout, wanted: found, ids },
    state: takeState(job, wanted, stateOf ?? (optimizer ? "as requested" : "the file has none")),
    types: [...new Set(found.map(({ tensor }) => tensor.type))].sort(),
    means: notes.means === undefined ? undefined : meansIn(notes.means, path),
  };
}

function kindOf({ path }: TensorSource, names: readonly string[]): NamesKind {
  const kind = recognise(names);
  if (kind !== undefined) return kind;
  const message =
    `Expected the tensors of ${path} to have the names of facebookresearch/dlrm (emb_l.0.weight), ` +
    "of TorchRec (sparse_arch.…), or of an export of Osiris (embedding_bags.NAME.weight)";
  throw new InputUnusableError(path, `${message}, got ${someOf(names) || "none"}`);
}

/** The given job, else the job in the file, else a job derived from the shapes. */
function jobOf(
  source: TensorSource,
  kind: NamesKind,
  known: ReadonlyMap<string, string>,
  given: JobOptions | undefined,
  stateOf: ReturnType<typeof stateIn> | undefined,
): Pick<ReadModel, "options" | "jobFrom"> {
  if (given !== undefined) return { options: given, jobFrom: "given" };
  const { path, notes, format } = source;
  if (notes.job !== undefined) {
    // The exported run may have had a warm start itself; its source is not needed.
    const { warmStart: _begun, ...options } = jobIn(notes.job, path);
    return { options, jobFrom: "file" };
  }
  if (kind === "osiris" || (kind === "torchrec" && format !== "PyTorch")) {
    const why = kind === "osiris" ? "has no job" : "does not say the order of its tables";
    const message = `Expected a job for ${path}, which ${why}: name it, with \`--job\``;
    throw new InvalidOptionError("job", message);
  }
  const shapes = shapesOf(source, known);
  const options = deriveJob(kind, shapes);
  if (stateOf === undefined) return { options, jobFrom: "shapes" };
  const { dense, sparse } = optimizersOf(foreignTensors(kind, resolveJob(options).model), stateOf);
  const optimizer = {
    ...(dense === undefined ? {} : { dense: { kind: dense } }),
    ...(sparse === undefined ? {} : { sparse: { kind: sparse } }),
  };
  return { options: { ...options, optimizer }, jobFrom: "shapes" };
}

/** Parses the job in a file. @throws InputUnusableError where it is not a JSON object */
function jobIn(text: string, path: string): JobOptions {
  return sectionIn(text, path, "job") as unknown as JobOptions;
}

/** Parses the means of features in a file. @throws InputUnusableError where they are malformed */
function meansIn(text: string, path: string): Means {
  const means = sectionIn(text, path, "means");
  if (Object.values(means).every(Number.isFinite)) return means as Means;
  throw new InputUnusableError(path, `Expected the \`means\` in ${path} to be numbers`);
}

/** Parses a note that is a JSON object. @throws InputUnusableError */
function sectionIn(text: string, path: string, note: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (isSection(value)) return value;
  const message = `Expected the note \`${note}\` in ${path} to be an object in JSON: the file is damaged`;
  throw new InputUnusableError(path, message);
}

function shapesOf({ tensors }: TensorSource, known: ReadonlyMap<string, string>) {
  return new Map(
    [...known].map(([plain, name]) => [plain, tensors.get(name)?.shape ?? []] as const),
  );
}

/** The tensors of a model as `exportModel` names them. */
function ownTensors({ model }: JobSpec, { parameters }: ParameterLayout): ForeignTensor[] {
  return [
    ...parameters.map(({ name, shape }) => ({ name, shape, own: { parameter: name } })),
    ...model.tables.map(({ name, rows, dim }, table) => {
      return { name: `embedding_bags.${name}.weight`, shape: [rows, dim], own: { table } };
    }),
  ];
}

/**
 * @throws InputUnusableError listing tensors that are missing, unexpected, or of another shape or
 * type
 */
function checkAll(
  path: string,
  wanted: readonly ForeignTensor[],
  found: ReadModel["wanted"],
  known: ReadonlyMap<string, string>,
): void {
  const present = new Set(found.map(({ name }) => name));
  const missing = wanted.filter(({ name }) => !present.has(name)).map(({ name }) => name);
  const left = [...known].filter(([name]) => !present.has(name)).map(([, name]) => name);
  const others = found.flatMap(({ name, shape, tensor }) => {
    if (`${tensor.shape}` !== `${shape}`) {
      return [`\`${name}\` of (${tensor.shape.join(", ")}), not (${shape.join(", ")})`];
    }
    return isFloat(tensor.type)
      ? []
      : [`\`${name}\` of ${tensor.type}, which is no type of weights`];
  });
  const more = others.length - namedMax;
  const wrong = others.slice(0, namedMax).join(", ") + (more > 0 ? ` and ${more} more` : "");
  const problems = [
    ...(missing.length > 0 ? [`without ${someOf(missing)}`] : []),
    ...(others.length > 0 ? [`with ${wrong}`] : []),
    ...(left.length > 0 ? [`with ${someOf(left)} left over`] : []),
  ];
  if (problems.length === 0) return;
  const message = `Expected ${path} to have the tensors of the job's model, got them ${problems.join("; ")}`;
  throw new InputUnusableError(path, message);
}
