// The messages between actors, with the sender and the receiver (`takers`) of each. Each is checked
// on arrival.
//
//   coordinator ──▶ host          host.prepare · .index · .cache · .assemble · .release
//   host ──▶ coordinator          host.preparing · .prepared · .cached · .progress · .mended ·
//                                 .failed · .released
//   coordinator ──▶ device        device.run · device.evaluate · device.pause
//   device ──▶ coordinator        device.ready · device.reached · device.evaluated
//   coordinator ──▶ checkpoint    checkpoint.cut
//   coordinator ──▶ checkpoint    checkpoint.commit
//   checkpoint ──▶ coordinator    checkpoint.taken · committed
//   checkpoint ──▶ device         device.save
//   device ──▶ checkpoint         device.cut
//   coordinator ──▶ reader        reader.rate · reader.drain
//   reader ──▶ coordinator        reader.limited · reader.drained
//   master ──▶ pool               pool.scale
//   job ──▶ device                device.dump
//   device ──▶ job                device.dumped
//   checkpoint ──▶ writer         writer.save
//   writer ──▶ checkpoint         part.saved
//   writer ──▶ coordinator        writer.room
//   writer ──▶ bridge             part.offered
//   adopter ──▶ checkpoint        part.held · part.saved
//   checkpoint ──▶ coordinator    checkpoint.handed
//   coordinator ──▶ bridge        buddy.left
//   checkpoint ──▶ bridge         buddy.keep
//   bridge ──▶ checkpoint         buddy.kept
//   coordinator ──▶ tier          tier.persist
//   tier ──▶ coordinator          tier.persisted
//   joining process ──▶ hosts     host.announce · host.leave
//   hosts ──▶ joining process     host.welcome · host.refused
//   leader ──▶ other host         host.inspect
//   other host ──▶ leader         host.inspected
//   leader ──▶ shard              shard.inspect
//   shard ──▶ leader              shard.inspected
//   leader ──▶ tier               tier.inspect · tier.flush
//   tier ──▶ leader               tier.inspected · tier.flushed
//
// NATS may lose or duplicate any of them. The sender of a request repeats it until it is answered.
// `command` is the request's number, and the answer repeats it. A repeated request is executed
// once.

import { z } from "zod";
import { defineMessages } from "./codec.ts";
import {
  errorRecord,
  figure,
  foundRows,
  hardware,
  linkReport,
  links,
  lostUpdates,
  meters,
  metrics,
  pushLag,
  wait,
} from "./fields.ts";
import type { SubjectRole } from "./subjects.ts";

const command = z.int().min(0);
const step = z.int().min(0);
const counts = z.array(z.int().min(0)).readonly();
const device = z.int().min(0);
const host = z.int().min(0);
const reader = z.int().min(0);
/** A reader's position: the next step, its epoch (`pass`), and its first sample in the epoch. */
const position = z.object({ step, pass: z.int().min(0), sample: z.int().min(0) });

const partPlace = { file: z.string(), at: z.number(), bytes: z.number(), sha256: z.string() };

const savedPart = z.object({
  name: z.string(),
  ...partPlace,
  base: z.array(z.object({ cut: step, generation: z.int().min(0), ...partPlace })).readonly(),
  leaves: z.array(z.string()).readonly(),
});

/** Some of the `of` parts of a device in a cut. */
const someParts = { cut: step, device, of: z.int().min(0) };

const bytes = z.int().min(0);
const restoredBytes = z.object({ memoryBytes: bytes, storeBytes: bytes, keptBytes: bytes });
const computed = { arithmetic: z.string(), set: z.string().optional() }; // Its kernels.

const tierStatus = z.object({
  device,
  state: z.enum(["serving", "paused", "slow"]),
  /** The store of its rows on disk, once it is open. */
  store: z.enum(["rocksdb", "file", "memory"]).optional(),
  found: foundRows.optional(),
});

const dataPart = z.enum(["training", "evaluation", "test"]);

export const messages = defineMessages({
  /**
   * `hosts`: the devices of each host, for which to search a plan; left out: no search. `pins`:
   * parts of tables that the plan must place on given devices. `measured`: measurements of the
   * run's earlier plans, which the search uses. `machines` and `links`: those of these hosts.
   * `hostCount`: number of hosts that index the files together. `job`: as JSON, which is parsed
   * many times as fast as msgpack, and parsed only once.
   */
  "host.prepare": z.object({
    command,
    job: z.string(),
    hosts: z.array(z.int().min(1)).optional(),
    pins: z.unknown().optional(),
    measured: z.unknown().optional(),
    machines: z.array(hardware.nullable()).optional(),
    links: links.optional(),
    hostCount: z.int().min(1).optional(),
  }),
  /** Lets all of `hosts` measure the links between them together; `isDirect`: also direct links. */
  "host.measure": z.object({ command, hosts: z.array(host), isDirect: z.boolean().optional() }),
  "host.measured": z.object({ command, host, links, direct: links.optional() }),
  /** `memoryBytes`: memory that the host's process may use. */
  "host.prepared": z.object({
    command,
    plan: z.unknown(),
    placement: z.unknown().optional(),
    memoryBytes: z.number().min(0).optional(),
  }),
  /**
   * `steps`: number of steps for which the files that are indexed so far have samples. `part`: the
   * part of the data whose files other hosts may help to index.
   */
  "host.preparing": z.object({
    fraction: z.number(),
    steps: z.int().min(0).optional(),
    part: dataPart.optional(),
  }),
  /** Lets another host help to index files of a part: it is number `share`, from 0, of `hosts`. */
  "host.index": z.object({
    job: z.string(),
    part: dataPart,
    share: z.int().min(1),
    hosts: z.int().min(2),
  }),
  /** Lets another host build the caches that it does not see. `digest`: that of the samples. */
  "host.cache": z.object({
    command,
    job: z.string(),
    caches: z.array(z.object({ part: dataPart, path: z.string(), digest: z.string() })).readonly(),
  }),
  /** The host sees all of these caches. */
  "host.cached": z.object({ command, host }),
  /** `assembly`: the spec of the generation without its job, as JSON. */
  "host.assemble": z.object({ command, job: z.string(), assembly: z.string() }),
  /** `isOver`: the run has ended, so that the host need not keep any of its state. */
  "host.release": z.object({ command, isOver: z.boolean() }),
  /** `meters`: the last counters of the generation, unless it ended before. */
  "host.released": z.object({ command, host, meters: meters.optional() }),
  /**
   * The heartbeat: the steps of the host's devices, and the losses of device 0 since the last
   * heartbeat if that device is on this host. `isBridged`: the host receives frames of other hosts.
   * `meters`: counters of its devices and readers (src/training/meters/step-meter.ts). `tiers`: the
   * state of its devices' backing stores. `waits`: what its threads are waiting for. `links`: its
   * direct links.
   */
  "host.progress": z.object({
    host,
    beat: z.int(),
    isBridged: z.boolean(),
    links: linkReport.optional(),
    tiers: z.array(tierStatus),
    steps: z.array(step),
    waits: z.array(wait).readonly(),
    lossFrom: step,
    losses: z.array(figure),
    pushLag: pushLag.optional(),
    meters,
  }),
  /** An actor failed, and its host's part of the generation ended. Repeated until the release. */
  "host.failed": z.object({
    host,
    actor: z.string(),
    context: z.string(),
    error: errorRecord,
    step: step.optional(),
    waits: z.array(wait).readonly(),
  }),
  /** An actor failed and was replaced. `lost`: the updates that asynchronous training lost. */
  "host.mended": z.object({
    host,
    actor: z.string(),
    context: z.string(),
    error: errorRecord,
    step: step.optional(),
    delayMs: z.number().min(0),
    lost: lostUpdates.optional(),
  }),

  /**
   * A process joins as a host, or confirms that it still is one. `isLeaving`: it stays only while a
   * run needs it; `drain`: the reason, and the seconds until it ends. `key` identifies it until it
   * has an index.
   */
  "host.announce": z.object({
    key: z.int().min(0),
    isAsking: z.boolean().default(true), // For an answer; older hosts always ask.
    devices: z.int().min(1),
    arithmetic: z.string(),
    version: z.string(),
    machine: z.string(),
    pid: z.int(),
    isLeaving: z.boolean(),
    drain: z.object({ reason: z.string(), seconds: z.number().min(0) }).optional(),
    hardware: hardware.optional(),
  }),
  /**
   * `mayLeave`: the host has announced that it is leaving, and no run uses its devices any more.
   */
  "host.welcome": z.object({ host, mayLeave: z.boolean() }),
  "host.refused": z.object({ error: errorRecord }),
  "host.leave": z.object({ key: z.int().min(0) }),
  /**
   * `of`: report only the last messages of this actor (actors/observe/received-messages.ts).
   * `hasShards`: also report shards. `timelines`: a page of these (actors/host/kept-timelines.ts).
   */
  "host.inspect": z.object({
    command,
    hasShards: z.boolean().optional(),
    of: z.object({ actor: z.string(), run: z.string().optional() }).optional(),
    timelines: z.object({ run: z.string(), first: z.int(), fromStep: z.int() }).optional(),
  }),
  /** `report`: the state of the process (actors/observe/process-report.ts). */
  "host.inspected": z.object({ command, host, report: z.unknown() }),

  "shard.inspect": z.object({ command }),
  /** `report`: see actors/host/shard.ts. */
  "shard.inspected": z.object({ command, shard: z.int().min(0), report: z.unknown() }),
  "tier.inspect": z.object({ command }),
  /** `report`: see actors/host/tier-report.ts. */
  "tier.inspected": z.object({ command, device, report: z.unknown() }),
  /** Writes the dirty rows of host memory to disk, between two requests. */
  "tier.flush": z.object({ command }),
  "tier.flushed": z.object({ command, device, rows: z.int().min(0) }),

  /**
   * `lossSum`: sum over the steps since the last point of the history; the device adds to it.
   * `plateau`: factor that reductions on plateaus have applied to the learning rates.
   */
  "device.run": z.object({ command, toStep: step, lossSum: figure, plateau: figure }),
  "device.evaluate": z.object({ command, part: z.enum(["evaluation", "test"]) }),
  /** `to`: the host that takes the device's parts over, because the device's own host leaves. */
  "device.save": z.object({ command, cut: step, isBaseline: z.boolean(), to: host.optional() }),
  "device.pause": z.object({ command, afterStep: step }),
  /**
   * Requests a device of a failed generation to write its surviving state. `first` also writes the
   * state that all devices share. The reply, `device.dumped`, has the device's `step` of the run's
   * `steps`.
   */
  "device.dump": z.object({ first: device }),
  "device.dumped": z.object({ device, step, steps: step, parts: z.array(savedPart).readonly() }),
  /** `restored`: where the bytes of the checkpoint came from, if there is a checkpoint. */
  "device.ready": z.object({ device, step, ...computed, restored: restoredBytes }),
  "device.reached": z.object({
    command,
    device,
    step,
    lossSum: figure,
    steps: z.number(),
    isPaused: z.boolean(),
    repairedIds: counts,
    staleRows: counts,
    dynamicIds: z.object({ admitted: counts, evicted: counts, dropped: counts }).readonly(),
    samples: z.int().min(0).optional(), // Trained by an asynchronous trainer.
  }),
  "device.evaluated": z.object({ command, device, metrics: metrics.nullable() }),

  /** Limits the samples per second of all readers of the run together; 0: no limit. */
  "reader.rate": z.object({ command, samplesPerSecond: z.int().min(0) }),
  "reader.limited": z.object({ command, reader }),
  /** Requests that the reader finish its batch and be replaced by another thread. */
  "reader.drain": z.object({ command }),
  /** `isForced`: the thread did not finish its batch in time, and was terminated. */
  "reader.drained": z.object({ command, reader, isForced: z.boolean(), position }),

  /** Sets the number of preprocessing workers on the pool's host. */
  "pool.scale": z.object({ workers: z.int().min(0) }),

  "checkpoint.cut": z.object({
    command,
    cut: step,
    arithmetic: z.string(),
    best: z.boolean(),
    metrics: z.unknown(),
    sets: z.array(z.string()).optional(), // `sets` and `means`: as in the manifest.
    means: z.record(z.string(), z.number()).optional(),
    leaving: z.array(host).optional(), // Hosts that leave after this cut, handing their parts over.
  }),
  /** All devices have taken the cut and may go on; `stallMs`: the longest stall of a device. */
  "checkpoint.taken": z.object({ command, cut: step, stallMs: z.number().min(0) }),
  /** Requests the cut's `checkpoint.committed`. */
  "checkpoint.commit": z.object({ cut: step }),
  "checkpoint.committed": z.object({
    cut: step,
    modelDigest: z.string(),
    manifest: z.string(),
    bytes: z.number(),
  }),
  /** The device has copied the state that it saves at the cut, in `stallMs`. */
  "device.cut": z.object({ command, device, cut: step, stallMs: z.number().min(0) }),
  "writer.save": z.object({ cut: step }),
  /**
   * Requests a host to keep replicas of this checkpoint's parts: its own, and its replica owner's.
   * `manifest`: as JSON.
   */
  "buddy.keep": z.object({ manifest: z.string() }),
  /** The host has the replicas, except for `missing` files; `bytes`: of all its replicas. */
  "buddy.kept": z.object({
    host,
    manifest: z.string(),
    missing: z.int().min(0),
    bytes: z.int().min(0),
  }),
  /** Requests a tier to save its durable rows. `manifest`: hash of the last checkpoint. */
  "tier.persist": z.object({ command, manifest: z.string() }),
  "tier.persisted": z.object({ command, device, kept: foundRows }),
  /** Some of the `of` parts that a device has saved. */
  "part.saved": z.object({ ...someParts, parts: z.array(savedPart).readonly() }),
  /** Parts in a leaving host's memory, to take over: of places only `sha256` and `bytes` count. */
  "part.offered": z.object({ ...someParts, parts: z.array(savedPart).readonly() }),
  /** The receiver of part.offered has these parts, so that the leaving host is not needed. */
  "part.held": z.object({ ...someParts, names: z.array(z.string()).readonly() }),
  /** All parts of these leaving hosts are in the store, or in the memory of hosts that stay. */
  "checkpoint.handed": z.object({ hosts: z.array(host).readonly() }),
  /** These hosts may leave now: from then on their silence is not a failure. */
  "buddy.left": z.object({ hosts: z.array(host).readonly() }),
  /**
   * The checkpoint disk is full and the writer waits for room (`isAwaited`), or it has continued.
   */
  "writer.room": z.object({ device, isAwaited: z.boolean() }),

  /** For tests and the chaos harness: the actor throws. Accepted only where faults are allowed. */
  "chaos.throw": z.object({ reason: z.string() }),
});

export type Messages = typeof messages.schemas;

/** The receiving role of each message; `any`: every actor. */
export const takers = {
  "host.prepare": "host",
  "host.prepared": "coordinator",
  "host.preparing": "coordinator",
  "host.measure": "host",
  "host.measured": "coordinator",
  "host.index": "host",
  "host.cache": "host",
  "host.cached": "coordinator",
  "host.assemble": "host",
  "host.release": "host",
  "host.released": "coordinator",
  "host.progress": "coordinator",
  "host.failed": "coordinator",
  "host.mended": "coordinator",
  "host.announce": "hosts",
  "host.welcome": "joining",
  "host.refused": "joining",
  "host.leave": "hosts",
  "host.inspect": "inspector",
  "host.inspected": "inspector",
  "shard.inspect": "shard",
  "shard.inspected": "inspector",
  "tier.inspect": "tier",
  "tier.inspected": "inspector",
  "tier.flush": "tier",
  "tier.flushed": "inspector",
  "device.run": "device",
  "device.evaluate": "device",
  "device.save": "device",
  "device.pause": "device",
  "device.dump": "device",
  "device.dumped": "job",
  "device.ready": "coordinator",
  "device.reached": "coordinator",
  "device.evaluated": "coordinator",
  "reader.rate": "reader",
  "reader.limited": "coordinator",
  "reader.drain": "reader",
  "reader.drained": "coordinator",
  "pool.scale": "pool",
  "checkpoint.cut": "checkpoint",
  "checkpoint.taken": "coordinator",
  "checkpoint.commit": "checkpoint",
  "checkpoint.committed": "coordinator",
  "device.cut": "checkpoint",
  "writer.save": "writer",
  "buddy.keep": "bridge",
  "buddy.kept": "checkpoint",
  "tier.persist": "tier",
  "tier.persisted": "coordinator",
  "part.saved": "checkpoint",
  "part.offered": "bridge",
  "part.held": "checkpoint",
  "checkpoint.handed": "coordinator",
  "buddy.left": "bridge",
  "writer.room": "coordinator",
  "chaos.throw": "any",
} as const satisfies Record<keyof Messages, SubjectRole | "any">;
