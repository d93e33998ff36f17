// Processor time of other processes.

import { readFileSync } from "node:fs";

/** A tick of the times in /proc: 10 ms on every Linux machine. */
const tickMs = 10;

/** Processor time of a process so far, in milliseconds; on Linux only. */
export function spentMsOf(pid: number): number {
  // After the program's name in brackets: state, then 10 fields, then user and system time.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return tickMs * (Number(fields[11]) + Number(fields[12]));
}
