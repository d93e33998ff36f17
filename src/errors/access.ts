// Errors of access: requests that a user or a tenant is not allowed to make, or not at this rate.

import type { InvalidOptionError } from "./input.ts";
import { TrainingError } from "./training-error.ts";

/** The broker does not let this user publish to a subject, or subscribe to it. */
export class NotPermittedError extends TrainingError {
  readonly code = "NOT_PERMITTED";
  readonly recovery = "stop";

  constructor(subject: string, options?: ErrorOptions) {
    super(
      `The broker's permissions forbid ${subject} to this user: ` +
        "ask as your own tenant, or whoever runs the cluster for more rights",
      options,
    );
  }
}

/** A request, with its job, exceeds the size limit of its tenant. */
export class JobTooLargeError extends TrainingError {
  readonly code = "JOB_TOO_LARGE";
  readonly recovery = "stop";

  constructor(tenant: string, bytes: number, bytesMax: number) {
    super(
      `Expected a request of at most ${bytesMax} bytes from tenant ${tenant}, got ${bytes}: ` +
        "a smaller job, or a larger `requestBytesMax` of the tenant",
    );
  }
}

/** A tenant exceeds its rate limit of requests. */
export class TooManyRequestsError extends TrainingError {
  readonly code = "TOO_MANY_REQUESTS";
  readonly recovery = "restore";

  constructor(tenant: string, perSecond: number) {
    super(
      `Expected at most ${perSecond} requests a second from tenant ${tenant}: ` +
        "ask again in a moment, or raise its `requestsPerSecond`",
    );
  }
}

/** Paths of a job are outside the directories that the cluster allows for jobs. */
export class PathForbiddenError extends TrainingError {
  readonly code = "PATH_FORBIDDEN";
  readonly recovery = "stop";
  /** The first option with a forbidden path, for example `checkpoint.directory`. */
  readonly option: string;
  /** All forbidden paths, one problem each. */
  readonly problems: InvalidOptionError["problems"];

  constructor(option: string, path: string, root: string, options?: ErrorOptions) {
    super(
      `Expected \`${option}\` to lie in ${root}, got ${path}: ` +
        "jobs of whoever asks read and write nowhere else",
      options,
    );
    this.option = option;
    this.problems = [{ option, message: this.message }];
  }

  /** The error for a model whose module the cluster does not allow, as it would run the module. */
  static ofModel(path: string, allowed: readonly string[], options?: ErrorOptions) {
    const there = allowed.length === 0 ? "none" : allowed.join(", ");
    const error = new PathForbiddenError("model.path", path, there, options);
    const message =
      `Expected \`model.path\` to be a module that the cluster allows, got ${path}: it allows ` +
      `${there}; see \`--model-root\` of \`osiris up\``;
    return Object.assign(error, { message, problems: [{ option: "model.path", message }] });
  }

  /** The error for a checkpoint whose model is a module that is not allowed: loading runs it. */
  static ofCheckpoint(directory: string, path: string, allowed: readonly string[]) {
    const there = allowed.length === 0 ? "none" : allowed.join(", ");
    const error = new PathForbiddenError("model.path", path, there);
    const message =
      `Expected the model of ${directory} to be one that may run here: it is the module ${path}, ` +
      `and allowed are ${there}. A module has all rights of this process: look at it, then allow ` +
      "it by `--model-root PATH`, or by `allowModels` in a program";
    return Object.assign(error, { message, problems: [{ option: "model.path", message }] });
  }

  /** Merges errors: returns the first error, with the problems of all of them. */
  static ofAll(first: PathForbiddenError, others: readonly PathForbiddenError[]) {
    const problems = [first, ...others].flatMap((error) => error.problems);
    const message = problems.map((problem) => problem.message).join("; ");
    return Object.assign(first, { message, problems });
  }
}

/** The sender of a request is not the tenant that the subject names. */
export class TenantRefusedError extends TrainingError {
  readonly code = "TENANT_REFUSED";
  readonly recovery = "stop";

  constructor(tenant: string | undefined, reason: string) {
    const who = tenant === undefined ? "whoever runs the cluster" : `tenant \`${tenant}\``;
    super(`Cannot serve this as ${who}: ${reason}; ask as your own tenant (\`--tenant\`)`);
  }
}
