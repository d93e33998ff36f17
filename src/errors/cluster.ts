// Errors of a cluster: incompatible processes, missing hosts or files, and changes of the leader.

import { TrainingError } from "./training-error.ts";

/** A host has another version of Osiris than its cluster. */
export class VersionMismatchError extends TrainingError {
  readonly code = "VERSION_MISMATCH";
  readonly recovery = "stop";

  constructor(expected: string, actual: string) {
    super(
      `Expected version ${expected} of Osiris, as the cluster has, this process has ${actual}: ` +
        "install the same one",
    );
  }
}

/** This device cannot compute with the arithmetic that the run or the checkpoint began with. */
export class ArithmeticMismatchError extends TrainingError {
  readonly code = "ARITHMETIC_MISMATCH";
  readonly recovery = "stop";

  /** `directory`: the directory of the checkpoint with the expected arithmetic. */
  constructor(expected: string, actual: string, directory?: string) {
    const where = directory === undefined ? "" : ` of the checkpoint in ${directory}`;
    super(
      `Expected the arithmetic \`${expected}\`${where}, this process has \`${actual}\`: ` +
        `they differ in bits. ${wayOn(expected)}; or start a new run` +
        (directory === undefined
          ? ""
          : " in another `checkpoint.directory`; or predict with `arithmetic: auto`, last bits apart"),
    );
  }
}

/** The advice on how to get an arithmetic. Every process has that of the reference kernels. */
function wayOn(arithmetic: string): string {
  if (!arithmetic.startsWith("reference")) return "Run `osiris build-native`";
  return "Set `arithmetic: reference` to go on";
}

/** A run has fewer devices than it waits for. */
export class HostsMissingError extends TrainingError {
  readonly code = "HOSTS_MISSING";
  readonly recovery = "stop";

  constructor(wanted: number, present: number, deadlineMs: number) {
    super(
      `Waited ${deadlineMs} ms for ${wanted} devices, ${present} are there: ` +
        "start hosts with `osiris host`, or ask for fewer devices",
    );
  }
}

/** A host does not see the files that the other hosts write or read. */
export class PathNotSharedError extends TrainingError {
  readonly code = "PATH_NOT_SHARED";
  readonly recovery = "stop";
  readonly path: string;

  constructor(host: string, path: string) {
    super(
      `${host} does not see ${path}: data caches and the checkpoint directory must lie ` +
        "on a file system that all hosts share, under a path that is the same on each of them",
    );
    this.path = path;
  }
}

/** The leader of the cluster ended or could not renew its lease, and another process leads. */
export class RootLostError extends TrainingError {
  readonly code = "ROOT_LOST";
  readonly recovery = "restore";

  constructor(former: string, why: string, next: string) {
    super(`${former} ${why}; ${next} leads the cluster now, and goes on with its runs`);
  }
}

/** This process is no longer the leader of the cluster. The transport withholds its frames. */
export class LeadershipLostError extends TrainingError {
  readonly code = "LEADERSHIP_LOST";
  readonly recovery = "stop";

  constructor(term: number, next: string) {
    super(
      `This process led the cluster in term ${term}; ${next} leads it now, and has its runs: ` +
        "start this one again, and it stands by",
    );
  }
}

/** Another leader, with its own queue, serves a cluster of this name. */
export class ClusterServedError extends TrainingError {
  readonly code = "CLUSTER_SERVED";
  readonly recovery = "stop";

  constructor(cluster: string, address: string) {
    super(
      `Another root answers for cluster ${cluster} at ${address}, and has a queue of its own: ` +
        "give this one another name, or start both with one lease",
    );
  }
}
