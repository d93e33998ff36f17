// Errors of jobs and their data: options, files, addresses, caches, and streams that are ingested.

import { errorClass, visible } from "./training-error.ts";

/** An invalid option, for example `model.tables[3].dim`, and the sentence that says why. */
export interface OptionProblem {
  readonly option: string;
  readonly message: string;
}

const ofOption = (option: string, message: string) => ({
  message,
  /** Path of the first invalid option. */
  option,
  /** All invalid options that one check found. */
  problems: [{ option, message: visible(message) }] as readonly OptionProblem[],
});

const sentencesOf = (problems: readonly OptionProblem[]) =>
  problems.map(({ message }) => message).join("; ");

/** Options of a job, a command or a call are invalid. Nothing was started. */
export class InvalidOptionError extends errorClass("INVALID_OPTION", "stop", ofOption) {
  /** Makes one error of one or more problems. */
  static ofAll(problems: readonly OptionProblem[], options?: ErrorOptions): InvalidOptionError {
    const { option = "" } = problems[0] ?? {};
    const error = new InvalidOptionError(option, sentencesOf(problems), options);
    return Object.assign(error, { problems });
  }
}

/** Paths of a job are outside the directories that the cluster allows for jobs. */
export class PathForbiddenError extends errorClass("PATH_FORBIDDEN", "stop", ofOption) {
  /** The error for a path of the job, at `option`, that is outside the directory `root`. */
  static ofPath(option: string, path: string, root: string, options?: ErrorOptions) {
    const sentence = `Expected \`${option}\` to lie in ${root}, got ${path}: `;
    return new PathForbiddenError(option, `${sentence}a job may use no other directory`, options);
  }

  /** The error for a model whose module the cluster does not allow: a cluster runs the module. */
  static ofModel(path: string, allowed: readonly string[], options?: ErrorOptions) {
    const sentence =
      `Expected \`model.path\` to be a module that the cluster allows, got ${path}: it allows ` +
      `${allowed.join(", ") || "none"}; see \`--model-root\` of \`osiris up\``;
    return new PathForbiddenError("model.path", sentence, options);
  }

  /** The error for a checkpoint whose model is a module that is not allowed: loading runs it. */
  static ofCheckpoint(directory: string, path: string, allowed: readonly string[]) {
    const sentence =
      `Expected the model of ${directory} to be a module that this process allows, got ${path}: ` +
      `it allows ${allowed.join(", ") || "none"}. A module has all rights of the process: read ` +
      "its code, then allow it by `--model-root PATH`, or by `allowModels` in a program";
    return new PathForbiddenError("model.path", sentence);
  }

  /** Merges errors: returns the first error, with the problems of all of them. */
  static ofAll(first: PathForbiddenError, others: readonly PathForbiddenError[]) {
    const problems = [first, ...others].flatMap((error) => error.problems);
    return Object.assign(first, { message: sentencesOf(problems), problems });
  }
}

/** A file or an address that the user named cannot be used. */
export class InputUnusableError extends errorClass(
  "INPUT_UNUSABLE",
  "stop",
  (path: string, message: string) => ({ message, path }),
) {}

/**
 * The binary cache of a job's data is corrupt or missing. It is derived data: the next preparation
 * rebuilds it from its source.
 */
export class DataCacheDamagedError extends errorClass(
  "DATA_CACHE_DAMAGED",
  "restore",
  (path: string, reason: string, block?: number) => ({
    message: `The data cache ${path} is damaged: ${reason}; it is rebuilt from its source`,
    path,
    reason,
    /** The corrupt block; undefined: the header, the index, or the whole file. */
    block,
  }),
) {}

/** More lines of the data are bad than the job allows. Nothing was trained. */
export class DataRejectedError extends errorClass(
  "DATA_REJECTED",
  "stop",
  (message: string, counts: { readonly lines: number; readonly rejected: number }) => ({
    message,
    /** Number of lines with data; `rejected`: number of bad lines among them. */
    lines: counts.lines,
    rejected: counts.rejected,
  }),
) {}

/**
 * The data of a run differs from the data that its checkpoints were trained or evaluated on,
 * although it has the same name.
 */
export class DataChangedError extends errorClass(
  "DATA_CHANGED",
  "stop",
  (data: string, directory: string, message: string) => ({
    message,
    /** The name of the data for people: a path, or `the generated training data`. */
    data,
    /** The checkpoint directory. */
    directory,
  }),
) {}

/** No preprocessing worker could produce a split, and a retry would fail in the same way. */
export class SplitFailedError extends errorClass(
  "SPLIT_FAILED",
  "stop",
  (split: string, reason: string) => ({
    message:
      `Split ${split} (stream, blocks) was given up: ${reason}; remove the cause, or ` +
      "leave `preprocessing` out, and readers make the samples themselves",
    /** The split's stream and blocks: `training 0 64`. */
    split,
  }),
) {}

/** A stream has deleted messages that were not ingested yet, or that the join needs again. */
export class StreamTrimmedError extends errorClass(
  "STREAM_TRIMMED",
  "stop",
  (stream: string, wanted: number, first: number) => ({
    message:
      `Cannot continue from the stream ${stream}: it no longer has the messages ${wanted} to ` +
      `${first - 1}; keep messages longer (\`max_age\`, \`max_bytes\`), and ingest into a new ` +
      "directory",
    stream,
    /** The first sequence number that is needed, and the first that the stream still has. */
    wanted,
    first,
  }),
) {}

/** The requests and events of the join window exceed their memory limit. */
export class WindowFullError extends errorClass(
  "WINDOW_FULL",
  "stop",
  (bytes: number, held: { readonly requests: number; readonly events: number }) => ({
    message:
      `The join window exceeds its limit of ${bytes} bytes: it has ${held.requests} requests and ` +
      `${held.events} events; raise \`stateBytes\`, or shorten \`window\` or \`lateness\``,
    bytes,
  }),
) {}

/** A directory of ingested files belongs to other streams or other options. */
export class IngestForeignError extends errorClass(
  "INGEST_FOREIGN",
  "stop",
  (directory: string, difference: string) => ({
    message: `Cannot continue in ${directory}: ${difference}; name another directory`,
    directory,
  }),
) {}
