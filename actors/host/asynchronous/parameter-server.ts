// Parameter server: the actor of the thread of a sparse server, which has shards of rows, or of the
// dense server, which has the center of the dense weights.
//
//   starting ──ready──▶ serving ◀──saved── saving
//                          └────server.save───▲
//   any ──thread ended──▶ error: the generation replaces the server (generation.ts)
//
// Takes   server.save { cut }, of its generation, while trainers pause
// Emits   server.ready · server.saved, to its generation
//
// Invariants
//   E1. A server executes only save requests that arrive after it is ready: the generation repeats
//       the request to a server that was replaced while it saved.

import { assign, sendParent, sendTo, setup } from "xstate";
import type { ServerCommand } from "../../../src/asynchronous/parameter-servers.ts";
import { type ServerMemory, wakeServer } from "../../../src/asynchronous/server-memory.ts";
import type { Launcher } from "../../../src/ports/launcher.ts";
import type { SavedPart } from "../../../storage/checkpoints/store/part-writer.ts";
import { defineActor } from "../../runtime/define-actor.ts";
import type { ServerReport } from "../../threads/asynchronous/server-program.ts";
import type { ThreadTask } from "../../threads/thread-program.ts";
import { lossOf, type ThreadEnded, type ThreadPlace, threadLogic } from "../thread-actor.ts";

export interface ParameterServerInput {
  readonly launcher: Launcher;
  /** `sparse:1`, `dense:0`. */
  readonly name: string;
  readonly task: ThreadTask;
  readonly place: ThreadPlace;
  readonly memory: ServerMemory;
}

export type ServerEvent =
  | ({ readonly type: "server.ready"; readonly server: string } & Began)
  | {
      readonly type: "server.saved";
      readonly server: string;
      readonly cut: number;
      readonly parts: readonly SavedPart[];
    };

/** The start of a server: the `cut` of its checkpoint, or 0, and the bytes read of it. */
type Began = Pick<Extract<ServerReport, { type: "ready" }>, "cut" | "storeBytes">;

/** Requests the parts of a cut. */
export interface SaveServer {
  readonly type: "server.save";
  readonly cut: number;
}

type Reported = { readonly type: "thread.reported"; readonly report: ServerReport };

export interface ParameterServerContext extends ParameterServerInput {
  /** The cut that was requested last. */
  readonly cut: number | undefined;
}

const thread = threadLogic<ParameterServerInput, ServerCommand, ServerReport>((input) => ({
  launcher: input.launcher,
  name: input.name.replace(":", "-"),
  task: input.task,
  place: input.place,
  wake: () => wakeServer(input.memory),
  eventOf: (report): Reported => ({ type: "thread.reported", report }),
}));

const machine = setup({
  types: {} as {
    context: ParameterServerContext;
    input: ParameterServerInput;
    events: SaveServer | Reported | ThreadEnded;
  },
  actors: { thread },
  actions: {
    noteCut: assign({
      cut: ({ context, event }) => (event.type === "server.save" ? event.cut : context.cut),
    }),
    save: sendTo("thread", ({ context }) => {
      return { type: "command", command: { type: "save", cut: context.cut ?? 0 } } as const;
    }),
    sendReady: sendParent(({ context, event }): ServerEvent => {
      if (event.type !== "thread.reported" || event.report.type !== "ready") throw unasked(event);
      const { cut, storeBytes } = event.report;
      return { type: "server.ready", server: context.name, cut, storeBytes };
    }),
    sendSaved: sendParent(({ context, event }): ServerEvent => {
      if (event.type !== "thread.reported" || event.report.type !== "saved") throw unasked(event);
      const { cut, parts } = event.report;
      return { type: "server.saved", server: context.name, cut, parts };
    }),
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, context.name);
    },
  },
  guards: {
    isReady: ({ event }) => event.type === "thread.reported" && event.report.type === "ready",
    isSaved: ({ event }) => event.type === "thread.reported" && event.report.type === "saved",
  },
}).createMachine({
  id: "parameterServer",
  context: ({ input }) => ({ ...input, cut: undefined }),
  invoke: { src: "thread", id: "thread", input: ({ context }) => context },
  on: { "thread.ended": { actions: "lose" } },
  initial: "starting",
  states: {
    // E1
    starting: {
      on: { "thread.reported": { guard: "isReady", target: "serving", actions: "sendReady" } },
    },
    serving: { on: { "server.save": { target: "saving", actions: ["noteCut", "save"] } } },
    saving: {
      on: { "thread.reported": { guard: "isSaved", target: "serving", actions: "sendSaved" } },
    },
  },
});

/** The state machine drawn in the header, as an actor. */
export const parameterServerMachine = defineActor(machine, { receives: "nothing" });

function unasked({ type }: { readonly type: string }): RangeError {
  return new RangeError(`The server does not expect ${type} here`);
}
