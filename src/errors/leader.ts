// The errors of a cluster whose root is another process than it was.

import { TrainingError } from "./errors.ts";

/** The process that led the cluster is gone, or could not renew its lease. Another one leads. */
export class RootLostError extends TrainingError {
  readonly code = "ROOT_LOST";
  readonly recovery = "restore";

  constructor(former: string, why: string, next: string) {
    super(`${former} ${why}; ${next} leads the cluster now, and goes on with its runs`);
  }
}

/** This process led the cluster, and another one does now. What it still says is withheld. */
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

/** Another root answers for the cluster, and has a queue of its own. */
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
