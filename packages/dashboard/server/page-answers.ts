// Answers the page's requests besides its stream: runs and their events, shards, tiers, single
// actors, and changes. Each answer is that of the job service or of inspection, for the viewer's
// tenant.

import { z } from "zod";
import {
  type ActorReport,
  type Client,
  type ClusterReport,
  checkOptions,
  expected,
  type Network,
  orderFault,
  type Role,
  type RunEvent,
  type ShardReport,
  type TierReport,
} from "../../../internal.ts";
import type { Visitor } from "./dashboard-options.ts";
import type { EventRing } from "./event-ring.ts";
import {
  type ActorDetail,
  pageMethods,
  type RunHistory,
  type RunLine,
  type RunSummary,
  type TimedEvent,
} from "./page-api.ts";

/** Most progress events in a history: more than the pixels of a chart. */
const progressMax = 1500;
/** Shards per inspection request, so that the reply fits into a frame. */
const shardsAtOnce = 1500;
/** How long an answer is shared between pages that make the same request. */
const freshMs = 2000;

export interface AnswersOf {
  readonly network: Network;
  readonly ring: EventRing;
  readonly clientOf: (tenant: string | undefined) => Client;
}

export class PageAnswers {
  readonly #network: Network;
  readonly #ring: EventRing;
  readonly #clientOf: AnswersOf["clientOf"];
  readonly #kept = new Map<string, { readonly atMs: number; readonly answer: Promise<unknown> }>();

  constructor({ network, ring, clientOf }: AnswersOf) {
    this.#network = network;
    this.#ring = ring;
    this.#clientOf = clientOf;
  }

  runs({ tenant }: Visitor): Promise<RunLine[]> {
    return this.#clientOf(tenant).list();
  }

  /** The status of a run. @throws RemoteError if the visitor has no such run */
  summary({ tenant }: Visitor, run: string): Promise<RunSummary> {
    return this.#clientOf(tenant).run(run).status();
  }

  /** The thinned events of a run. @throws RemoteError if the visitor has no such run */
  async history({ tenant }: Visitor, run: string): Promise<RunHistory> {
    const events: RunEvent[] = [];
    for await (const event of this.#clientOf(tenant).run(run).past()) events.push(event);
    const times = this.#ring.timesOf(run);
    const timed = events.map((event) => ({ event, atMs: times.get(event.seq) }));
    return thinned(timed);
  }

  /** The shards of the visitor's runs, or of one run; paged, if there are many. */
  async shards(visitor: Visitor, query: URLSearchParams): Promise<readonly ShardReport[]> {
    const { run, first, most } = checkOptions(shardsQuery, Object.fromEntries(query));
    const all = await this.#own(visitor, "shards", async (client) => {
      const shards: ShardReport[] = [];
      for (let all = 1; shards.length < all; ) {
        const request = { first: shards.length, most: shardsAtOnce };
        const page = await client.inspectActor<{ shards: ShardReport[]; all: number }>(
          "shards",
          request,
        );
        shards.push(...page.shards);
        all = page.shards.length === 0 ? 0 : page.all;
      }
      return shards;
    });
    const wanted = run === undefined ? all : all.filter((shard) => shard.run === run);
    return wanted.slice(first, most === undefined ? undefined : first + most);
  }

  /** The tiers of the devices of the visitor's runs. */
  tiers(visitor: Visitor): Promise<readonly TierReport[]> {
    return this.#own(visitor, "tiers", async (client) => {
      return (await client.inspectActor<{ tiers: TierReport[] }>("tiers", {})).tiers;
    });
  }

  /** The details of an actor. @throws InvalidOptionError if the visitor sees no such actor */
  async actor(visitor: Visitor, query: URLSearchParams): Promise<ActorDetail> {
    const { host, actor, run } = checkOptions(actorQuery, Object.fromEntries(query));
    const runs = await this.#own(visitor, "runs", async (client) => {
      return (await client.inspectActor<Pick<ClusterReport, "runs">>("runs", {})).runs;
    });
    const { trees } = (await this.#fresh("tree", (client) => {
      return client.inspectActor("tree", {});
    })) as { trees: { readonly host: number | null; readonly actors: ActorReport }[] };
    const isSeen = visitor.tenant === undefined || runs.some((one) => one.run === run);
    for (const tree of isSeen ? trees : []) {
      if (host !== undefined && host !== String(tree.host ?? "leader")) continue;
      const found = actorIn(tree.actors, actor, run);
      if (found === undefined) continue;
      const { children, ...actorReport } = found;
      const waits = runs
        .filter((one) => one.run === run)
        .flatMap((one) => one.waitsFor.waits)
        .filter(({ waiter, awaited }) => waiter === actor || awaited === actor);
      const about = { ...actorReport, host: tree.host, children: children.length, waits };
      if (found.mailbox === undefined) return { ...about, messages: [] };
      const request = { host: tree.host, actor: found.actor, run: found.run };
      const ask = (client: Client) =>
        client.inspectActor<Pick<ActorDetail, "messages">>("messages", request);
      const { messages } = (await this.#fresh(`messages ${JSON.stringify(request)}`, ask)) as Pick<
        ActorDetail,
        "messages"
      >;
      return { ...about, messages };
    }
    throw expected("actor", "an actor of this cluster", actor);
  }

  /** Forwards a request to the job service. @throws RemoteError if it is refused */
  change({ tenant }: Visitor, method: string, body: unknown): Promise<unknown> {
    const known = pageMethods.find((one) => one === method);
    if (known === undefined) throw expected("method", `one of ${pageMethods.join(", ")}`, method);
    return this.#clientOf(tenant).request(known, body);
  }

  /** Makes an actor throw. @throws InvalidOptionError if there is no such actor */
  async fault(visitor: Visitor, body: unknown): Promise<object> {
    const order = checkOptions(faultOrder, body);
    const { actor, generation } = await this.actor(visitor, new URLSearchParams(order));
    if (generation === undefined) throw expected("actor", "an actor of a run", actor);
    const [role = "", index] = actor.split(":");
    const scope = { run: order.run, generation };
    const to = { role: role as Role, index: Number(index) };
    await orderFault(this.#network, scope, to, "thrown from the dashboard");
    return { actor, ...scope };
  }

  /** The reports of the visitor's own runs, filtered from those for the operator. */
  async #own<Report extends { readonly run: string }>(
    { tenant }: Visitor,
    what: string,
    ask: (client: Client) => Promise<readonly Report[]>,
  ): Promise<readonly Report[]> {
    const all = (await this.#fresh(what, ask)) as readonly Report[];
    if (tenant === undefined) return all;
    const list = () => this.#clientOf(tenant).list();
    const runs = (await this.#fresh(`runs of ${tenant}`, list)) as readonly RunLine[];
    const visible = new Set(runs.map(({ run }) => run));
    return all.filter(({ run }) => visible.has(run));
  }

  #fresh(what: string, ask: (client: Client) => Promise<unknown>): Promise<unknown> {
    const nowMs = this.#network.clock.now();
    const kept = this.#kept.get(what);
    if (kept !== undefined && nowMs - kept.atMs < freshMs) return kept.answer;
    for (const [other, { atMs }] of this.#kept) {
      if (nowMs - atMs >= freshMs) this.#kept.delete(other);
    }
    const answer = ask(this.#clientOf(undefined));
    this.#kept.set(what, { atMs: nowMs, answer });
    answer.catch(() => this.#kept.delete(what));
    return answer;
  }
}

const shardsQuery = z.strictObject({
  run: z.string().min(1).max(128).optional(),
  first: z.coerce.number().int().min(0).default(0),
  most: z.coerce.number().int().min(1).optional(),
});
const actorName = z.string().regex(/^[A-Za-z-]{1,32}(:\d{1,6})?$/, "an actor, as device:1");
const actorQuery = z.strictObject({
  host: z.string().max(8).optional(),
  actor: actorName,
  run: z.string().min(1).max(128).optional(),
});
const faultOrder = z.strictObject({ run: z.string().min(1).max(128), actor: actorName });

function actorIn(
  tree: ActorReport,
  actor: string,
  run: string | undefined,
): ActorReport | undefined {
  if (tree.actor === actor && (run === undefined || tree.run === run)) return tree;
  for (const child of tree.children) {
    const found = actorIn(child, actor, run);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A history with all events except progress beyond the resolution of a chart. */
export function thinned(all: readonly TimedEvent[]): RunHistory {
  const progress = all.filter(({ event }) => event.type === "run.progress").length;
  const every = Math.ceil(progress / progressMax);
  const repeated = repeatedSteps(all);
  let seen = 0;
  let left: Losses = [];
  const events = all.flatMap((timed, at): TimedEvent[] => {
    const { event } = timed;
    if (event.type !== "run.progress") return [timed];
    // The last progress event before another event shows the step that the run had reached.
    const isLast = all[at + 1]?.event.type !== "run.progress";
    if (seen++ % every !== 0 && !isLast) {
      const { step, loss, losses = [] } = event;
      const all = [...losses, { step, loss }];
      left = [...left, ...all.filter((one) => repeated.some((own) => isIn(own, one.step)))];
      return [];
    }
    if (left.length === 0) return [timed];
    const losses = [...left, ...(event.losses ?? [])];
    left = [];
    return [{ ...timed, event: { ...event, losses } }];
  });
  return { events, thinned: all.length - events.length };
}

type Losses = NonNullable<Extract<RunEvent, { type: "run.progress" }>["losses"]>;

/**
 * Ranges of steps (after the first, up to the second) that were repeated after a restore: their
 * losses are kept, to be compared.
 */
function repeatedSteps(all: readonly TimedEvent[]): (readonly [number, number])[] {
  let furthest = 0;
  return all.flatMap(({ event }) => {
    if (event.type === "run.progress") furthest = Math.max(furthest, event.step);
    const isBack = event.type === "run.started" && event.fromStep < furthest;
    return isBack ? [[event.fromStep, furthest] as const] : [];
  });
}

const isIn = ([from, to]: readonly [number, number], step: number) => step > from && step <= to;
