// Job supervisor: one per running job. Every start is a generation: the supervisor claims the next
// number in the checkpoint store, which fences all older generations, and starts both coordinators
// from the selected checkpoint.
//
//   gathering ──▶ claiming ──▶ running ──finished──▶ finished
//      ▲                          │└─a change of devices─▶ gathering
//      │                          ├─some devices survive─▶ recoveringPartly ─▶ restarting
//      │                          └─a coordinator failed─▶ (decide) ─▶ restarting ─┐
//      └──────────────────────── after a backoff ──────────────────────────────────┘
//                                                  └─▶ error: a restart cannot repair it
//
//   state        does                                                    in
//   gathering    waits for devices                                       wait-for-hosts.ts
//   claiming     claims a generation in the checkpoint store             claim-generation.ts
//   running      supervises checkpoint:0 and coordinator:0               *-coordinator.ts
//   (decide)     restart or give up, from which checkpoint               restart-decision.ts
//   recoveringPartly   sends device.dump to the surviving devices     partial-recovery.ts
//   restarting   waits; receives secondary failures                      restart-decision.ts
//
// Takes   run.cancel · run.yield of its parent, run.rescale of scaling.ts
// Emits   host.release to all hosts, however a generation ends (J3)
//
// Invariants
//   J1. One-for-all: the coordinators of a generation live and die together (law 3).
//   J2. Generations share the checkpoint store and nothing else (law 6).
//   J3. When a generation ends, for any reason, all its hosts are notified at once: no participant
//       waits for a deadline, and no device stays allocated.
//   J4. A planned change of devices does not count as a restart.
//   J5. A checkpoint that does not match its manifest is skipped in favour of the previous one.
//   J6. On run.yield, the supervisor makes a checkpoint and releases its devices without a result;
//       the run's record has the reason.
//   J7. Under a lease, the present leader is in charge: where a former leader claimed a generation
//       at its last moment, the present one claims the next.
//   J8. A run that is cancelled before its first step, between two generations, or while its
//       checkpoints wait for room, ends at once: preparation may take hours, or hosts and room
//       never come, and there is nothing to save.

import {
  type AnyActorRef,
  assign,
  type DoneActorEvent,
  type ErrorActorEvent,
  enqueueActions,
  fromCallback,
  sendTo,
  setup,
} from "xstate";
import { RemoteError, RunCancelledError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { type HostShare, inFormerPlaces, type Membership } from "../../host/membership.ts";
import { defineActor } from "../../runtime/define-actor.ts";
import { ActorFailedError } from "../../runtime/incident.ts";
import { type Mailbox, type Network, openMailbox } from "../../runtime/mailbox.ts";
import { emptyHistory, type RestartHistory } from "../../runtime/restart-policy.ts";
import { waiting } from "../../runtime/wait-graph.ts";
import { mayRecoverPartly } from "../../threads/generation-spec.ts";
import type { RunRecord } from "../state/run-record.ts";
import type { RunResult } from "../state/run-result.ts";
import { checkpointCoordinatorMachine } from "./checkpoint-coordinator.ts";
import { type Claimed, claiming, logClaimed } from "./claim-generation.ts";
import { recoveringPartly } from "./partial-recovery.ts";
import { afterFailure, receivingSecondaryFailures } from "./restart-decision.ts";
import { holding, watchingRequests } from "./scaling.ts";
import { trainingCoordinatorMachine } from "./training-coordinator.ts";
import { devicesWanted, gathering } from "./wait-for-hosts.ts";

export interface JobSupervisorInput {
  readonly network: Network;
  readonly record: RunRecord;
  /** The hosts of the cluster. */
  readonly membership: Membership;
  /** Time at which the failure was noticed after which the run is started; undefined: none. */
  readonly failedAtMs: number | undefined;
}

export interface JobSupervisorContext extends JobSupervisorInput {
  readonly mailbox: Mailbox;
  readonly job: JobSpec;
  /** The hosts of this generation; between generations, of the last one. */
  readonly hosts: readonly HostShare[];
  readonly claimed: Claimed | undefined;
  readonly history: RestartHistory;
  /** Hashes of the manifests of checkpoints that could not be restored. J5 */
  readonly passedOver: readonly string[];
  readonly delayMs: number;
  /** The actor that failed first in the last generation. */
  readonly offender: string;
  readonly result: RunResult | undefined;
  readonly failure?: unknown;
}

type JobSupervisorEvent =
  | { readonly type: "run.cancel" | "run.rescale" | "run.yield" }
  | ErrorActorEvent<unknown, string>
  | DoneActorEvent<unknown, string>;

/** J3. When stopped, closes the store, and requests that all hosts release the generation. */
const releasingAtStop = fromCallback<{ type: string }, JobSupervisorContext>(({ input }) => () => {
  const { network, record, claimed, hosts } = input;
  if (claimed === undefined) return;
  claimed.store.close();
  const scope = { run: record.run, generation: claimed.generation };
  const mailbox = openMailbox(network, scope, { role: "job", index: 0 });
  for (const { host } of hosts) {
    mailbox.send({ role: "host", index: host }, "host.release", { command: 0, isOver: false });
  }
});

const machine = setup({
  types: {} as {
    context: JobSupervisorContext;
    input: JobSupervisorInput;
    events: JobSupervisorEvent;
    output: RunResult | undefined;
  },
  actors: {
    gathering,
    claiming,
    holding,
    watchingRequests,
    releasingAtStop,
    receivingSecondaryFailures,
    waiting,
    recoveringPartly,
    checkpoint: checkpointCoordinatorMachine,
    training: trainingCoordinatorMachine,
  },
  delays: { delayMs: ({ context }) => context.delayMs },
  actions: {
    startCoordinators: enqueueActions(({ context, enqueue }) => {
      const { network, record, membership, hosts, job, claimed, failedAtMs } = context;
      if (claimed === undefined) throw new RangeError("No generation is claimed");
      const { generation, latest, store } = claimed;
      record.roomAwaited.clear(); // Its entries were writers of the previous generation.
      const scope = { run: record.run, generation };
      const common = { network, scope, job, store, latest };
      const forCuts = { ...common, hosts, record };
      enqueue.spawnChild("checkpoint", { id: "checkpoint", input: forCuts });
      const input = { ...common, record, hosts, membership, failedAtMs };
      enqueue.spawnChild("training", { id: "training", input });
    }),
    stopCoordinators: enqueueActions(({ enqueue }) => {
      enqueue.stopChild("training");
      enqueue.stopChild("checkpoint");
    }),
    childEnded: assign(({ context, event }) =>
      "error" in event ? afterFailure(context, event.error, event.actorId) : {},
    ),
    logGathered: ({ context: { record, network, hosts } }) => {
      const shares = hosts.map(({ host, devices }) => `${devices} of host:${host}`).join(", ");
      const did = `allocated the devices: ${shares}`;
      record.incidents.act(`job:${record.run}`, did, network.clock.date());
    },
    finish: assign({
      result: ({ context, event }) =>
        "output" in event ? (event.output as RunResult) : context.result,
    }),
    giveUpWaiting: ({ context }) => {
      throw new RunCancelledError(context.record.run);
    },
    forwardCancel: enqueueActions(({ context, self, enqueue }) => {
      const training: AnyActorRef | undefined = self.getSnapshot().children.training;
      const isPreparing = training?.getSnapshot()?.value === "preparing";
      const isStuck = context.record.roomAwaited.size > 0;
      if (isPreparing || isStuck) throw new RunCancelledError(context.record.run); // J8
      enqueue.sendTo("training", { type: "run.cancel" });
    }),
    handUp: ({ context }) => {
      const { failure } = context;
      throw failure instanceof ActorFailedError
        ? new RemoteError(failure.incident.reason)
        : failure;
    },
  },
  guards: {
    hasFailed: ({ context }) => context.failure !== undefined,
    mayRecoverPartly: ({ context }) => mayRecoverPartly(context),
    isYielded: ({ context, event }) =>
      context.record.isYieldRequested && event.type === "xstate.done.actor.training",
    isYieldRequested: ({ context }) => context.record.isYieldRequested,
    isFinished: ({ event }) => event.type === "xstate.done.actor.training" && hasOutput(event),
    isRescaled: ({ event }) => event.type === "xstate.done.actor.training" && !hasOutput(event), // J4
  },
}).createMachine({
  id: "jobSupervisor",
  context: ({ input }) => ({
    ...input,
    // The supervisor outlives its generations, so its messages carry generation 0.
    mailbox: openMailbox(
      input.network,
      { run: input.record.run, generation: 0 },
      { role: "job", index: 0 },
    ),
    job: input.record.job,
    hosts: [],
    claimed: undefined,
    history: emptyHistory,
    passedOver: [],
    delayMs: 0,
    offender: "",
    result: undefined,
  }),
  output: ({ context }) => context.result,
  initial: "gathering",
  states: {
    gathering: {
      always: { guard: "isYieldRequested", target: "finished" }, // J6
      invoke: [
        {
          src: "gathering",
          id: "gathering",
          input: ({ context }) => gatheringOf(context),
          onDone: {
            target: "claiming",
            actions: [
              assign({
                hosts: ({ context, event }) => inFormerPlaces(event.output, context.hosts),
              }),
              "logGathered",
            ],
          },
          onError: { target: "restarting", actions: "childEnded" },
        },
        { src: "watchingRequests", input: ({ context }) => context },
        { src: "receivingSecondaryFailures", input: ({ context }) => context },
        { src: "waiting", input: ({ context }) => membersWait(context) },
      ],
      on: {
        "run.cancel": { actions: "giveUpWaiting" },
        "run.yield": "finished", // J6
        "run.rescale": { target: "gathering", reenter: true },
      },
    },
    claiming: {
      on: { "run.cancel": { actions: "giveUpWaiting" } }, // J8
      invoke: [
        {
          src: "claiming",
          id: "claiming",
          input: ({ context }) => context,
          onDone: {
            target: "generation",
            actions: [
              assign({ claimed: ({ event }) => event.output }),
              ({ context, event }) => logClaimed(context, event.output, context.hosts),
            ],
          },
          onError: { target: "restarting", actions: "childEnded" },
        },
        { src: "holding", input: ({ context }) => context },
      ],
    },
    generation: {
      invoke: [
        { src: "holding", input: ({ context }) => context },
        { src: "releasingAtStop", input: ({ context }) => context },
      ],
      initial: "running",
      states: {
        running: {
          entry: "startCoordinators",
          exit: "stopCoordinators",
          on: {
            "run.cancel": { actions: "forwardCancel" },
            "run.yield": { actions: sendTo("training", { type: "run.yield" }) },
            "xstate.error.actor.*": [
              { guard: "mayRecoverPartly", target: "recoveringPartly", actions: "childEnded" },
              { target: "#jobSupervisor.restarting", actions: "childEnded" },
            ],
            "xstate.done.actor.*": [
              { guard: "isFinished", target: "#jobSupervisor.finished", actions: "finish" },
              { guard: "isYielded", target: "#jobSupervisor.finished" }, // J6
              {
                guard: "isRescaled",
                target: "#jobSupervisor.gathering",
                actions: assign({ failedAtMs: undefined }),
              },
            ],
          },
        },
        recoveringPartly: {
          on: { "run.cancel": { actions: "giveUpWaiting" } }, // J8
          always: { guard: "hasFailed", target: "#jobSupervisor.restarting" },
          invoke: {
            src: "recoveringPartly",
            input: ({ context }) => context,
            onDone: "#jobSupervisor.restarting",
            onError: "#jobSupervisor.restarting", // Restarts from the last checkpoint.
          },
        },
      },
    },
    restarting: {
      on: { "run.cancel": { actions: "giveUpWaiting" } }, // J8
      invoke: { src: "receivingSecondaryFailures", input: ({ context }) => context },
      always: { guard: "hasFailed", target: "failed" },
      after: { delayMs: "gathering" },
    },
    failed: { entry: "handUp" },
    finished: { type: "final" },
  },
});

/** The state machine drawn in the header, as an actor. */
export const jobSupervisorMachine = defineActor(machine);

function gatheringOf(context: JobSupervisorContext) {
  const { network, membership, record, failedAtMs } = context;
  const { wanted, most } = devicesWanted(context);
  return {
    clock: network.clock,
    membership,
    run: record.run,
    wanted,
    most,
    isElastic: failedAtMs !== undefined,
    onWait: () => {
      record.append(0, { type: "run.waiting", devices: membership.devices, wanted });
    },
  };
}

function membersWait({ network, record }: JobSupervisorContext) {
  const { run } = record;
  const [awaited, what] = [["the membership"], "devices to go on with"];
  return { network, run, waiter: `job:${run}`, awaited, what, sinceMs: network.clock.now() };
}

function hasOutput(event: { readonly type: string }): boolean {
  return "output" in event && event.output !== undefined;
}
