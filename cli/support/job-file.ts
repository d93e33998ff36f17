// Reads job files: YAML and JSON as data; JavaScript and TypeScript as modules that export the job.
// In a module of any directory, `import … from "osiris-train"` means the package that runs this
// command. The parser of each kind is loaded only when a file of that kind is read.

import { readFileSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import * as osiris from "../../internal.ts";
import {
  InputUnusableError,
  InvalidOptionError,
  type JobOptions,
  resolveJob,
  type Sweep,
  type SweptJob,
  sweepOf,
  sweptJobsOf,
} from "../../internal.ts";
import { checkSchemes } from "../../src/job/check-placement.ts";
import { withOption as jobWithOption } from "../../src/job/with-option.ts";
import { longAsText, parseExactly } from "../../src/ports/json/exact-json.ts";

/** Changes to a job file from the command line. */
export interface JobChanges {
  /** Files to read instead of the job's. */
  readonly data?: readonly string[] | undefined;
  /** A plan's file, as `osiris plan --out` writes it. */
  readonly plan?: string | undefined;
  /** Other values of options, each as `data.batchSize=512`: a path, and a value in YAML. */
  readonly set?: readonly string[] | undefined;
  /** Another seed. */
  readonly seed?: number | undefined;
  /** Checkpoint directory of the run to begin with. */
  readonly warmStart?: string | undefined;
}

/**
 * The job of a file, checked. Relative paths in it are relative to the working directory, but for
 * the module of its model, which is relative to the file.
 * @throws InputUnusableError if the file has no job, InvalidOptionError if an option is wrong;
 * both messages name the file
 */
export async function loadJob(path: string, changes: JobChanges = {}): Promise<JobOptions> {
  const read = await readJob(path);
  if (typeof read === "object" && read !== null && "sweep" in read) {
    throw new InputUnusableError(
      path,
      `The job ${path} has a \`sweep\`: \`osiris sweep\` trains it`,
    );
  }
  const { data, plan, set = [], seed, warmStart } = changes;
  const own = withModulePath(await withSet(read, set), path);
  const planned = withPlan(withData(own, path, data), plan);
  const job = {
    ...(planned as object),
    ...(seed === undefined ? {} : { seed }),
    ...(warmStart === undefined ? {} : { warmStart: { from: warmStart } }),
  };
  naming(path, () => checkSchemes(resolveJob(job)));
  return job as JobOptions;
}

/** A file's `sweep`, and the jobs of its trials, each checked. @throws as `loadJob` */
export async function loadSweep(
  path: string,
  { set = [], seed }: Pick<JobChanges, "set" | "seed"> = {},
): Promise<{ sweep: Sweep; trials: SweptJob[] }> {
  const read = withModulePath(await withSet(await readJob(path), set), path) as JobOptions & {
    sweep?: unknown;
  };
  const { sweep: block, ...rest } = read;
  const job = seed === undefined ? rest : { ...rest, seed };
  return naming(path, () => {
    const sweep = sweepOf(block ?? {});
    const trials = sweptJobsOf(job, sweep);
    for (const trial of trials) checkSchemes(resolveJob(trial.job));
    return { sweep, trials };
  });
}

/** Runs `check`, and adds the file's name to the problems that it reports. */
function naming<Result>(path: string, check: () => Result): Result {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    const problems = error.problems.map(({ option, message }) => {
      return { option, message: `${path}: ${message}` };
    });
    throw InvalidOptionError.ofAll(problems, { cause: error });
  }
}

async function readJob(path: string): Promise<unknown> {
  const job = await parseJob(path);
  if (typeof job === "object" && job !== null && !Array.isArray(job)) return job;
  const found =
    job === null || job === undefined ? "nothing" : Array.isArray(job) ? "a list" : "a value";
  const message = `expected an object with \`model\` and \`data\`, got ${found}`;
  throw new InputUnusableError(path, `Cannot read the job ${path}: ${message}`);
}

async function parseJob(path: string): Promise<unknown> {
  switch (extname(path)) {
    case ".yaml":
    case ".yml":
      return attempt(path, async () => {
        const { parse } = await import("yaml");
        return longAsText(parse(readFileSync(path, "utf8"), { merge: true, intAsBigInt: true }));
      });
    case ".json":
      return attempt(path, () => longAsText(parseExactly(readFileSync(path, "utf8"))));
    case ".js":
    case ".mjs":
    case ".cjs":
    case ".ts":
    case ".mts":
    case ".cts":
      return exportedJob(path, await attempt(path, () => importJob(path)));
    default:
      throw new InputUnusableError(
        path,
        `Cannot read the job ${path}: expected a file ending in .yaml, .json, .js, .mjs or .ts`,
      );
  }
}

async function attempt<T>(path: string, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    const told = cause instanceof Error ? cause.message : String(cause);
    // The parser's own message names a function of its library.
    const message = told.replace(/(multiple documents); please use .*\(\)/, "$1, expected one job");
    const [first = "", second = ""] = message.split("\n").map((line) => line.trim());
    // The TypeScript parser gives the position in a second line.
    const reason = first.startsWith("ParseError") ? `${first} ${second}` : first.replace(/:$/, "");
    throw new InputUnusableError(path, `Cannot read the job ${path}: ${reason}`, { cause });
  }
}

async function importJob(path: string): Promise<Record<string, unknown>> {
  readFileSync(path); // Throws for a missing file, whatever its kind.
  const { createJiti } = await import("jiti");
  const jiti = createJiti(import.meta.url, {
    virtualModules: { "osiris-train": osiris },
    fsCache: false,
    moduleCache: false,
    interopDefault: false,
  });
  return jiti.import(resolve(path));
}

function exportedJob(path: string, module: Record<string, unknown>): unknown {
  const job = module.job ?? module.default;
  if (job !== undefined) return job;
  throw new InputUnusableError(
    path,
    `Cannot read the job ${path}: expected it to export the job as \`job\` or as its default`,
  );
}

/** The job with the values of `--set`, from the first to the last. */
export async function withSet(job: unknown, settings: readonly string[]): Promise<unknown> {
  if (settings.length === 0) return job;
  const { parse } = await import("yaml");
  return settings.reduce<unknown>((before, setting) => {
    const at = setting.indexOf("=");
    const [option, text] = [setting.slice(0, at).trim(), setting.slice(at + 1)];
    const refuse = (why: string, cause?: unknown) => {
      const message = `Expected \`--set\` to be an option and its value, as data.batchSize=512, ${why}`;
      return new InvalidOptionError("--set", message, { cause });
    };
    if (at < 1) throw refuse(`got \`${setting}\``);
    let value: unknown;
    try {
      value = longAsText(parse(text, { intAsBigInt: true }));
    } catch (cause) {
      throw refuse(`but \`${text}\` is not valid YAML`, cause);
    }
    return jobWithOption(before, option, value, option);
  }, job);
}

/** The job with the module of its model as an absolute path. */
function withModulePath(job: unknown, path: string): unknown {
  const { model } = job as { model?: { kind?: unknown; path?: unknown } };
  if (model?.kind !== "custom" || typeof model.path !== "string") return job;
  return { ...(job as object), model: { ...model, path: resolve(dirname(path), model.path) } };
}

function withPlan(job: unknown, path: string | undefined): unknown {
  if (path === undefined) return job;
  try {
    return { ...(job as object), plan: JSON.parse(readFileSync(path, "utf8")) };
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot use the plan ${path}: ${message}`, { cause });
  }
}

function withData(job: unknown, path: string, files: readonly string[] | undefined): unknown {
  if (files === undefined) return job;
  const { data } = (job ?? {}) as { data?: { kind?: string } };
  if (!["arrow", "criteo-tsv", "csv", "jsonl", "parquet"].includes(data?.kind ?? "")) {
    throw new InvalidOptionError("--data", `${path}: \`--data\` is for jobs that read files`);
  }
  return { ...(job as object), data: { ...data, paths: [...files] } };
}
