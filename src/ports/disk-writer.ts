// The writers of a disk, by name. A temporary file has its writer's name in its own, so that
// another process, also of another machine that shares the directory, can tell whether the writer
// may still be at work.

import { createHash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { threadId } from "node:worker_threads";

/**
 * This thread: machine, process, when the process started, and thread. Where the system has no
 * /proc, the start is 0, and a process id that is used again counts as the former process.
 */
export function thisWriter(): string {
  return `${thisMachine()}-${process.pid}-${startOf(process.pid)}-${threadId}`;
}

/** Whether the process of a writer has ended; false where this process cannot tell. */
export function isWriterGone(writer: string): boolean {
  const [, machine, pid = "", start] = /^([0-9a-f]{8})-(\d+)-(\d+)-\d+$/.exec(writer) ?? [];
  if (machine === undefined || machine !== thisMachine()) return false;
  return !isAlive(Number(pid)) || startOf(Number(pid)) !== start;
}

/** The time since this machine was started; undefined where the system has no name for it. */
export function thisBoot(): string | undefined {
  const id = readIfThere(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")).trim();
  return id === "" ? undefined : id;
}

let machine: string | undefined;

/**
 * Processes that see each other: one machine, since it was started, and one container of it, as
 * process ids of two containers mean different processes.
 */
function thisMachine(): string {
  machine ??= createHash("sha256")
    .update(hostname())
    .update(thisBoot() ?? "")
    .update(readIfThere(() => readlinkSync("/proc/self/ns/pid")))
    .digest("hex")
    .slice(0, 8);
  return machine;
}

/** When a process started, in ticks of its machine; `0` where nothing says so. */
function startOf(pid: number): string {
  const stat = readIfThere(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  // The name of the program, in parentheses, may have spaces of its own.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[19] ?? "0";
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function readIfThere(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}
