// Job supervisor: one for each running job. Every start is a generation: it claims the next number
// in the checkpoint store, which fences all older ones, and starts both coordinators on what it
// found.
//
//   gathering ──▶ claiming ──▶ running ──finished──▶ finished
//      ▲                          │└─other devices are wanted─▶ gathering
//      │                          ├─(partial recovery)─▶ salvaging ─▶ restarting
//      │                          └─a coordinator failed─▶ (decide) ─▶ restarting ─┐
//      └──────────────────────── after a backoff ──────────────────────────────────┘
//                                                  └─▶ error: a restart cannot mend it
//
// Invariants
//   J1. One-for-all: the coordinators of a generation live and die together (law 3).
//   J2. Nothing is carried from one generation to the next but what the store holds (law 6).
//   J3. When a generation ends, however it ends, all its hosts are told at once: nobody waits for a
//       deadline, and no device is left standing.
//   J4. Other devices are a plan and no failure: they count as no restart.
//   J5. A checkpoint that could not be restored, as its bytes are not those that it names, is
//       passed over for the one before it.
//   J6. It lets go of its devices when it is told to, with a checkpoint and without a result; what
//       its run is then, its record says.
//   J7. Under a lease the one who leads is in charge: a generation that a former leader claimed
//       with its last breath is followed by another.

import {
  assign,
  type DoneActorEvent,
  type ErrorActorEvent,
  enqueueActions,
  fromCallback,
  sendTo,
  setup,
} from "xstate";
import {
  PeerLostError,
  RemoteError,
  RunCancelledError,
  recordError,
} from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { devicesOf, type HostShare, type Membership } from "../host/membership.ts";
import type { RunResult } from "../run-state/run-events.ts";
import type { RunRecord } from "../run-state/run-record.ts";
import { ActorFailedError, failureOf } from "../runtime/incident.ts";
import { type ThrowEvent, throwInjected } from "../runtime/injected-fault.ts";
import { listening } from "../runtime/listening.ts";
import { type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import { decide, emptyHistory, type RestartHistory } from "../runtime/restart-policy.ts";
import { downWithChildren } from "../runtime/stop-children.ts";
import { backoff } from "../runtime/supervisor.ts";
import { waiting } from "../runtime/wait-graph.ts";
import { isSalvaged } from "../threads/generation-spec.ts";
import { checkpointCoordinatorMachine } from "./checkpoint-coordinator.ts";
import { type Claimed, claiming, mendable, passedOverAfter } from "./claim-generation.ts";
import { salvaging } from "./partial-recovery.ts";
import { devicesMax, holding, watchingWish } from "./scaling.ts";
import { hearingLate } from "./secondary-failures.ts";
import { trainingCoordinatorMachine } from "./training-coordinator.ts";
import { gathering } from "./wait-for-hosts.ts";

export interface JobSupervisorInput {
  readonly network: Network;
  readonly record: RunRecord;
  /** Hosts to run on. */
  readonly membership: Membership;
  readonly createdBy: string;
  /** When the failure was seen that it is started after, if it is. */
  readonly failedAtMs: number | undefined;
}

export interface JobSupervisorContext extends JobSupervisorInput {
  readonly mailbox: Mailbox;
  readonly job: JobSpec;
  /** The hosts of this generation, or of the one before. */
  readonly hosts: readonly HostShare[];
  readonly claimed: Claimed | undefined;
  readonly history: RestartHistory;
  /** Hashes of manifests whose checkpoints could not be restored. J5 */
  readonly passedOver: readonly string[];
  readonly delayMs: number;
  /** Who failed first in the last generation. */
  readonly offender: string;
  readonly result: RunResult | undefined;
  readonly failure?: unknown;
}

type JobSupervisorEvent =
  | { readonly type: "run.cancel" | "run.rescale" | "run.yield" }
  | ErrorActorEvent<unknown, string>
  | DoneActorEvent<unknown, string>
  | ThrowEvent;

const coordinators = [
  { id: "checkpoint", restart: "permanent" },
  { id: "training", restart: "transient" },
] as const;

/** Who is named when what is not an actor fails. */
const offenders: Readonly<Record<string, string>> = {
  gathering: "membership",
  claiming: "checkpoint store",
};

/** J3 */
const releasing = fromCallback<{ type: string }, JobSupervisorContext>(({ input }) => () => {
  const { network, record, claimed, hosts } = input;
  if (claimed === undefined) return;
  const scope = { run: record.run, generation: claimed.generation };
  const mailbox = openMailbox(network, scope, { role: "job", index: 0 });
  for (const { host } of hosts) {
    mailbox.tell({ role: "host", index: host }, "host.release", { command: 0 });
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
    listening,
    gathering,
    claiming,
    holding,
    watchingWish,
    releasing,
    hearingLate,
    waiting,
    salvaging,
    checkpoint: checkpointCoordinatorMachine,
    training: trainingCoordinatorMachine,
  },
  delays: { delayMs: ({ context }) => context.delayMs },
  actions: {
    throwInjected,
    startCoordinators: enqueueActions(({ context, enqueue }) => {
      const { network, record, membership, hosts, job, claimed, failedAtMs, createdBy } = context;
      if (claimed === undefined) throw new RangeError("No generation is claimed");
      const { generation, latest, store } = claimed;
      const scope = { run: record.run, generation };
      const common = { network, scope, job, store, latest };
      const forCuts = { ...common, hosts, record, createdBy };
      enqueue.spawnChild("checkpoint", { id: "checkpoint", input: forCuts });
      const input = { ...common, record, hosts, membership, failedAtMs };
      enqueue.spawnChild("training", { id: "training", input });
    }),
    stopCoordinators: enqueueActions(({ enqueue }) => {
      enqueue.stopChild("training");
      enqueue.stopChild("checkpoint");
    }),
    childEnded: enqueueActions(({ context, event, enqueue }) => {
      if (!("error" in event)) return;
      const { network, job, record, claimed, membership } = context;
      const lost = event.error instanceof PeerLostError ? event.error.actor : undefined;
      if (lost?.startsWith("host:")) membership.doubt(Number(lost.slice("host:".length)));
      const supervisor = `job:${record.run}`;
      const generation = claimed?.generation ?? 0;
      const offender = lost ?? offenders[event.actorId] ?? event.actorId;
      const doing = `generation ${generation}`;
      const failure = failureOf(event.error, { offender, supervisor, context: doing });
      const now = network.clock.date();
      record.fail(generation, failure.incident, now);
      const end = {
        child: "training",
        atMs: network.clock.now(),
        reason: "error" as const,
        error: mendable(network, recordError(failure), event.actorId),
      };
      const intensity = job.restarts;
      const children = coordinators;
      const policy = { supervisor, strategy: "one-for-all" as const, children, intensity, backoff };
      const decision = decide(policy, context.history, end); // J1
      const act = (did: string) => record.incidents.act(supervisor, did, now);
      if (generation > 0) act(`ended generation ${generation}, of all hosts`);
      const did = decision.escalate
        ? "gave the run up"
        : `begins again after ${decision.delayMs} ms`;
      act(did);
      const about = { run: record.run, actor: supervisor, ...(generation > 0 && { generation }) };
      network.log.write("warn", `${did}: ${failure.message}`, about);
      if (decision.escalate) {
        const isLimit = decision.cause.code === "RESTART_LIMIT";
        enqueue.assign({ failure: isLimit ? new RemoteError(decision.cause) : failure });
        return;
      }
      enqueue.assign({
        offender: failure.incident.offender,
        history: decision.history,
        delayMs: decision.delayMs,
        failedAtMs: end.atMs,
        passedOver: passedOverAfter(context, failure),
      });
    }),
    tellGathered: ({ context: { record, network, hosts } }) => {
      const shares = hosts.map(({ host, devices }) => `${devices} of host:${host}`).join(", ");
      const did = `gathered the devices: ${shares}`;
      record.incidents.act(`job:${record.run}`, did, network.clock.date());
    },
    finish: assign({
      result: ({ context, event }) =>
        "output" in event ? (event.output as RunResult) : context.result,
    }),
    giveUpWaiting: ({ context }) => {
      throw new RunCancelledError(context.record.run);
    },
    handUp: ({ context }) => {
      const { failure } = context;
      throw failure instanceof ActorFailedError
        ? new RemoteError(failure.incident.reason)
        : failure;
    },
  },
  guards: {
    hasFailed: ({ context }) => context.failure !== undefined,
    isSalvaged: ({ context }) => isSalvaged(context),
    isYielded: ({ context, event }) =>
      context.record.isYieldAsked && event.type === "xstate.done.actor.training",
    isYieldAsked: ({ context }) => context.record.isYieldAsked,
    isFinished: ({ event }) => event.type === "xstate.done.actor.training" && hasOutput(event),
    isRescaled: ({ event }) => event.type === "xstate.done.actor.training" && !hasOutput(event), // J4
  },
}).createMachine({
  id: "jobSupervisor",
  context: ({ input }) => ({
    ...input,
    // It outlives its generations: what is meant for the run's supervisor carries generation 0.
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
  invoke: { src: "listening", input: ({ context }) => context },
  on: { "chaos.throw": { actions: "throwInjected" } },
  initial: "gathering",
  states: {
    gathering: {
      always: { guard: "isYieldAsked", target: "finished" }, // J6
      invoke: [
        {
          src: "gathering",
          id: "gathering",
          input: ({ context }) => gatheringOf(context),
          onDone: {
            target: "claiming",
            actions: [assign({ hosts: ({ event }) => event.output }), "tellGathered"],
          },
          onError: { target: "restarting", actions: "childEnded" },
        },
        { src: "watchingWish", input: ({ context }) => context },
        { src: "hearingLate", input: ({ context }) => context },
        { src: "waiting", input: ({ context }) => membersWait(context) },
      ],
      on: {
        "run.cancel": { actions: "giveUpWaiting" },
        "run.yield": "finished", // J6
        "run.rescale": { target: "gathering", reenter: true },
      },
    },
    claiming: {
      invoke: [
        {
          src: "claiming",
          id: "claiming",
          input: ({ context }) => context,
          onDone: {
            target: "generation",
            actions: [
              assign({ claimed: ({ event }) => event.output }),
              ({ context }) => tellClaimed(context),
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
        { src: "releasing", input: ({ context }) => context },
      ],
      initial: "running",
      states: {
        running: {
          entry: "startCoordinators",
          exit: "stopCoordinators",
          on: {
            "run.cancel": { actions: sendTo("training", { type: "run.cancel" }) },
            "run.yield": { actions: sendTo("training", { type: "run.yield" }) },
            "xstate.error.actor.*": [
              { guard: "isSalvaged", target: "salvaging", actions: "childEnded" },
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
        salvaging: {
          always: { guard: "hasFailed", target: "#jobSupervisor.restarting" },
          invoke: {
            src: "salvaging",
            input: ({ context }) => context,
            onDone: "#jobSupervisor.restarting",
            onError: "#jobSupervisor.restarting", // Then it is the last checkpoint that counts.
          },
        },
      },
    },
    restarting: {
      invoke: { src: "hearingLate", input: ({ context }) => context },
      always: { guard: "hasFailed", target: "failed" },
      after: { delayMs: "gathering" },
    },
    failed: { entry: "handUp" },
    finished: { type: "final" },
  },
});

/** As drawn above; its children end with it. */
export const jobSupervisorMachine = downWithChildren(machine);

function gatheringOf({ network, membership, hosts, record, failedAtMs }: JobSupervisorContext) {
  const { job, devicesAsked, scaling } = record;
  const most = devicesMax(record);
  const first = devicesAsked ?? (job.devices === 0 ? membership.minDevices : job.devices);
  const before = devicesOf(hosts);
  // J4: whoever is there was counted before the generation was ended.
  const isPlanned = scaling !== undefined && failedAtMs === undefined;
  const wanted = isPlanned ? 1 : Math.min(before === 0 ? first : before, most);
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
  const [whom, what] = [["the membership"], "devices to go on with"];
  return { network, run, who: `job:${run}`, whom, what, sinceMs: network.clock.now() };
}

function tellClaimed({ network, record, job, claimed, hosts }: JobSupervisorContext): void {
  const { generation, latest } = claimed ?? {};
  const { run } = record;
  network.log.keep(run, job.checkpoint.directory, "root");
  const from = { step: latest?.cut ?? 0, hosts: hosts.map(({ host }) => host) };
  const fields = { run, generation: generation ?? 0, actor: `job:${run}`, ...from };
  network.log.write("info", "generation claimed", fields);
  const passed = claimed?.damaged.map(({ path }) => `, passing over ${path}`).join("") ?? "";
  const did = `claimed generation ${fields.generation}, from step ${from.step}${passed}`;
  record.incidents.act(fields.actor, did, network.clock.date());
}

function hasOutput(event: { readonly type: string }): boolean {
  return "output" in event && event.output !== undefined;
}
