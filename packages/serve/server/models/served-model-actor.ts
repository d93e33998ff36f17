// Served model: an actor that loads a model, keeps it up to date, and drains it at the end.
//
//   loading ──▶ serving: idle ⇄ reloading ──drain──▶ draining ──▶ drained
//     │ ▲           │
//     ▼ └───────────┘ the engine hung
//   unavailable (for `retryMs`)
//
// Requests bypass the state machine, through ModelVersions: a request causes no transition.
//
// Takes   model.drain      from the server when it ends
//         model.update     from the watch of its directory
//         engine.hung      from the queue of a version
//
// Invariants
//   A1. A failed reload changes nothing: the former version continues to answer.
//   A2. While no version is loaded, requests are refused by name, and loading is retried.

import { assign, fromCallback, fromPromise, setup } from "xstate";
import { type Clock, type Disk, defineActor, type Log, recordError } from "../../../../internal.ts";
import type { ServedVersion } from "../../model/served-model.ts";
import type { OpenEngine, ScoringEngine } from "./engine.ts";
import type { ModelVersions } from "./model-versions.ts";
import { type ModelUpdate, ModelWatch } from "./model-watch.ts";
import type { ServedModelSpec } from "./server-options.ts";
import type { ServingMetrics } from "./serving-metrics.ts";

/** The input of the actor. */
export interface ServedModelInput {
  readonly versions: ModelVersions;
  readonly spec: ServedModelSpec;
  readonly open: OpenEngine;
  readonly watchMs: number;
  readonly clock: Clock;
  readonly disk: Disk;
  readonly log: Log;
  readonly metrics: ServingMetrics;
  /** Called after each attempt to load, with the error; undefined: it has loaded. */
  readonly onLoaded: (error: unknown) => void;
  /** Called once it has answered all accepted requests, and closed its engines. */
  readonly onDrained: () => void;
}

interface ServedModelContext extends ServedModelInput {
  readonly watch: ModelWatch;
  readonly update: ModelUpdate | undefined;
}

type ServedModelEvent =
  | { readonly type: "model.drain" }
  | { readonly type: "model.update"; readonly update: ModelUpdate }
  | { readonly type: "engine.hung" };

/** Codes of errors that a retry would meet again. */
const lasting = new Set(["CHECKPOINT_CORRUPT", "DELTA_REFUSED", "INVALID_OPTION"]);

/** Pause before loading is retried. */
const retryMs = 1000;

const loading = fromPromise<ScoringEngine, ServedModelInput>(async ({ input, signal }) => {
  const engine = await openWith(input, input.spec.manifest);
  if (signal.aborted) await engine.close();
  return engine;
});

async function openWith(
  { spec, open, versions, log }: ServedModelInput,
  manifest: string | undefined,
): Promise<ScoringEngine> {
  const { path, memoryBytes, tierDirectory, calibration, arithmetic } = spec;
  const choice = { manifest, calibration, arithmetic };
  const engine = await open(path, { ...choice, memoryBytes, tierDirectory });
  const { digest, step, calibrated } = engine.version;
  const { trained, own } = engine.arithmetic ?? {};
  if (own !== trained) {
    const message = `Trained with ${trained}, scored with ${own}: the last bits may differ`;
    log.write("warn", message, { model: versions.name, digest, step });
  }
  if (calibrated) {
    const message = "Probabilities are calibrated by the calibration stored with the version";
    log.write("info", message, { model: versions.name, digest, step });
  }
  for (const { table, rows, cachedRows } of engine.onDisk ?? []) {
    const message = `Table ${table} is on disk: memory caches ${cachedRows} of its ${rows} rows`;
    log.write("info", message, { model: versions.name });
  }
  return engine;
}

/** Polls the directory until there is an update. */
const watching = fromCallback<{ type: string }, ServedModelContext>(({ input, sendBack }) => {
  const { versions, watch, clock, watchMs, spec } = input;
  if (!spec.watch) return undefined;
  let cancel = () => {};
  const poll = () => {
    const version = versions.engine?.version;
    let update: ModelUpdate | undefined;
    try {
      if (version !== undefined) update = watch.poll(version);
    } catch (error) {
      noteFailure(input, error);
    }
    if (update === undefined) cancel = clock.after(watchMs, poll);
    else sendBack({ type: "model.update", update });
  };
  cancel = clock.after(watchMs, poll);
  return () => cancel();
});

/** Loads an update. The engine itself switches to a delta. */
const reloading = fromPromise<ScoringEngine | ServedVersion, ServedModelContext>(
  async ({ input, signal }) => {
    const { update, versions } = input;
    if (update?.kind === "calibration") {
      const engine = versions.engineOf();
      return engine.recalibrate?.() ?? engine.version;
    }
    if (update?.kind === "delta") return versions.engineOf().applyDelta(update.path, { signal });
    const engine = await openWith(input, update?.manifest);
    if (signal.aborted) await engine.close();
    return engine;
  },
);

const draining = fromPromise<void, ServedModelInput>(({ input }) => input.versions.drain());

const machine = setup({
  types: {} as {
    context: ServedModelContext;
    input: ServedModelInput;
    events: ServedModelEvent;
  },
  actors: { loading, watching, reloading, draining },
  actions: {
    noteFailure: ({ context }, { error }: { error: unknown }) => {
      noteFailure(context, error);
      if (context.versions.engine === undefined) context.onLoaded(error);
    },
    abandon: ({ context }) => {
      context.versions.abandon("its engine hung");
      context.log.write("error", "The engine of a served model hung", {
        model: context.versions.name,
      });
    },
  },
}).createMachine({
  id: "servedModel",
  context: ({ input }) => ({
    ...input,
    watch: new ModelWatch(input.spec.path, input.spec.manifest, input.disk),
    update: undefined,
  }),
  initial: "loading",
  on: { "model.drain": { target: ".draining" } },
  states: {
    loading: {
      invoke: {
        src: "loading",
        input: ({ context }) => context,
        onDone: {
          target: "serving",
          actions: ({ context, event, self }) => {
            context.versions.add(event.output, () => self.send({ type: "engine.hung" }));
            context.onLoaded(undefined);
          },
        },
        onError: {
          target: "unavailable",
          actions: { type: "noteFailure", params: ({ event }) => ({ error: event.error }) },
        },
      },
    },
    unavailable: { after: { [retryMs]: "loading" } },
    serving: {
      initial: "idle",
      on: { "engine.hung": { target: "loading", actions: "abandon" } },
      states: {
        idle: {
          invoke: { src: "watching", input: ({ context }) => context },
          on: {
            "model.update": {
              target: "reloading",
              actions: assign({ update: ({ event }) => event.update }),
            },
          },
        },
        reloading: {
          invoke: {
            src: "reloading",
            input: ({ context }) => context,
            onDone: {
              target: "idle",
              actions: ({ context, event, self }) =>
                switchTo(context, event.output, () => self.send({ type: "engine.hung" })),
            },
            onError: {
              target: "idle",
              actions: { type: "noteFailure", params: ({ event }) => ({ error: event.error }) },
            },
          },
        },
      },
    },
    draining: {
      on: { "model.drain": {} },
      invoke: {
        src: "draining",
        input: ({ context }) => context,
        onDone: "drained",
        onError: "drained",
      },
    },
    drained: { type: "final", entry: ({ context }) => context.onDrained() },
  },
});

/** The state machine of a served model. */
export const servedModelMachine = defineActor(machine, { receives: "nothing" });

function switchTo(
  { versions, metrics, log }: ServedModelContext,
  loaded: ScoringEngine | ServedVersion,
  onHang: () => void,
): void {
  if ("predict" in loaded) versions.add(loaded, onHang);
  else versions.switched();
  metrics.reloaded(versions.name, "switched");
  const { digest, step, calibrated } = versions.engineOf().version;
  const how = calibrated ? "calibrated by its stored calibration" : "not calibrated";
  log.write("info", `A newer version is serving, ${how}`, { model: versions.name, digest, step });
}

/** Records a failed update; the former version stays. A1 */
function noteFailure(
  { versions, metrics, log, clock, watch, update }: ServedModelContext,
  error: unknown,
): void {
  const { code, message } = recordError(error);
  if (update !== undefined && !lasting.has(code)) watch.retry(update);
  if (code === "DELTA_REFUSED") {
    // An old delta file of another version may still be there: this is no error.
    metrics.reloaded(versions.name, "refused");
    log.write("info", "A delta does not follow the serving version", {
      model: versions.name,
      error: message,
    });
    return;
  }
  versions.failure = { code, message, at: clock.date().toISOString() };
  metrics.reloaded(versions.name, "failed");
  log.write("warn", "A version could not be loaded", {
    model: versions.name,
    code,
    error: message,
  });
}
