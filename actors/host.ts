// Host: answers for one operating-system process: prepares data, and runs what the coordinator of a
// run assembles here.
//
//           host.assemble                    the generation ended in an error
//   idle ──────────────────▶ serving ──────────────────────────────▶ idle
//     ▲                        │ │                                     (host.failed is told)
//     └──── host.release ──────┘ └── host.assemble of a newer generation: serving, anew
//
// Takes   host.prepare · host.assemble · host.release
// Tells   host.preparing · host.prepared · host.failed · host.released; its generation tells the
//         coordinator host.progress · host.mended
//
// Invariants
//   H1. A generation older than the one that is served is not assembled: its coordinator is gone.
//   H2. A failure is told with the actor that failed first; the host itself lives on.

import {
  assign,
  type DoneActorEvent,
  type ErrorActorEvent,
  enqueueActions,
  fromCallback,
  setup,
} from "xstate";
import { FrameCorruptError, recordError } from "../src/errors.ts";
import { resolveJob } from "../src/job.ts";
import type { Launcher, ThreadEnd } from "../src/launcher.ts";
import type { Assembly, DataPlan } from "./assembly.ts";
import { assemblySchema } from "./assembly-schema.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import { downWithChildren } from "./down-with-children.ts";
import { hostGenerationMachine } from "./host-generation.ts";
import { ActorFailedError } from "./incident.ts";
import { listeningAsHost, type MessageEvent } from "./listening.ts";
import { type Address, type Network, openMailbox, type RunScope } from "./mailbox.ts";
import { lossOf } from "./thread-end.ts";

export interface HostInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly host: number;
}

export interface HostContext extends HostInput {
  /** What is served, if anything is. */
  readonly assembly: Assembly | undefined;
}

type HostEvent =
  | MessageEvent<"host.prepare" | "host.assemble" | "host.release">
  | { readonly type: "host.forget"; readonly id: string }
  | ErrorActorEvent<unknown, string>
  | DoneActorEvent<unknown, string>
  | ThrowEvent;

const coordinator: Address = { role: "coordinator", index: 0 };
/** Who is named when the preparation fails: it runs on a reader's thread. */
const preparer = "reader:0";
const entry = new URL("./thread-entry.js", import.meta.url);

type PrepareReport =
  | { readonly type: "preparing"; readonly fraction: number }
  | { readonly type: "prepared"; readonly plan: DataPlan };

/** Turns a job's data into its cache on a reader's thread, and tells who asked. */
const preparing = fromCallback<
  { type: string },
  HostInput & { readonly question: MessageEvent<"host.prepare"> }
>(({ input, sendBack }) => {
  const { network, launcher, host, question } = input;
  const { command } = question.body;
  const mailbox = openMailbox(network, question, { role: "host", index: host });
  const task = { program: "prepare", job: resolveJob(question.body.job) };
  const thread = launcher.start<never, PrepareReport>(entry, task, "prepare");
  let plan: DataPlan | undefined;
  thread.onReport((report) => {
    if (report.type === "prepared") plan = report.plan;
    else mailbox.tell(coordinator, "host.preparing", { fraction: report.fraction });
  });
  const finish = (end: ThreadEnd) => {
    if (plan !== undefined) mailbox.tell(coordinator, "host.prepared", { command, plan });
    else {
      // An end without a plan is a loss, also where the thread ended of its own accord.
      const error = recordError(lossOf(end, preparer));
      const body = { host, actor: preparer, error };
      mailbox.tell(coordinator, "host.failed", body);
    }
    sendBack({ type: "host.forget", id: preparingId(question) });
  };
  let isStopped = false;
  void thread.ended.then((end) => {
    if (!isStopped) finish(end);
  });
  return () => {
    isStopped = true;
    thread.kill();
  };
});

const machine = setup({
  types: {} as { context: HostContext; input: HostInput; events: HostEvent },
  actors: { listening: listeningAsHost, preparing, generation: hostGenerationMachine },
  actions: {
    throwInjected,
    prepare: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "host.prepare") return;
      const id = preparingId(event);
      if (self.getSnapshot().children[id as never] !== undefined) return; // Asked twice.
      enqueue.spawnChild("preparing", { id, input: { ...context, question: event } });
    }),
    forget: enqueueActions(({ event, enqueue }) => {
      if (event.type === "host.forget") enqueue.stopChild(event.id);
    }),
    assemble: assign({
      assembly: ({ context, event }) =>
        event.type === "host.assemble"
          ? assemblySchema.parse(event.body.assembly)
          : context.assembly,
    }),
    tellFailed: ({ context, event }) => {
      if (context.assembly === undefined || !("error" in event)) return;
      const { error } = event;
      const { host } = context;
      const isNamed = error instanceof ActorFailedError;
      const body = isNamed
        ? { host, actor: error.incident.offender, error: error.incident.reason }
        : { host, actor: `host:${host}`, error: recordError(error) };
      const mailbox = openMailbox(context.network, context.assembly, hostAddress(context));
      mailbox.tell(coordinator, "host.failed", body);
    },
    tellReleased: ({ context, event }) => {
      if (event.type !== "host.release") return;
      const mailbox = openMailbox(context.network, event, hostAddress(context));
      const { command } = event.body;
      mailbox.tell(coordinator, "host.released", { command, host: context.host });
    },
  },
  guards: {
    isNewer: ({ context, event }) => {
      if (event.type !== "host.assemble") return false;
      const { error } = assemblySchema.safeParse(event.body.assembly);
      if (error !== undefined) {
        context.network.onCorrupt(new FrameCorruptError("host.assemble", error.message));
        return false;
      }
      const { assembly } = context;
      if (assembly === undefined || assembly.run !== event.run) return true;
      return event.generation > assembly.generation; // H1
    },
    isServed: ({ context, event }) => isOfAssembly(context.assembly, event as unknown as RunScope),
  },
}).createMachine({
  id: "host",
  context: ({ input }) => ({ ...input, assembly: undefined }),
  invoke: { src: "listening", input: ({ context }) => ({ ...context, index: context.host }) },
  on: {
    "host.prepare": { actions: "prepare" },
    "host.forget": { actions: "forget" },
    "chaos.throw": { actions: "throwInjected" },
    "host.release": { actions: "tellReleased" },
  },
  initial: "idle",
  states: {
    idle: {
      on: { "host.assemble": { guard: "isNewer", target: "serving", actions: "assemble" } },
    },
    serving: {
      invoke: {
        src: "generation",
        input: ({ context }) => {
          if (context.assembly === undefined) throw new RangeError("Nothing is assembled");
          return { ...context, assembly: context.assembly };
        },
        onError: { target: "idle", actions: "tellFailed" }, // H2
      },
      on: {
        "host.assemble": {
          guard: "isNewer",
          target: "serving",
          reenter: true,
          actions: "assemble",
        },
        "host.release": [
          { guard: "isServed", target: "idle", actions: "tellReleased" },
          { actions: "tellReleased" },
        ],
      },
    },
  },
});

/** As drawn above; its children end with it. */
export const hostMachine = downWithChildren(machine);

function preparingId(question: RunScope & { body: { command: number } }): string {
  return `preparing:${question.run}:${question.generation}:${question.body.command}`;
}

function hostAddress(context: HostContext): Address {
  return { role: "host", index: context.host };
}

function isOfAssembly(assembly: Assembly | undefined, scope: RunScope): boolean {
  return assembly?.run === scope.run && assembly.generation === scope.generation;
}
