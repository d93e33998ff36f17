// The seams of this package. A prediction goes one way:
//
//   job, hardware file ── constants ──> plan (src/planner) ── costs ──> seconds of tasks and bytes
//   task graph of a device (src/training/step/step-graph.ts) ── engine ──> timeline of the steps
//   timeline ── predict ──> samples per second, bottleneck, memory, cost, energy, goodput
//
// Nothing here knows a clock: all times are computed.

import type { ChannelName } from "../../internal.ts";

/** Numeric formats of products. */
export type Precision = "float32" | "bfloat16";

/** A link: seconds of a message without bytes, bytes per second each way, and the share reached. */
export interface Link {
  readonly latency: number;
  readonly bandwidth: number;
  /** Share of the bandwidth that an all-to-all, and an all-reduce, reach. */
  readonly allToAllShare: number;
  readonly allReduceShare: number;
}

/** A place for rows: bytes, and bytes per second. */
export interface MemoryLevel {
  readonly bytes: number;
  readonly bandwidth: number;
}

/** A kind of machine, as a file of `hardware/` describes it (hardware/hardware.ts has the schema). */
export interface Hardware {
  readonly name: string;
  /** Where its figures come from; `fitted` names the figures that were fitted, and to what. */
  readonly source: string;
  readonly host: {
    readonly devices: number;
    /** Memory shared by the host's devices; its bandwidth is shared, too. */
    readonly memory: MemoryLevel;
    readonly disk?: MemoryLevel | undefined;
    /** Cores that devices, readers and bridges share; left out: none is shared. */
    readonly cores?: number | undefined;
    /** Bytes per second that samples may arrive with. */
    readonly ingestion: number;
    readonly watts?: number | undefined;
    readonly pricePerHour?: number | undefined;
    /** Mean hours between failures of a host. */
    readonly mtbfHours?: number | undefined;
  };
  readonly device: {
    readonly memory: MemoryLevel;
    /** Peak operations per second, by precision. */
    readonly flops: Readonly<Partial<Record<Precision, number>>>;
    /** Bytes per second between the host's memory and a device. */
    readonly hostLink: number;
  };
  /** Between devices of a host; and between hosts, of each device or shared by those of a host. */
  readonly scaleUp: Link;
  readonly scaleOut: Link & { readonly isShared: boolean };
}

/** Bytes that a device sends, or receives, in a step on a channel. */
export interface ChannelBytes {
  readonly inside: number;
  readonly across: number;
}

/** A task of a step (StepTask.name), and what it needs on one device. */
export interface TaskCost {
  /** Seconds of the device itself. */
  readonly seconds: number;
  /** Seconds that it holds the host's memory, disk or link, which other devices use meanwhile. */
  readonly shared?: Readonly<Partial<Record<"hostMemory" | "disk" | "hostLink", number>>>;
}

/** The costs of a step on some devices that are alike in all of them. */
export interface DeviceCosts {
  /** The ranks of the devices. */
  readonly ranks: readonly number[];
  readonly tasks: Readonly<Record<string, TaskCost>>;
  readonly sent: Readonly<Partial<Record<ChannelName | "gradients", ChannelBytes>>>;
  readonly received: Readonly<Partial<Record<ChannelName | "gradients", ChannelBytes>>>;
  readonly memory: Readonly<Record<"device" | "host" | "disk", number>>;
}

/** The costs of a step of a job on a cluster. */
export interface StepCostsOfCluster {
  readonly hosts: number;
  readonly perHost: number;
  readonly classes: readonly DeviceCosts[];
  /** Seconds of one reader for a batch, and readers of a host. */
  readonly reading: { readonly seconds: number; readonly readers: number };
}

/** A span of the simulated timeline: a device or a link is busy, or waits. */
export interface Span {
  readonly rank: number;
  readonly step: number;
  readonly task: string;
  readonly kind: "work" | "wait" | "flight";
  readonly from: number;
  readonly to: number;
}

/** The simulated steps. */
export interface SimulatedSteps {
  /** Seconds of a step in the steady state. */
  readonly step: number;
  /** Seconds of a step by task or wait, on the device that others wait for. */
  readonly byTask: Readonly<Record<string, number>>;
  /** Seconds that each shared resource is busy in a step: the largest share is the bottleneck. */
  readonly busy: Readonly<Record<string, number>>;
  /** Seconds of flights that devices wait for, and of those hidden behind work, by channel. */
  readonly exposed: Readonly<Record<string, number>>;
  readonly hidden: Readonly<Record<string, number>>;
  readonly spans: readonly Span[];
}

/** What `osiris simulate-cluster` prints of one kind of machine. */
export interface Prediction {
  readonly hardware: string;
  readonly hosts: number;
  readonly devices: number;
  readonly samplesPerSecond: number;
  readonly steps: SimulatedSteps;
  /** The resource or wait that limits the step, and its share of the step. */
  readonly bottleneck: { readonly name: string; readonly share: number };
  /** Bytes of the fullest device and host, by level, beside what there is. */
  readonly memory: Readonly<
    Record<"device" | "host" | "disk", { readonly used: number; readonly there: number }>
  >;
  /** Of a billion samples; left out where the file has no price or watts. */
  readonly price?: number | undefined;
  readonly kilowattHours?: number | undefined;
  /** Share of the time that trains samples which are kept, with failures and checkpoints. */
  readonly goodput: number;
}
