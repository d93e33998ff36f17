// serve: starts a model server over HTTP, NATS and in process. Starts the actors of the models,
// waits until each has loaded, and listens.
//
//   serve ─┬─ supervisor ── served model, one for each
//          ├─ HTTP server ──┐
//          ├─ NATS service ─┼─▶ router ──▶ versions of a model ──▶ queue ──▶ engine
//          └─ predict, rank ┘

import { type Actor, type AnyActorRef, createActor } from "xstate";
import {
  actorClock,
  type Clock,
  clusterScope,
  type Disk,
  type Log,
  type Mailbox,
  type NextTurn,
  nextTurn,
  type RecordColumn,
  realClock,
  realDisk,
  recordColumnsOf,
  type SampleRecord,
  shapesOf,
  silentLog,
  supervisorMachine,
} from "../../../internal.ts";
import { type RankOptions, ServedModel, type ServedVersion } from "../model/served-model.ts";
import type { OpenEngine, ScoringCall } from "./models/engine.ts";
import { ModelVersions } from "./models/model-versions.ts";
import { RequestRouter, type Response } from "./models/request-router.ts";
import { servedModelMachine } from "./models/served-model-actor.ts";
import { resolveServer, type ServerOptions, type ServerSpec } from "./models/server-options.ts";
import { openMetrics, type ServingMetrics } from "./models/serving-metrics.ts";
import { type HttpServer, listenHttp } from "./protocols/http-server.ts";
import { listenNats, type NatsService } from "./protocols/nats-service.ts";

/** Dependencies that a caller may replace, besides the options. */
export interface ServeDependencies {
  /** @default silent */
  readonly log?: Log | undefined;
  /** @default the engine of Osiris */
  readonly open?: OpenEngine | undefined;
  /** @default the machine's own */
  readonly clock?: Clock | undefined;
  readonly disk?: Disk | undefined;
  readonly nextTurn?: NextTurn | undefined;
}

/** A server of models. Close it, or declare it with `await using`. */
export interface ModelServer extends AsyncDisposable {
  /** Address of the server: `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The newest version of each model. */
  readonly versions: Readonly<Record<string, ServedVersion | undefined>>;
  /**
   * Scores records in process, through the same queue as every request.
   * @throws as `RequestRouter.answer`
   */
  predict(model: string, records: readonly SampleRecord[]): Promise<Response>;
  /** Ranks candidates for a user in process. @throws as `RequestRouter.answer` */
  rank(
    model: string,
    user: SampleRecord,
    candidates: readonly SampleRecord[],
    options?: RankOptions,
  ): Promise<Response>;
  /** The columns of a model's records. @throws ModelUnknownError, ModelUnavailableError */
  columns(model: string): readonly RecordColumn[];
  /** All metrics, in Prometheus's text format. */
  metrics(): Promise<string>;
  /**
   * Stops accepting requests, answers accepted ones within `drainMs`, and ends. Safe to call twice.
   */
  close(): Promise<void>;
}

/**
 * Serves models until it is closed. Resolves once all models are loaded and the server listens.
 * @throws InvalidOptionError, InputUnusableError (an address, a certificate, an unreadable model),
 * CheckpointMissingError, CheckpointCorruptError, PathForbiddenError (as `loadModel`),
 * TransportLostError
 */
export async function serve(
  options: ServerOptions,
  dependencies: ServeDependencies = {},
): Promise<ModelServer> {
  const spec = resolveServer(options);
  const { clock = realClock, log = silentLog } = dependencies;
  const models = new Map<string, ModelVersions>();
  const metrics = await openMetrics(function* () {
    for (const [name, { backlog }] of models) yield [name, backlog.samples] as const;
  });
  for (const [name, model] of Object.entries(spec.models)) {
    const base = { name, spec: model, limits: spec, clock, metrics };
    models.set(name, new ModelVersions({ ...base, nextTurn: dependencies.nextTurn ?? nextTurn }));
  }
  const router = new RequestRouter(models, { spec, clock, metrics });
  const started = { spec, models, metrics, clock, log, dependencies };
  const tree = await startModels(started);
  const listening = { spec, router, metrics, log, clock };
  let nats: NatsService | undefined;
  try {
    nats = await listenNats(listening);
    const http = await listenHttp(listening);
    return serverOf(started, { router, http, nats, tree });
  } catch (error) {
    await nats?.close();
    await tree.drain();
    throw error;
  }
}

interface Started {
  readonly spec: ServerSpec;
  readonly models: ReadonlyMap<string, ModelVersions>;
  readonly metrics: ServingMetrics;
  readonly clock: Clock;
  readonly log: Log;
  readonly dependencies: ServeDependencies;
}

/** The actors of the models. */
interface Tree {
  /** Lets each model answer its accepted requests, and ends all actors. */
  drain(): Promise<void>;
}

/**
 * Starts an actor for each model, and waits until all have loaded. Throws the first failure to
 * load.
 */
async function startModels(started: Started): Promise<Tree> {
  const { spec, models, metrics, clock, log, dependencies } = started;
  const { open = ServedModel.open, disk = realDisk } = dependencies;
  const loaded: Promise<void>[] = [];
  const drained: Promise<void>[] = [];
  const children = [...models.values()].map((versions) => {
    const model = spec.models[versions.name];
    const end = eventually();
    const first = eventually();
    loaded.push(first.promise);
    drained.push(end.promise);
    const input = {
      ...{ versions, spec: model, open, watchMs: spec.watchMs, clock, disk, log, metrics },
      onLoaded: (error: unknown) => (error === undefined ? first.resolve() : first.reject(error)),
      onDrained: end.resolve,
    };
    const start = () => ({ logic: servedModelMachine, input });
    return { id: versions.name, restart: "transient" as const, start };
  });
  const supervisor = createActor(supervisorMachine, {
    clock: actorClock(clock),
    input: {
      ...{ name: "serving", strategy: "one-for-one", intensity, children, clock },
      mailbox: noMailbox,
      onRestart: (incident) => {
        const { offender: model, reason } = incident;
        const { code, message: error } = reason;
        log.write("error", "A served model's actor is started again", { model, code, error });
      },
    },
  });
  supervisor.subscribe({ error: (error) => log.write("fatal", String(error)) });
  supervisor.start();
  const tree = { drain: () => drainAll(supervisor, drained) };
  try {
    await Promise.all(loaded);
  } catch (error) {
    await tree.drain();
    throw error;
  }
  return tree;
}

/**
 * Most restarts of actors whose code threw; failures to load are handled by the model's actor
 * itself.
 */
const intensity = { restartsMax: 10, windowMs: 60_000 };

async function drainAll(
  supervisor: Actor<typeof supervisorMachine>,
  drained: readonly Promise<void>[],
): Promise<void> {
  const { children, status } = supervisor.getSnapshot();
  for (const child of Object.values<AnyActorRef | undefined>(children)) {
    child?.send({ type: "model.drain" });
  }
  if (status === "active") await Promise.all(drained);
  supervisor.stop();
}

/** A promise with external resolve and reject; only the first call counts. */
function eventually() {
  let resolve = () => {};
  let reject = (_error: unknown) => {};
  const promise = new Promise<void>((done, fail) => {
    resolve = done;
    reject = fail;
  });
  promise.catch(() => {}); // Awaiting callers still see it.
  return { promise, resolve, reject };
}

/** A mailbox without messages: a model server has no cluster transport. */
const noMailbox: Mailbox = {
  scope: clusterScope,
  self: { role: "process", index: 0 },
  received: { messages: 0, lastAtMs: 0, last: { all: () => [] } },
  send() {},
  encoded: () => ({ bytes: 0, send() {} }),
  listen: () => ({ unsubscribe() {} }),
};

interface Parts {
  readonly router: RequestRouter;
  readonly http: HttpServer;
  readonly nats: NatsService | undefined;
  readonly tree: Tree;
}

function serverOf(
  { spec, models, metrics, clock }: Started,
  { router, http, nats, tree }: Parts,
): ModelServer {
  const score = (model: string, call: ScoringCall) =>
    router.answer({ model, call, bytes: 0, protocol: "program" });
  const end = async () => {
    nats?.stop();
    router.leave();
    if (spec.leaveMs > 0) await http.leave();
    await Promise.all([within(clock, spec.drainMs, router.drain()), http.drain()]);
    await nats?.close();
    await within(clock, spec.drainMs, tree.drain());
  };
  let ending: Promise<void> | undefined;
  const close = () => {
    ending ??= end();
    return ending;
  };
  return {
    url: http.url,
    get versions() {
      const newest = [...models].map(([name, { engine }]) => [name, engine?.version] as const);
      return Object.fromEntries(newest);
    },
    predict: (model, records) => score(model, { kind: "records", records }),
    rank: (model, user, candidates, options = {}) =>
      score(model, { kind: "rank", user, candidates, options }),
    columns(model) {
      const { job } = router.engineOf(model);
      return recordColumnsOf(job.data, shapesOf(job.model));
    },
    metrics: () => metrics.text(),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Waits for `work`, but no longer than `ms`. */
async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve) => {
    const cancel = clock.after(ms, resolve);
    const done = () => {
      cancel();
      resolve();
    };
    work.then(done, done);
  });
}
