// Process report: the tree of actors, the messages that wait in mailboxes, the use of each bounded
// buffer, the tiers, the shards and the readers. A report is read from the running actors on
// request, so that hardly any state is kept for it.

import { hostname } from "node:os";
import { type EventLoopUtilization, performance } from "node:perf_hooks";
import type { AnyActorRef, AnyMachineSnapshot } from "xstate";
import { batchesOf } from "../../src/exchange/batch-ring.ts";
import { pipedBytes } from "../../src/exchange/byte-pipe.ts";
import type { LinkReport } from "../../src/wire/messages/fields.ts";
import { tierRequests } from "../../storage/tiers/ring.ts";
import type { DeviceContext } from "../host/device.ts";
import { reportShards } from "../host/device-shards.ts";
import type { HostContext } from "../host/host.ts";
import type { HostGenerationContext } from "../host/host-generation.ts";
import type { Drain } from "../host/membership.ts";
import type { Questioned } from "../host/questions.ts";
import { type ReaderReport, reportReader } from "../host/reader-report.ts";
import type { ShardReport } from "../host/shard.ts";
import type { TierContext } from "../host/tier.ts";
import { reportTier, type TierReport } from "../host/tier-report.ts";
import type { Mailbox, Network } from "../runtime/mailbox.ts";
import { readCells } from "../threads/generation-memory.ts";

/** An actor, and the actors that it supervises. */
export interface ActorReport {
  /** `device:1`; for an actor without a mailbox, its id at its supervisor. */
  readonly actor: string;
  /** Its run and generation, if it has one. */
  readonly run?: string;
  readonly generation?: number;
  /** State of its machine: `paused`, `training.work.running`. */
  readonly state: string;
  readonly mailbox?: MailboxReport;
  readonly children: readonly ActorReport[];
  /** Of a device: the number of its shards by state; left out: it has none. */
  readonly shards?: Readonly<Record<string, number>>;
}

export interface MailboxReport {
  /** Messages received so far, and the time since the last. */
  readonly messages: number;
  readonly lastMs: number;
  /** Pending work: a device's command, or the requests to a tier. */
  readonly depth: number;
  /** Wait of the oldest pending work, if known; 0: there is none. */
  readonly oldestMs?: number;
}

/** A bounded buffer, and how much of it is in use. */
export interface CreditReport {
  /** Its owner: `device:1`, `transport`. */
  readonly actor: string;
  readonly what: "batches" | "saved bytes" | "tier requests" | "pending bytes";
  readonly used: number;
  readonly most: number;
}

export interface ProcessReport {
  /** Index among the hosts; null: the process has no devices. */
  readonly host: number | null;
  readonly machine: string;
  readonly pid: number;
  /** Of a host that leaves: why, and the seconds after which it ends in any case. */
  readonly drain?: Drain | undefined;
  /** Resident memory of the process, over all threads. */
  readonly residentBytes: number;
  /** Share of the time since the last report in which the main thread was busy. */
  readonly mainThreadBusy: number;
  /** Received frames that could not be decoded. */
  readonly refusedFrames: number;
  readonly actors: ActorReport;
  readonly credits: readonly CreditReport[];
  /** Its direct links to other hosts, by run; none: all its frames travel over the broker. */
  readonly links: readonly (LinkReport & { readonly run: string })[];
  readonly tiers: readonly TierReport[];
  /** Empty, unless the request includes shards, as there may be thousands. */
  readonly shards: readonly ShardReport[];
  readonly readers: readonly ReaderReport[];
}

let lastUtilization: EventLoopUtilization | undefined;

/** The report of the process that has this tree of actors. */
export function reportProcess(
  root: AnyActorRef,
  network: Network,
  host: number | null,
  { hasShards }: { readonly hasShards: boolean },
): ProcessReport {
  const generations = generationsIn(root);
  const { bytes: used, bytesMax: most } = network.transport.pending();
  const elapsed = performance.eventLoopUtilization(lastUtilization);
  lastUtilization = performance.eventLoopUtilization();
  return {
    host,
    machine: hostname(),
    pid: process.pid,
    residentBytes: process.memoryUsage.rss(),
    mainThreadBusy: elapsed.utilization,
    refusedFrames: network.refused.frames,
    actors: actorOf(root, network.clock.now()),
    credits: [
      { actor: "transport", what: "pending bytes", used, most },
      ...generations.flatMap(creditsOf),
    ],
    links: generations.flatMap(({ links, spec }) => {
      return links === undefined ? [] : [{ run: spec.run, ...links }];
    }),
    tiers: reportsIn(root, "tier", (one) =>
      reportTier(one.context, one.value as TierReport["state"]),
    ),
    shards: hasShards ? reportsIn(root, "device", (one) => reportShards(one.context)).flat() : [],
    readers: reportsIn(root, "reader", (one) =>
      reportReader(one.context, one.matches({ working: "draining" })),
    ),
  };
}

/** The snapshot of an actor that is a machine; other actors are reported by their supervisor. */
function machineOf(ref: AnyActorRef): AnyMachineSnapshot | undefined {
  const snapshot = ref.getSnapshot() as Partial<AnyMachineSnapshot> | undefined;
  return snapshot?.machine === undefined ? undefined : (snapshot as AnyMachineSnapshot);
}

function childrenOf({ children }: AnyMachineSnapshot): AnyActorRef[] {
  const all = Object.values<AnyActorRef | undefined>(children);
  return all.filter((child) => child !== undefined && machineOf(child) !== undefined) as never;
}

function actorOf(ref: AnyActorRef, nowMs: number): ActorReport {
  const snapshot = machineOf(ref);
  if (snapshot === undefined) return { actor: ref.id, state: "", children: [] };
  const { mailbox } = snapshot.context as { readonly mailbox?: Mailbox };
  const children = childrenOf(snapshot).map((child) => actorOf(child, nowMs));
  const state = stateOf(snapshot.value);
  if (mailbox === undefined) return { actor: ref.id, state, children };
  const { scope, self, received } = mailbox;
  const lastMs = nowMs - received.lastAtMs;
  return {
    actor: `${self.role}:${self.index}`,
    ...(scope.generation === 0 ? {} : scope),
    state,
    mailbox: { messages: received.messages, lastMs, ...waitingIn(snapshot, nowMs) },
    children,
    ...shardsIn(snapshot),
  };
}

/** The mailbox of an actor in a tree; undefined: there is no such actor. */
export function mailboxOf(
  ref: AnyActorRef,
  actor: { readonly actor: string; readonly run?: string | undefined },
): Mailbox | undefined {
  const snapshot = machineOf(ref);
  if (snapshot === undefined) return undefined;
  const { mailbox } = snapshot.context as { readonly mailbox?: Mailbox };
  if (mailbox !== undefined && belongsTo(mailbox, actor)) return mailbox;
  for (const child of childrenOf(snapshot)) {
    const found = mailboxOf(child, actor);
    if (found !== undefined) return found;
  }
  return undefined;
}

function belongsTo(
  { scope, self }: Mailbox,
  { actor, run }: { readonly actor: string; readonly run?: string | undefined },
): boolean {
  const own = scope.generation === 0 ? undefined : scope.run;
  return `${self.role}:${self.index}` === actor && (run === undefined || run === own);
}

/** The shards of a device by state: all have that of their device. */
function shardsIn(snapshot: AnyMachineSnapshot): Pick<ActorReport, "shards"> {
  if (snapshot.machine.id !== "device") return {};
  const { shards, ready } = snapshot.context as DeviceContext;
  if (shards.length === 0) return {};
  return { shards: { [ready === undefined ? "restoring" : "serving"]: shards.length } };
}

/** Pending work of an actor's thread. */
function waitingIn(snapshot: AnyMachineSnapshot, nowMs: number) {
  if (snapshot.machine.id === "device" || snapshot.machine.id === "trainer") {
    const { question, askedAtMs } = snapshot.context as Questioned;
    if (question !== undefined) return { depth: 1, oldestMs: nowMs - askedAtMs };
  }
  if (snapshot.machine.id === "tier") {
    const { generation, device } = snapshot.context as TierContext;
    const { tierCellBase } = generation.layout;
    const depth = tierRequests(readCells(generation), tierCellBase(device));
    if (depth > 0) return { depth };
  }
  return { depth: 0, oldestMs: 0 };
}

/**
 * A machine's state as text: `"a"` as `a`, `{ a: "b" }` as `a.b`; parallel states separated by
 * blanks.
 */
function stateOf(value: unknown): string {
  if (typeof value === "string") return value;
  const entries = Object.entries(value as Record<string, unknown>);
  return entries.map(([name, inner]) => [name, stateOf(inner)].filter(Boolean).join(".")).join(" ");
}

function generationsIn(ref: AnyActorRef): HostGenerationContext[] {
  const snapshot = machineOf(ref);
  if (snapshot === undefined) return [];
  const own = snapshot.machine.id === "hostGeneration" ? [snapshot.context] : [];
  return [...own, ...childrenOf(snapshot).flatMap((child) => generationsIn(child))];
}

/** The actor of the host in a tree; undefined: there is none. */
export function hostIn(ref: AnyActorRef): HostContext | undefined {
  const snapshot = machineOf(ref);
  if (snapshot === undefined) return undefined;
  if (snapshot.machine.id === "host") return snapshot.context;
  for (const child of childrenOf(snapshot)) {
    const found = hostIn(child);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The reports of all actors of one kind. */
function reportsIn<Report>(
  ref: AnyActorRef,
  machine: string,
  report: (snapshot: AnyMachineSnapshot) => Report,
): Report[] {
  const snapshot = machineOf(ref);
  if (snapshot === undefined) return [];
  if (snapshot.machine.id === machine) return [report(snapshot)];
  return childrenOf(snapshot).flatMap((child) => reportsIn(child, machine, report));
}

function creditsOf({ generation, place }: HostGenerationContext): CreditReport[] {
  const { layout, memory } = generation;
  const { ringShape, exchangeCells, tierRings, tierCellBase, writerCellBase } = layout;
  const cells = readCells(generation);
  const ring = { shape: ringShape, cells, cellBase: exchangeCells };
  const ranks = Array.from({ length: place.count }, (_, i) => place.first + i);
  return ranks.flatMap((rank): CreditReport[] => {
    const actor = `device:${rank}`;
    const batches = batchesOf(ring, rank, "training");
    const saved = pipedBytes(cells, writerCellBase(rank));
    const own: CreditReport[] = [
      { actor, what: "batches", used: batches, most: ringShape.slots },
      { actor, what: "saved bytes", used: saved, most: memory.saves[rank]?.byteLength ?? 0 },
    ];
    const tier = tierRings[rank];
    if (tier === undefined) return own;
    const requests = tierRequests(cells, tierCellBase(rank));
    return [...own, { actor, what: "tier requests", used: requests, most: tier.slots }];
  });
}
