// Inspection: what a cluster is doing, as an answer over NATS, in JSON or msgpack.
//
//   osiris.<cluster>.inspect.<part>   { }              → that part of a ClusterReport
//   osiris.<cluster>.inspect.shard    { run, shard }   → a ShardReport, as the shard tells it
//   osiris.<cluster>.inspect.tier     { run, device }  → a TierReport, as the tier tells it
//
// The leader asks its hosts, and says who did not answer. It stands beside the tree of actors and
// not in it: a tree that is in trouble is what people ask about. It answers about every run, so
// that inspection is for the cluster's operator; tenants have `status` and `events`.

import type { AnyActorRef } from "xstate";
import { FrameCorruptError, recordError } from "../../src/errors/errors.ts";
import type { StepTimes } from "../../src/training/meters/step-meter.ts";
import type { PlanReport } from "../../src/training/planning/run-plan.ts";
import { contentTypeOf, decodeBody, encodeBody } from "../../src/wire/messages/body.ts";
import { inspectSubject, isInbox } from "../../src/wire/messages/subjects.ts";
import type { Frame, Subscription } from "../../src/wire/messages/transport.ts";
import type { Membership } from "../host/membership.ts";
import type { ReaderReport } from "../host/reader-report.ts";
import type { ShardReport } from "../host/shard.ts";
import type { TierReport } from "../host/tier-report.ts";
import type { MirrorReport, RunMirror } from "../mirror/run-mirror.ts";
import type { IncidentRecord } from "../run-state/incident-record.ts";
import type { Registry } from "../run-state/registry.ts";
import type { RunEvent, RunStatus } from "../run-state/run-events.ts";
import type { RunRecord } from "../run-state/run-record.ts";
import { ask, clusterScope, type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import { type WaitsFor, waitsFor } from "../runtime/wait-graph.ts";
import { actorQuestions, withPin } from "./ask-actor.ts";
import type { ActorReport, CreditReport } from "./process-report.ts";
import { type MailboxReport, type ProcessReport, reportProcess } from "./process-report.ts";

/** A run that is not over, as its last events have it. */
export interface RunReport {
  readonly run: string;
  readonly name: string;
  readonly tenant?: string | undefined;
  readonly status: RunStatus;
  readonly generation: number;
  readonly step: number;
  /** 0: its data is not prepared yet. */
  readonly steps: number;
  readonly devices: number;
  /** How the tables of its last generation are placed, and what is predicted of it. */
  readonly plan?: PlanReport | undefined;
  readonly loss: number | null;
  /** 0 while it makes no steps. */
  readonly samplesPerSecond: number;
  /** Why it runs and makes no steps now; left out: it makes some, or does not run. */
  readonly standstill?: string | undefined;
  /** Where the time of its last steps went; left out while it makes none. */
  readonly times?: StepTimes | undefined;
  /** What it was warned of, last things last. */
  readonly alerts: readonly string[];
  /** Who waits for whom in it, and who does not answer. */
  readonly waitsFor: WaitsFor;
}

/** An incident of a run, and its end, unless it lasts. */
export interface IncidentReport extends IncidentRecord {
  readonly run: string;
}

export interface ClusterReport {
  readonly cluster: string;
  readonly runs: readonly RunReport[];
  readonly incidents: readonly IncidentReport[];
  /** The leader's report first, then the reports of the hosts that answered. */
  readonly processes: readonly ProcessReport[];
  /** Hosts that did not. */
  readonly silent: readonly number[];
  /** What became of the copies in JetStream; null: there are none. */
  readonly mirror: MirrorReport | null;
}

/** A part of one process's report, with the host that it came from. */
type Of<Part> = Part & { readonly host: number | null };

/** What can be asked for by itself. */
const parts = {
  all: (report: ClusterReport) => report,
  runs: ({ runs }: ClusterReport) => ({ runs }),
  incidents: ({ incidents }: ClusterReport) => ({ incidents }),
  waits: ({ runs }: ClusterReport) => {
    return { runs: runs.map(({ run, waitsFor: own }) => ({ run, ...own })) };
  },
  tree: ({ processes, silent }: ClusterReport) => {
    return { trees: processes.map(({ host, actors }) => ({ host, actors })), silent };
  },
  mailboxes: ({ processes, silent }: ClusterReport) => {
    return { mailboxes: ofAll(processes, ({ actors }) => mailboxesIn(actors)), silent };
  },
  credits: ({ processes, silent }: ClusterReport) => {
    return { credits: ofAll<CreditReport>(processes, ({ credits }) => credits), silent };
  },
  tiers: ({ processes, silent }: ClusterReport) => {
    return { tiers: ofAll<TierReport>(processes, ({ tiers }) => tiers), silent };
  },
  shards: ({ processes, silent }: ClusterReport) => {
    return { shards: ofAll<ShardReport>(processes, ({ shards }) => shards), silent };
  },
  readers: ({ processes, silent }: ClusterReport) => {
    return { readers: ofAll<ReaderReport>(processes, ({ readers }) => readers), silent };
  },
  mirror: ({ mirror }: ClusterReport) => ({ mirror }),
};

export type InspectPart = keyof typeof parts;
export const inspectParts = Object.keys(parts) as InspectPart[];

/** Longest that a host may take to answer. */
const hostMs = 1000;
/** Alerts of a run, and incidents of all, that are told; older ones are among its events. */
const alertsMax = 5;
const incidentsMax = 50;

/** Answers as the leader of a cluster. */
export function openInspection(root: {
  readonly network: Network;
  readonly registry: Registry;
  readonly membership: Membership;
  readonly tree: () => AnyActorRef;
  readonly mirror?: Pick<RunMirror, "report"> | undefined;
}): Subscription {
  const { network, registry, membership, tree, mirror } = root;
  let command = 0;
  const reported = async (): Promise<ClusterReport> => {
    command++;
    const hosts = membership.present().map(({ host }) => host);
    const others = hosts.filter((host) => host !== 0);
    const asked = await Promise.all(others.map((host) => askHost(network, host, command)));
    const own = reportProcess(tree(), network, hosts.includes(0) ? 0 : null);
    const records = registry.all();
    const incidents = records
      .flatMap(({ run, incidents: own }) => own.all().map((one) => ({ run, ...one })))
      .sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
    return {
      cluster: network.cluster,
      runs: records.filter(({ isOver }) => !isOver).map((record) => runOf(network, record)),
      incidents: incidents.slice(-incidentsMax),
      processes: [own, ...asked.filter((one) => one !== undefined)].map((one) => ({
        ...one,
        shards: one.shards.map((shard) => withPin(shard, registry.get(shard.run))),
      })),
      silent: others.filter((_, at) => asked[at] === undefined),
      mirror: mirror?.report ?? null,
    };
  };
  const subscriptions = [
    ...inspectParts.map((part) => answer(network, part, async () => parts[part](await reported()))),
    ...Object.entries(actorQuestions).map(([name, question]) =>
      answer(network, name, (body) => question(root, body)),
    ),
  ];
  return {
    unsubscribe() {
      for (const subscription of subscriptions) subscription.unsubscribe();
    },
  };
}

/** Answers the leader, as a host of its cluster. */
export function openHostInspection(
  network: Network,
  host: number,
  tree: AnyActorRef,
): Subscription {
  const mailbox = inspectorOf(network, host);
  return mailbox.listen((message) => {
    if (message.type !== "host.inspect") return;
    const { command } = message.body;
    const report = reportProcess(tree, network, host);
    try {
      mailbox.tell({ role: "inspector", index: 0 }, "host.inspected", { command, host, report });
    } catch (error) {
      network.onCorrupt(error instanceof Error ? error : new Error(String(error)));
    }
  });
}

function inspectorOf(network: Network, host: number): Mailbox {
  return openMailbox(network, clusterScope, { role: "inspector", index: host });
}

/** Whatever becomes of the question, it is answered. */
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

/** Undefined: it does not answer, and is named among the silent. */
async function askHost(
  network: Network,
  host: number,
  command: number,
): Promise<ProcessReport | undefined> {
  try {
    const [report] = await ask({
      network,
      mailbox: inspectorOf(network, 0),
      to: [{ role: "inspector", index: host }],
      type: "host.inspect",
      body: { command },
      answer: (message) => {
        if (message.type !== "host.inspected") return undefined;
        const { host: of, command: to, report: answer } = message.body;
        return of === host && to === command ? { from: 0, answer } : undefined;
      },
      deadlineMs: hostMs,
    });
    return report as ProcessReport;
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
    alerts: alertsIn(all).slice(-alertsMax),
    waitsFor: waitsFor(network, record),
  };
}

/** Why a run that has its turn makes no steps: by the last event that tells whether it does. */
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
        return "its devices get ready";
      case "run.incident":
        if (event.end === undefined) return `recovers: ${event.offender} failed`;
        break;
      default:
    }
  }
  return "begins";
}

/** What a run was warned of. Of tiers, as they are now. */
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

/** The mailboxes of a tree, each with its actor. */
export function mailboxesIn({
  children,
  mailbox,
  state: _state,
  ...actor
}: ActorReport): (Omit<ActorReport, "children" | "state" | "mailbox"> & MailboxReport)[] {
  const own = mailbox === undefined ? [] : [{ ...actor, ...mailbox }];
  return [...own, ...children.flatMap(mailboxesIn)];
}
