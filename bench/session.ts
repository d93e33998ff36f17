// Measures one bench in a process of its own, so that Ctrl-C works at any moment, even while a
// kernel keeps the measuring thread busy. That process leads a process group, whose members are the
// servers, peers and hosts that it starts. The end of a session kills the group.
//
// Invariant: after `runSession` no process of the bench is left, and no file that it wrote. All of
// its files are in one directory, which is TMPDIR for the group. That directory is in the working
// directory, because the system's temporary file system may be memory instead of a disk.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { BenchRow } from "./row.ts";

/** The work of the measuring process. */
export interface SessionWork {
  readonly bench: string;
  readonly options: object;
  /** Patterns of row names. */
  readonly only: readonly string[];
}

/** The begin of a measurement, by its index among the requested ones; or a measured row. */
export type SessionMessage = { readonly begin: number } | { readonly row: BenchRow };

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
const signals = Object.keys(exitCodes) as (keyof typeof exitCodes)[];

/**
 * Resolves to the exit code: 0, 1 if the bench failed, or that of the signal that ended it. The
 * directory of its files is made in `home`.
 */
export async function runSession(
  work: SessionWork,
  receive: (message: SessionMessage) => void,
  home = process.cwd(),
): Promise<number> {
  const directory = mkdtempSync(join(home, ".osiris-bench-"));
  const child = startProcess(work, directory);
  child.on("message", receive);
  let interruptedBy: keyof typeof exitCodes | undefined;
  const interrupt = (signal: NodeJS.Signals) => {
    interruptedBy = signal as keyof typeof exitCodes;
    killGroup(child);
  };
  const cleanUp = () => {
    killGroup(child);
    rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
  };
  for (const signal of signals) process.on(signal, interrupt);
  process.on("exit", cleanUp); // Also after an uncaught error, as when a pipe is closed.
  try {
    const [code] = await once(child, "close");
    if (interruptedBy !== undefined) return exitCodes[interruptedBy];
    return code === 0 ? 0 : 1;
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
    process.off("exit", cleanUp);
    cleanUp();
  }
}

function startProcess(work: SessionWork, directory: string): ChildProcess {
  const program = new URL("./measure.js", import.meta.url);
  return fork(program, [JSON.stringify(work)], {
    detached: true, // Leads its own process group, which a terminal's Ctrl-C does not reach.
    env: { ...process.env, TMPDIR: directory },
    stdio: ["ignore", process.stderr.fd, "inherit", "ipc"], // Standard output is for rows alone.
    serialization: "advanced", // JSON has no NaN.
  });
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group is empty already.
  }
}
