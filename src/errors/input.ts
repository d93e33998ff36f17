// Errors of user input: options, files, addresses.

import { TrainingError } from "./training-error.ts";

/** Options of a job, a command or a call are invalid. Nothing was started. */
export class InvalidOptionError extends TrainingError {
  readonly code = "INVALID_OPTION";
  readonly recovery = "stop";
  /** Path of the first invalid option, for example `model.tables[3].dim`. */
  readonly option: string;
  /** All invalid options that one check found. */
  readonly problems: readonly { readonly option: string; readonly message: string }[];

  constructor(option: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.option = option;
    this.problems = [{ option, message: this.message }];
  }

  /** Makes one error of one or more problems. */
  static ofAll(problems: InvalidOptionError["problems"], options?: ErrorOptions) {
    const message = problems.map((problem) => problem.message).join("; ");
    const error = new InvalidOptionError(problems[0]?.option ?? "", message, options);
    return Object.assign(error, { problems });
  }
}

/** A file or an address that the user named cannot be used. */
export class InputUnusableError extends TrainingError {
  readonly code = "INPUT_UNUSABLE";
  readonly recovery = "stop";
  readonly path: string;

  constructor(path: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.path = path;
  }
}

/**
 * The binary cache of a job's data is corrupt or missing. It is derived data: the next preparation
 * rebuilds it from its source.
 */
export class DataCacheDamagedError extends TrainingError {
  readonly code = "DATA_CACHE_DAMAGED";
  readonly recovery = "restore";
  readonly path: string;
  readonly reason: string;
  /** The corrupt block; undefined: the header, the index, or the whole file. */
  readonly block: number | undefined;

  constructor(path: string, reason: string, block?: number) {
    super(`The data cache ${path} is damaged: ${reason}; it is made anew from its source`);
    this.path = path;
    this.reason = reason;
    this.block = block;
  }
}

/** More lines of the data are bad than the job allows. Nothing was trained. */
export class DataRejectedError extends TrainingError {
  readonly code = "DATA_REJECTED";
  readonly recovery = "stop";
  /** Number of lines with data; `rejected`: number of bad lines among them. */
  readonly lines: number;
  readonly rejected: number;

  constructor(message: string, counts: { readonly lines: number; readonly rejected: number }) {
    super(message);
    this.lines = counts.lines;
    this.rejected = counts.rejected;
  }
}

/**
 * The data of a run differs from the data that its checkpoints were trained or evaluated on,
 * although it has the same name.
 */
export class DataChangedError extends TrainingError {
  readonly code = "DATA_CHANGED";
  readonly recovery = "stop";
  /** The name of the data for people: a path, or `the generated training data`. */
  readonly data: string;
  /** The checkpoint directory. */
  readonly directory: string;

  constructor(data: string, directory: string, sentence: string) {
    super(sentence);
    this.data = data;
    this.directory = directory;
  }
}
