// Thread faults: wraps the ports of a thread, which wait for the moment of a fault and inject it. A
// thread stores, waits and writes at the same points of a step every time, so that a moment is the
// same in every replay of the schedule.
//
// A fault injected from outside (a killed process, a throwing actor, a broker that dies) has its
// gate in this file: the thread hangs at the moment until the fault was injected.

import type { ThreadPorts } from "../../actors/threads/thread-ports.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { cuttableLinks } from "./cut-links.ts";
import { type DiskTrouble, exhaustMemory, FaultyDisk, hang } from "./faulty-disk.ts";
import type { Injections } from "./injections.ts";
import type { Fault } from "./schedule.ts";

/** A fault, and its index in the schedule. */
export interface PlacedFault {
  readonly index: number;
  readonly fault: Fault;
}

/** The state of a thread that its faults need. */
export interface ThreadPlace {
  /** Faults that this thread injects itself. */
  readonly faults: readonly PlacedFault[];
  /** Faults injected from outside, at whose gates this thread waits. */
  readonly gates: readonly PlacedFault[];
  readonly injections: Injections;
  readonly generation: number;
  readonly stepDeadlineMs: number;
  /** The run's checkpoint directory. */
  readonly directory: string;
  /** Whether this thread only writes checkpoints. */
  readonly isWriter: boolean;
  /** Whether this thread makes splits: each of its polls for a command counts as a point. */
  readonly isWorker: boolean;
  /** Completed steps of the thread's devices. */
  stepsDone(): number;
}

/** The command that the thread is executing. */
type Phase = "restore" | "run" | "evaluate" | "save";

/** Delay of a store or wait in a slow thread. */
const slowMs = 2;
/**
 * Longest wait at a gate, as a share of the step deadline, so that the wait is not a fault itself.
 */
const gateShare = 0.25;
/** Polling interval of a thread at a gate. */
const lookMs = 2;

/** Wraps the ports of a thread with its faults. */
export function faultyPorts(ports: ThreadPorts, place: ThreadPlace): ThreadPorts {
  const { injections, generation, stepDeadlineMs, directory } = place;
  let waiting = [
    ...place.faults.map((one) => ({ ...one, isGate: false, passed: 0 })),
    ...place.gates.map((one) => ({ ...one, isGate: true, passed: 0 })),
  ];
  let phase: Phase = place.isWriter ? "save" : "restore";
  let slow: (PlacedFault & { readonly fromStep: number }) | undefined;
  let bad: PlacedFault | undefined;

  const links = cuttableLinks();
  const disk = new FaultyDisk(ports.disk, { directory, onOperation: () => pass() });
  const injection = (placed: PlacedFault & { readonly isGate: boolean }) => {
    const { index, fault, isGate } = placed;
    const at = { step: place.stepsDone(), generation };
    if (isGate) return standAtGate(index, at);
    if (!injections.claim(index, at)) return;
    switch (fault.what) {
      case "kill":
        return process.exit(1);
      case "pause":
        hang(fault.deadlines * stepDeadlineMs);
        return injections.heal(index, 1);
      case "slow":
        slow = { ...placed, fromStep: at.step };
        return;
      case "exception":
        throw new InjectedFault(index);
      case "out-of-memory":
        return exhaustMemory();
      case "nan":
        bad = placed;
        return;
      case "link-cut":
        links.cut();
        return injections.heal(index, 1);
      default:
        return arm(disk, placed, { injections, die: dieOf(fault.what) });
    }
  };
  const standAtGate = (index: number, at: { step: number; generation: number }) => {
    if (!injections.arrive(index, at)) return;
    for (let ms = 0; ms < gateShare * stepDeadlineMs && !injections.isOpen(index); ms += lookMs) {
      hang(lookMs);
    }
  };
  const pass = () => {
    if (slow?.fault.what === "slow") {
      hang(slowMs);
      if (place.stepsDone() >= slow.fromStep + slow.fault.steps) {
        injections.heal(slow.index, slow.fault.steps);
        slow = undefined;
      }
    }
    const due = waiting.filter((one) => isTime(one.fault, phase, place.stepsDone()));
    for (const one of due) if (one.passed++ === one.fault.when.point) injection(one);
    waiting = waiting.filter(({ passed, fault }) => passed <= fault.when.point);
  };

  return {
    ...ports,
    disk,
    directWay: async (...given) => links.over(await ports.directWay(...given)),
    wrapCells: (cells) =>
      passing(ports.wrapCells(cells), () => {
        if (place.isWriter) disk.powerFails(); // Between two parts of a checkpoint.
        pass();
      }),
    wrapKernels: (kernels) =>
      withNan(ports.wrapKernels(kernels), () => {
        const injected = bad;
        bad = undefined;
        if (injected !== undefined) injections.heal(injected.index, 1);
        return injected !== undefined;
      }),
    take() {
      const command = ports.take() as { readonly type?: string } | undefined;
      if (command === undefined && place.isWorker) pass();
      if (command === undefined) return undefined;
      if (command.type === "run") disk.powerFails();
      phase = phaseOf(command.type) ?? phase;
      pass(); // A device without parts to save has no other point.
      return command;
    },
  };
}

/** The error thrown in a thread. Like any unknown error, its recovery is: restore. */
export class InjectedFault extends Error {
  constructor(index: number) {
    super(`Fault ${index} of the schedule was thrown here`);
    this.name = "InjectedFault";
  }
}

/** Arms a disk fault of the schedule. */
export function arm(
  disk: FaultyDisk,
  { index, fault }: PlacedFault,
  { injections, die }: { readonly injections: Injections; readonly die: () => void },
): void {
  const operations = "operations" in fault ? fault.operations : 1;
  const over = (hits: number) => injections.heal(index, hits);
  disk.arm({ what: fault.what as DiskTrouble, operations, over, die });
}

/** A torn write ends its thread; a power failure ends the whole process. */
function dieOf(what: Fault["what"]): () => void {
  return what === "lost-sync" ? () => process.kill(process.pid, "SIGKILL") : () => process.exit(1);
}

function phaseOf(command: string | undefined): Phase | undefined {
  if (command === "run") return "run";
  if (command === "evaluate") return "evaluate";
  return command === "save" ? "save" : undefined;
}

function isTime({ when: { step, during } }: Fault, phase: Phase, stepsDone: number): boolean {
  if (during === "recovery") return phase === "restore";
  if (stepsDone < step) return false;
  if (during === "step") return true;
  return phase === (during === "evaluation" ? "evaluate" : "save");
}

/** Cells that count a point at every store and wait. */
function passing(cells: Cells, pass: () => void): Cells {
  return {
    load: (cell) => cells.load(cell),
    store(cell, value, wake) {
      pass();
      cells.store(cell, value, wake);
    },
    waitUntil(wait, isTrue, of) {
      pass();
      return cells.waitUntil(wait, isTrue, of);
    },
  };
}

/** Kernels that compute a NaN loss once `isBad`. */
function withNan(kernels: Kernels, isBad: () => boolean): Kernels {
  return {
    ...kernels,
    loss(losses, dLogits, ...rest) {
      kernels.loss(losses, dLogits, ...rest);
      if (!isBad()) return;
      losses.fill(Number.NaN);
      kernels.fill(dLogits, Number.NaN);
    },
  };
}
