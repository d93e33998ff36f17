// The preprocessing service of a generation, beside its training coordinator: the master and its
// supervisor. A failed master is restarted without ending the generation: readers and workers send
// again the state that a new master needs.

import { openMailbox } from "../../runtime/mailbox.ts";
import type { SupervisorInput } from "../../runtime/supervisor.ts";
import { streamOriginsOf } from "../../threads/data/stream-origins.ts";
import { masterMachine, type ServiceReport } from "../../threads/preprocessing/master.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";

/** Restarts of the master allowed within the window; more mean that the cause lies elsewhere. */
const intensity = { restartsMax: 20, windowMs: 60_000 } as const;

/** Input of the service's supervisor; undefined: the job has no preprocessing service. */
export function supervisedMaster(context: TrainingCoordinatorContext): SupervisorInput | undefined {
  const { network, scope, job, plan, hosts, record } = context;
  if (job.preprocessing === undefined || plan === undefined) return undefined;
  const origins = streamOriginsOf({ job, data: plan });
  const onWorkers = (report: ServiceReport) => {
    record.append(scope.generation, { type: "run.workers", ...report });
  };
  const input = { network, scope, job, origins, hosts: hosts.length, onWorkers };
  return {
    name: "preprocessing",
    strategy: "one-for-one",
    intensity,
    children: [
      { id: "master:0", restart: "permanent", start: () => ({ logic: masterMachine, input }) },
    ],
    clock: network.clock,
    mailbox: openMailbox(network, scope, { role: "master", index: 1 }),
    onRestart: (incident) => {
      const action = { by: "preprocessing", did: "starts another one" };
      record.mended(scope.generation, incident, action, network.clock.date());
    },
  };
}
