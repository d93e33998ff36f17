// Names of the writers of a disk. The name of a temporary file contains its writer's name, so that
// another process, even on another machine that shares the directory, can tell whether the writer
// may still be running.

import { createHash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { threadId } from "node:worker_threads";

/**
 * The name of this thread: machine, process id, start of the process, and thread id. On systems
 * without /proc the start is 0, so that a reused process id is taken for the former process.
 */
export function thisWriter(): string {
  return `${thisMachine()}-${process.pid}-${startOf(process.pid)}-${threadId}`;
}

/** Whether the process of a writer has ended; false if this process cannot tell. */
export function isWriterGone(writer: string): boolean {
  const [, machine, pid = "", start] = /^([0-9a-f]{8})-(\d+)-(\d+)-\d+$/.exec(writer) ?? [];
  if (machine === undefined || machine !== thisMachine()) return false;
  return !isAlive(Number(pid)) || startOf(Number(pid)) !== start;
}

/** The id of this machine's boot; undefined if the system has none. */
export function thisBoot(): string | undefined {
  const id = readIfThere(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")).trim();
  return id === "" ? undefined : id;
}

let machine: string | undefined;

/**
 * Identifies the processes that see each other's process ids: those of one boot of one machine and
 * of one container, as containers have separate process ids.
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

/** The start of a process, in clock ticks of the machine; `0` if unknown. */
function startOf(pid: number): string {
  const stat = readIfThere(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  // The name of the program, in parentheses, may contain spaces.
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
