// Errors of user input: options, files, addresses.

import { TrainingError } from "./training-error.ts";

/** Options of a job, a command or a call are wrong. Nothing was started. */
export class InvalidOptionError extends TrainingError {
  readonly code = "INVALID_OPTION";
  readonly recovery = "stop";
  /** Path of the first wrong option, for example `model.tables[3].dim`. */
  readonly option: string;
  /** All wrong options that one check could find. */
  readonly problems: readonly { readonly option: string; readonly message: string }[];

  constructor(option: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.option = option;
    this.problems = [{ option, message: this.message }];
  }

  /** One error for several problems, at least one. */
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
