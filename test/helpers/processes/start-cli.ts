// Processes of Node and of the built command line.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { waitMs } from "../until.ts";
import type { Ended } from "./cli-session-program.ts";

const main = fileURLToPath(new URL("../../../cli/main.js", import.meta.url));

/** A running program. */
export interface Running {
  readonly pid: number;
  /**
   * Resolves to the first line on stdout that `wanted` accepts. Rejects if the program ends before,
   * or prints no such line for minutes.
   */
  line(wanted: (line: string) => boolean): Promise<string>;
  kill(signal: NodeJS.Signals): void;
  /**
   * Resolves when the program has ended and its output is closed, so that no child process is left
   * either.
   */
  readonly ended: Promise<Ended>;
}

/** Starts `osiris` with these arguments. `inside`: as for `startNode`; `flags`: flags of Node. */
export function startCli(
  args: readonly string[],
  cwd: string,
  inside: readonly string[] = [],
  flags: readonly string[] = [],
): Running {
  return startNode([...flags, main, ...args], cwd, inside);
}

/** Starts a Node script, directly or `inside` a command that runs it. */
export function startNode(
  args: readonly string[],
  cwd: string,
  inside: readonly string[] = [],
): Running {
  const [program = process.execPath, ...rest] = [...inside, process.execPath, ...args];
  // No test waits for a measurement of the machine, and none depends on its speed.
  const env = { OSIRIS_CONSTANTS: "v100", OSIRIS_CALIBRATION: "brief", ...process.env };
  const child = spawn(program, rest, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  let isClosed = false;
  const looks = new Set<() => void>();
  const look = () => {
    for (const one of [...looks]) one();
  };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    look();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const ended = once(child, "close").then(([code]): Ended => {
    isClosed = true;
    look();
    return { code: code as number | null, stdout, stderr };
  });
  return {
    pid: child.pid ?? 0,
    line: (wanted) =>
      new Promise((resolve, reject) => {
        const fail = (what: string) => reject(new Error(`${what}: ${stdout}${stderr}`));
        const late = setTimeout(fail, waitMs, "It printed no such line for minutes");
        const one = () => {
          const found = stdout.split("\n").slice(0, -1).find(wanted);
          if (found === undefined && !isClosed) return;
          looks.delete(one);
          clearTimeout(late);
          if (found !== undefined) resolve(found);
          else fail("It ended without that line");
        };
        looks.add(one);
        one();
      }),
    kill: (signal) => void child.kill(signal),
    ended,
  };
}

/** The last line of a program's output, as JSON. */
export function lastJson<T>(ended: Ended): T {
  return JSON.parse(ended.stdout.trimEnd().split("\n").at(-1) ?? "") as T;
}
