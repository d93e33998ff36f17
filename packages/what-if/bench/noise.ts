// How quiet the machine is while a job is measured: the cores that other programs keep busy, and
// the speed of a fixed loop, whose level changes with the machine's clock and with its neighbours.

import { existsSync, readFileSync } from "node:fs";
import { fastest } from "../../../bench/row.ts";

export interface Noise {
  /** Cores that other programs kept busy; 0 where the system does not tell. */
  readonly others: number;
  /** Loops of a second. */
  readonly level: number;
}

/** A tick of the kernel's processor times. */
const tickMs = 10;
const loops = 200_000;
const levelSeconds = 0.03;

/** Returns the function that tells the noise since this call. */
export function listen(): () => Noise {
  const startMs = performance.now();
  const [all, own] = [busyMs(), process.cpuUsage()];
  return () => {
    const { user, system } = process.cpuUsage(own);
    const others = busyMs() - all - (user + system) / 1000;
    return { others: Math.max(0, others / (performance.now() - startMs)), level: levelNow() };
  };
}

/** Milliseconds that all programs together have computed. */
function busyMs(): number {
  if (!existsSync("/proc/stat")) return 0;
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
  const [user = 0, nice = 0, system = 0, , , irq = 0, soft = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return tickMs * (user + nice + system + irq + soft);
}

export function levelNow(): number {
  let state = 1;
  return fastest(1, levelSeconds, () => {
    for (let i = 0; i < loops; i++) state = (Math.imul(state, 1664525) + 1013904223) | 0;
  });
}
