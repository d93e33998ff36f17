// Measures how many cores other programs keep busy while a job is measured.

import { existsSync, readFileSync } from "node:fs";

/** A tick of the kernel's processor times. */
const tickMs = 10;

/**
 * Returns a function that computes how many cores other programs kept busy since this call; 0 on
 * systems without /proc/stat.
 */
export function coresOfOthers(): () => number {
  const startMs = performance.now();
  const [all, ownUsage] = [busyMs(), process.cpuUsage()];
  return () => {
    const { user, system } = process.cpuUsage(ownUsage);
    const othersMs = busyMs() - all - (user + system) / 1000;
    return Math.max(0, othersMs / (performance.now() - startMs));
  };
}

/** Processor milliseconds of all programs since the start of the system. */
function busyMs(): number {
  if (!existsSync("/proc/stat")) return 0;
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
  const [user = 0, nice = 0, system = 0, , , irq = 0, soft = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return tickMs * (user + nice + system + irq + soft);
}
