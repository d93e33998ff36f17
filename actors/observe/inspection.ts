// Inspection: reports of a cluster's state over NATS, in JSON or msgpack.
//
//   osiris.<cluster>.inspect.<part>   { }              → that part of a ClusterReport
//   osiris.<cluster>.inspect.shards   { first?, most? }  → a page of ShardReports, and their total
//   osiris.<cluster>.inspect.shard    { run, shard }   → the ShardReport of the shard itself
//   osiris.<cluster>.inspect.tier     { run, device }  → the TierReport of the tier itself
//   osiris.<cluster>.inspect.timelines  { run, host?, first?, fromStep? }  → a TimelinePage of a
//                                       host, or null; without `host`, the hosts of the cluster
//
// The leader queries its hosts, and lists those that did not answer. Inspection runs outside the
// tree of actors, because it is needed most when the tree is in trouble. It reports all runs, so it
// is for the cluster's operator only; tenants have `status` and `events`.

import type { AnyActorRef } from "xstate";
import { z } from "zod";
import { FrameCorruptError, recordError, StepTimeoutError } from "../../src/errors/errors.ts";
import { checkSynchronous } from "../../src/job/check-asynchronous.ts";
import { checkOptions, expected } from "../../src/ports/check-options.ts";
import { contentTypeOf, decodeBody, encodeBody } from "../../src/wire/messages/body.ts";
import { inspectSubject, isInbox } from "../../src/wire/messages/subjects.ts";
import type { Frame, Subscription } from "../../src/wire/messages/transport.ts";
import type { TimelinePage, TimelineQuery } from "../host/kept-timelines.ts";
import type { Membership } from "../host/membership.ts";
import type { ReaderReport } from "../host/reader-report.ts";
import type { ShardReport } from "../host/shard.ts";
import type { TierReport } from "../host/tier-report.ts";
import type { RunMirror } from "../jobs/mirror/run-mirror.ts";
import { runNamed } from "../jobs/request-actor.ts";
import type { Registry } from "../run/state/registry.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import {
  clusterScope,
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
  request,
} from "../runtime/mailbox.ts";
import { waitsFor } from "../runtime/wait-graph.ts";
import type { ClusterReport, RunReport } from "./cluster-report.ts";
import { actorInspections, withPin } from "./inspect-actor.ts";
import { overviewOf } from "./overview.ts";
import type { ActorReport, CreditReport } from "./process-report.ts";
import {
  hostIn,
  type MailboxReport,
  mailboxOf,
  type ProcessReport,
  reportProcess,
} from "./process-report.ts";
import { messagesQuery, type ReceivedMessage, receivedBy } from "./received-messages.ts";

/** A part of one process's report, with the index of its host. */
type Of<Part> = Part & { readonly host: number | null };

/** A page of shards. */
const someOf = z.strictObject({
  first: z.int().min(0).default(0),
  most: z.int().min(1).default(Number.MAX_SAFE_INTEGER),
});

const timelinesQuery = z.strictObject({
  run: z.string().min(1).max(128),
  host: z.int().min(0).optional(),
  first: z.int().min(0).default(0),
  fromStep: z.int().min(0).default(0),
});

/** The parts of a report that can be requested separately. */
const parts = {
  all: (report: ClusterReport) => report,
  overview: (report: ClusterReport) => overviewOf(report),
  runs: ({ runs }: ClusterReport) => ({ runs }),
  incidents: ({ incidents }: ClusterReport) => ({ incidents }),
  waits: ({ runs }: ClusterReport) => {
    return { runs: runs.map(({ run, waitsFor: own }) => ({ run, ...own })) };
  },
  tree: ({ processes, unresponsive }: ClusterReport) => {
    return { trees: processes.map(({ host, actors }) => ({ host, actors })), unresponsive };
  },
  mailboxes: ({ processes, unresponsive }: ClusterReport) => {
    return { mailboxes: ofAll(processes, ({ actors }) => mailboxesIn(actors)), unresponsive };
  },
  credits: ({ processes, unresponsive }: ClusterReport) => {
    return { credits: ofAll<CreditReport>(processes, ({ credits }) => credits), unresponsive };
  },
  tiers: ({ processes, unresponsive }: ClusterReport) => {
    return { tiers: ofAll<TierReport>(processes, ({ tiers }) => tiers), unresponsive };
  },
  shards: ({ processes, unresponsive }: ClusterReport, body: unknown) => {
    const { first, most } = checkOptions(someOf, body);
    const all = ofAll<ShardReport>(processes, ({ shards }) => shards);
    return { shards: all.slice(first, first + most), all: all.length, unresponsive };
  },
  readers: ({ processes, unresponsive }: ClusterReport) => {
    return { readers: ofAll<ReaderReport>(processes, ({ readers }) => readers), unresponsive };
  },
  mirror: ({ mirror }: ClusterReport) => ({ mirror }),
};

export type InspectPart = keyof typeof parts;
export const inspectParts = Object.keys(parts) as InspectPart[];

/** Longest wait for the answer of a host. */
const hostMs = 1000;
/**
 * Most alerts of a run, and incidents of all runs, in a report; older ones are among the run's
 * events.
 */
const alertsMax = 5;
const incidentsMax = 50;

/** Serves inspection as the leader of a cluster. */
export function openInspection(root: {
  readonly network: Network;
  readonly registry: Registry;
  readonly membership: Membership;
  readonly tree: () => AnyActorRef;
  readonly mirror?: Pick<RunMirror, "report"> | undefined;
}): Subscription {
  const { network, registry, membership, tree, mirror } = root;
  let command = 0;
  const reported = async (part: InspectPart): Promise<ClusterReport> => {
    const hasShards = part === "all" || part === "shards";
    command++;
    const present = membership.present();
    const hosts = present.map(({ host }) => host);
    const others = hosts.filter((host) => host !== 0);
    const body = { command, hasShards };
    const answers = await Promise.all(others.map((host) => inspectHost(network, host, body)));
    const own = reportProcess(tree(), network, hosts.includes(0) ? 0 : null, { hasShards });
    const records = registry.all();
    const incidents = records
      .flatMap(({ run, incidents: own }) => own.all().map((one) => ({ run, ...one })))
      .sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
    return {
      cluster: network.cluster,
      runs: records.filter(({ isOver }) => !isOver).map((record) => runOf(network, record)),
      incidents: incidents.slice(-incidentsMax),
      processes: [own, ...answers.filter((one) => one !== undefined)].map((one) => ({
        ...one,
        drain: present.find(({ host }) => host === one.host)?.drain,
        shards: one.shards.map((shard) => withPin(shard, registry.get(shard.run))),
      })),
      unresponsive: others.filter((_, at) => answers[at] === undefined),
      mirror: mirror?.report ?? null,
    };
  };
  const subscriptions = [
    ...inspectParts.map((part) =>
      answer(network, part, async (body) => parts[part](await reported(part), body)),
    ),
    answer(network, "messages", async (body) => {
      const { host, ...of } = messagesQuery(body);
      const messages =
        host === null || host === 0
          ? lastMessagesOf(network, tree(), of)
          : await inspectHost<ReceivedMessage[] | null>(network, host, { command: ++command, of });
      if (messages == null) throw expected("actor", "an actor of this process", of.actor);
      return { messages };
    }),
    answer(network, "timelines", async (body) => {
      const { host, ...of } = checkOptions(timelinesQuery, body);
      const { job } = runNamed(registry, of.run);
      checkSynchronous(job, "a trace of steps, which asynchronous trainers do not make together");
      if (host === undefined) return { hosts: membership.present().map((one) => one.host) };
      if (host === 0) return { page: timelinesOf(tree(), of) };
      const asked = { command: ++command, timelines: of };
      const page = await inspectHost<TimelinePage | null>(network, host, asked);
      if (page === undefined) throw new StepTimeoutError(`host:${host} to send timelines`, hostMs);
      return { page };
    }),
    ...Object.entries(actorInspections).map(([name, question]) =>
      answer(network, name, (body) => question(root, body)),
    ),
  ];
  return {
    unsubscribe() {
      for (const subscription of subscriptions) subscription.unsubscribe();
    },
  };
}

/** Answers the leader's inspection requests, as a host of its cluster. */
export function openHostInspection(
  network: Network,
  host: number,
  tree: AnyActorRef,
): Subscription {
  const mailbox = inspectorOf(network, host);
  return mailbox.listen((message) => {
    if (message.type !== "host.inspect") return;
    const { command, of, hasShards = false, timelines } = message.body;
    const report =
      timelines !== undefined
        ? timelinesOf(tree, timelines)
        : of === undefined
          ? reportProcess(tree, network, host, { hasShards })
          : lastMessagesOf(network, tree, of);
    try {
      mailbox.send({ role: "inspector", index: 0 }, "host.inspected", { command, host, report });
    } catch (error) {
      network.onCorrupt(error instanceof Error ? error : new Error(String(error)));
    }
  });
}

/** A page of the timelines of a run that the host of this tree keeps; null: none. */
function timelinesOf(tree: AnyActorRef, query: TimelineQuery): TimelinePage | null {
  return hostIn(tree)?.timelines.page(query) ?? null;
}

/** The last messages of an actor; null: there is no such actor. */
function lastMessagesOf(
  { clock, connection }: Network,
  tree: AnyActorRef,
  of: { readonly actor: string; readonly run?: string | undefined },
): ReceivedMessage[] | null {
  const mailbox = mailboxOf(tree, of);
  const { token, user, pass } = connection;
  return mailbox === undefined ? null : receivedBy(mailbox, clock.now(), [token, user, pass]);
}

function inspectorOf(network: Network, host: number): Mailbox {
  return openMailbox(network, clusterScope, { role: "inspector", index: host });
}

/** Subscribes to requests for a part; every request is answered, with the report or an error. */
function answer(
  network: Network,
  part: string,
  report: (body: unknown) => Promise<unknown>,
): Subscription {
  const { transport, cluster } = network;
  return transport.subscribe(inspectSubject(cluster, part), (frame) => {
    const { reply } = frame;
    if (reply === undefined || !isInbox(reply)) {
      const error = new FrameCorruptError(frame.subject, "there is no subject to answer on");
      return network.onCorrupt(error);
    }
    const send = (body: unknown) => {
      const { payload, headers } = encodeBody(body, contentTypeOf(frame));
      transport.publish(reply, payload, { headers });
    };
    new Promise((resolve) => resolve(bodyOf(frame)))
      .then(report)
      .then(send)
      .catch((error: unknown) => {
        const { code, message } = recordError(error);
        send({ error: { code, message } });
      });
  });
}

/** An empty body is `{}`. */
function bodyOf(frame: Frame): unknown {
  return frame.payload.length === 0 ? {} : decodeBody(frame);
}

/** Requests a host's report. Undefined: no answer, and the host is listed as `unresponsive`. */
async function inspectHost<Report = ProcessReport>(
  network: Network,
  host: number,
  body: MessageEvent<"host.inspect">["body"],
): Promise<Report | undefined> {
  try {
    const [report] = await request({
      network,
      mailbox: inspectorOf(network, 0),
      to: [{ role: "inspector", index: host }],
      type: "host.inspect",
      body,
      answer: (message) => {
        if (message.type !== "host.inspected") return undefined;
        const { host: of, command: to, report: answer } = message.body;
        return of === host && to === body.command ? { from: 0, answer } : undefined;
      },
      deadlineMs: hostMs,
    });
    return report as Report;
  } catch {
    return undefined;
  }
}

function runOf(network: Network, record: RunRecord): RunReport {
  const { run, job, tenant, status, generation } = record;
  const all = record.since(0, Number.POSITIVE_INFINITY);
  const progress = last(all, "run.progress");
  const started = last(all, "run.started");
  const standstill = status === "running" ? stallOf(all) : undefined;
  const isStepping = status === "running" && standstill === undefined;
  return {
    run,
    name: job.name,
    tenant,
    status,
    generation,
    step: progress?.step ?? started?.fromStep ?? 0,
    steps: progress?.steps ?? started?.steps ?? 0,
    devices: isStepping ? (started?.devices ?? 0) : 0,
    plan: started?.plan,
    loss: progress?.loss ?? null,
    samplesPerSecond: isStepping ? (progress?.samplesPerSecond ?? 0) : 0,
    standstill,
    times: isStepping ? progress?.times : undefined,
    secondsLeft: isStepping ? progress?.secondsLeft : undefined,
    pushLag: isStepping ? progress?.pushLag : undefined,
    alerts: alertsIn(all).slice(-alertsMax),
    waitsFor: waitsFor(network, record),
  };
}

/**
 * Why a run with devices makes no steps, according to its last relevant event; undefined: it makes
 * steps.
 */
function stallOf(all: readonly RunEvent[]): string | undefined {
  for (const event of all.toReversed()) {
    switch (event.type) {
      case "run.started":
      case "run.progress":
        return undefined;
      case "run.waiting":
        return `waits for devices: ${event.devices} there, ${event.wanted} wanted`;
      case "run.preparing":
        return `prepares its data: ${Math.floor(100 * event.fraction)} %`;
      case "run.prepared":
        return "starts its devices";
      case "run.incident":
        if (event.end === undefined) return `recovers: ${event.offender} failed`;
        break;
      default:
    }
  }
  return "begins";
}

/** The warnings of a run; for tiers, only if their state still lasts. */
function alertsIn(all: readonly RunEvent[]): string[] {
  return all.flatMap((event, at) => {
    if (event.type === "run.alert") return event.message;
    if (event.type !== "run.tier" || event.state === "serving") return [];
    const isOld = all
      .slice(at + 1)
      .some((later) => later.type === "run.tier" && later.device === event.device);
    return isOld ? [] : event.message;
  });
}

function last<Type extends RunEvent["type"]>(
  all: readonly RunEvent[],
  type: Type,
): Extract<RunEvent, { readonly type: Type }> | undefined {
  return all.findLast((event) => event.type === type) as never;
}

function ofAll<Part>(
  processes: readonly ProcessReport[],
  partsOf: (process: ProcessReport) => readonly Part[],
): Of<Part>[] {
  return processes.flatMap((one) => partsOf(one).map((part) => ({ host: one.host, ...part })));
}

/** All mailboxes of a tree, with their actors. */
export function mailboxesIn({
  children,
  mailbox,
  state: _state,
  ...actor
}: ActorReport): (Omit<ActorReport, "children" | "state" | "mailbox"> & MailboxReport)[] {
  const own = mailbox === undefined ? [] : [{ ...actor, ...mailbox }];
  return [...own, ...children.flatMap(mailboxesIn)];
}
