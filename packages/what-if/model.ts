// The seams of this package. A prediction goes one way:
//
//   job, hardware file ── constants ──> plan (src/planner) ── costs ──> seconds of tasks and bytes
//   task graph of a device (src/training/step/step-graph.ts) ── engine ──> timeline of the steps
//   timeline ── predict ──> samples per second, bottleneck, memory, cost, energy, goodput
//
// A prediction reads no clock: all times are computed.

import type { ChannelName, StepTaskName } from "../../internal.ts";

import type { Goodput } from "./predict/goodput.ts";

export type { ClusterDevices, Hardware } from "./hardware/hardware.ts";

/** Bytes that a device sends, or receives, in a step on a channel. */
export interface ChannelBytes {
  readonly inside: number;
  readonly across: number;
}

/** The cost of one task of the step graph (`StepTask`) on one device. */
export interface TaskCost {
  /** Seconds of the device itself. */
  readonly seconds: number;
  /** For `tiers`: seconds of the thread that fetches a step's rows while the device works. */
  readonly behind?: number;
  /** Seconds for which it uses the host's memory, disk or link, which other devices use too. */
  readonly shared?: Readonly<Partial<Record<"hostMemory" | "disk" | "hostLink", number>>>;
}

/** The costs of a step on a class of devices, all of which have the same costs. */
export interface DeviceCosts {
  /** The ranks of the devices, ascending. */
  readonly ranks: readonly number[];
  /** By name; a task without costs is left out. `checkpoint`: of one checkpoint. */
  readonly tasks: Readonly<Partial<Record<StepTaskName, TaskCost>>>;
  readonly sent: Readonly<Partial<Record<ChannelName | "gradients", ChannelBytes>>>;
  readonly received: Readonly<Partial<Record<ChannelName | "gradients", ChannelBytes>>>;
  /** Bytes of its rows and buffers by level, and the available bytes (`memoryThere`). */
  readonly memory: MemoryBytes;
  readonly memoryThere: MemoryBytes;
}

/** Bytes of the device itself, and of its share of the host's memory and disk. */
export type MemoryBytes = Readonly<Record<"device" | "host" | "disk", number>>;

/** The costs of a step of a job on a cluster. */
export interface StepCostsOfCluster {
  readonly hosts: number;
  readonly perHost: number;
  /** Every device is in one class; ordered by their first devices. */
  readonly classes: readonly DeviceCosts[];
  /** Number of the last hosts that are servers of another kind of machine; else 0. */
  readonly serverHosts: number;
  /** Seconds of one reader for a batch, and readers of a host. */
  readonly reading: { readonly seconds: number; readonly readers: number };
}

/** A span of the simulated timeline: a device works or waits, or bytes fly to it. */
export interface Span {
  readonly rank: number;
  /** The step that the device computes meanwhile. */
  readonly step: number;
  /** The task (StepTaskName), the name of the wait (`waitOf`), or the channel of the flight. */
  readonly task: string;
  readonly kind: "work" | "wait" | "flight";
  readonly from: number;
  readonly to: number;
}

/** The simulated steps. All figures but `busy` are of the device that others wait for. */
export interface SimulatedSteps {
  /** Seconds of a step in the steady state. */
  readonly step: number;
  /** That device: the one that waits least for others. */
  readonly rank: number;
  /**
   * Seconds of a step by task; waits for a batch and for tiers belong to the tasks of these names.
   * Without streams, they and `exposed` add up to the step.
   */
  readonly byTask: Readonly<Record<string, number>>;
  /** Seconds that each shared resource is busy in a step, where it is busiest. */
  readonly busy: Readonly<Record<string, number>>;
  /**
   * Seconds of waits by name, as the meter of a run counts them (`waitOf`); with streams, only the
   * time in which no stream works.
   */
  readonly exposed: Readonly<Record<string, number>>;
  /** The part of `exposed` in which bytes flew; the rest waits for devices that compute. */
  readonly inFlight: Readonly<Record<string, number>>;
  /** Seconds in which bytes flew while the device did not wait for them. */
  readonly hidden: Readonly<Record<string, number>>;
  /** The last steps of some devices. */
  readonly spans: readonly Span[];
  /** Numbers of simulated devices and events; equal devices are simulated once. */
  readonly simulated: { readonly devices: number; readonly events: number };
}

/** What `osiris simulate-cluster` prints of one kind of machine. */
export interface Prediction {
  readonly hardware: string;
  readonly hosts: number;
  readonly devices: number;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
  readonly samplesPerSecond: number;
  readonly steps: SimulatedSteps;
  /** The resource or wait that limits the step, and its share of the step. */
  readonly bottleneck: { readonly name: string; readonly share: number };
  /** Bytes of the fullest device and host, by level, beside what there is. */
  readonly memory: Readonly<
    Record<"device" | "host" | "disk", { readonly used: number; readonly there: number }>
  >;
  /** Price of a billion samples, with the time that failures cost; left out without a price. */
  readonly price?: number | undefined;
  readonly kilowattHours?: number | undefined;
  /** Share of the time that trains samples which are kept, with failures and checkpoints. */
  readonly goodput: number;
  /** The failures and checkpoints behind it. */
  readonly failures: Goodput;
  /** Conditions that a run of the job does not meet yet, a sentence each. */
  readonly missing: readonly string[];
}
