// Costs of tasks and bytes of memory, added up by device.

import type { StepTaskName } from "../../../internal.ts";
import type { DeviceCosts, MemoryBytes, TaskCost } from "../model.ts";
import { add } from "./flows.ts";

/** Resources of a host that its devices share, or the link of each device to it. */
const sharedNames = ["hostMemory", "disk", "hostLink"] as const;

type Part = "seconds" | (typeof sharedNames)[number];

/** Seconds that a task takes on its device, and on each resource that devices share. */
export type TaskParts = Readonly<Partial<Record<Part, number>>>;

export interface Ledger {
  /** Adds to a task of a device, or of all devices. */
  add(task: StepTaskName, rank: number | "all", parts: TaskParts): void;
  addMemory(rank: number | "all", bytes: Partial<MemoryBytes>): void;
  tasksOf(rank: number): DeviceCosts["tasks"];
  memoryOf(rank: number): MemoryBytes;
}

export function createLedger(devices: number): Ledger {
  // An element for each device, and a last one that counts for all devices.
  const columns = new Map<string, Float64Array>();
  const put = (name: string, rank: number | "all", value: number) => {
    const known = columns.get(name) ?? new Float64Array(devices + 1);
    columns.set(name, known);
    add(known, rank === "all" ? devices : rank, value);
  };
  const sumOf = (name: string, rank: number) => {
    const column = columns.get(name);
    return (column?.[rank] ?? 0) + (column?.[devices] ?? 0);
  };
  const tasks = new Set<StepTaskName>();
  return {
    add(task, rank, parts) {
      tasks.add(task);
      for (const [part, value] of Object.entries(parts)) put(`${task} ${part}`, rank, value);
    },
    addMemory(rank, bytes) {
      for (const [level, value] of Object.entries(bytes)) put(level, rank, value);
    },
    tasksOf(rank) {
      const costs = [...tasks].flatMap((task): [StepTaskName, TaskCost][] => {
        const seconds = sumOf(`${task} seconds`, rank);
        const shared = sharedNames.flatMap((name): [string, number][] => {
          const value = sumOf(`${task} ${name}`, rank);
          return value > 0 ? [[name, value]] : [];
        });
        if (seconds === 0 && shared.length === 0) return [];
        return [
          [task, { seconds, ...(shared.length > 0 && { shared: Object.fromEntries(shared) }) }],
        ];
      });
      return Object.fromEntries(costs);
    },
    memoryOf: (rank) => ({
      device: sumOf("device", rank),
      host: sumOf("host", rank),
      disk: sumOf("disk", rank),
    }),
  };
}
