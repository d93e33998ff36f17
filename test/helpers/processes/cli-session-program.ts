// The program of a CLI session (cli-session.ts): runs `osiris` for each message of its parent, and
// checks that a run leaves nothing open that would keep its process alive. In `npm test`, which
// builds everything first, it loads the rollup, as a user does, in a third of the time.

import { setTimeout as sleep } from "node:timers/promises";
import { loadProgram } from "../../../cli/program.ts";
import { notesVariable } from "../../runner/notes.ts";

/** The exit code of a program, and its output. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A request of the parent: one run of `osiris`. */
export interface Asked {
  readonly args: readonly string[];
  readonly cwd: string;
}

/** The answer to the parent: the end of the run, and the resources that it left open, if any. */
export interface Answered {
  readonly ended: Ended;
  readonly left: readonly string[];
}

/** The time a run may take to close its resources, and the polling interval. */
const closesWithinMs = 10_000;
const lookEveryMs = 2;

/** Captures the output to a stream instead of writing it, until the returned function is called. */
function capture(stream: NodeJS.WriteStream): () => string {
  const write = stream.write;
  let text = "";
  stream.write = ((chunk: string | Uint8Array, ...rest: unknown[]) => {
    text += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
    const written = rest.at(-1);
    if (typeof written === "function") queueMicrotask(() => written());
    return true;
  }) as typeof write;
  return () => {
    stream.write = write;
    return text;
  };
}

/**
 * Resources that keep the process alive beyond `before`, after the time that a run has to close
 * them.
 */
async function leftOpen(before: readonly string[]): Promise<string[]> {
  const looksMax = closesWithinMs / lookEveryMs;
  for (let looks = 1; ; looks++) {
    const left = process.getActiveResourcesInfo();
    for (const one of before) {
      const at = left.indexOf(one);
      if (at !== -1) left.splice(at, 1);
    }
    if (left.length === 0 || looks === looksMax) return left;
    await sleep(lookEveryMs);
  }
}

/** Restores environment variables: `--constants` sets one for the threads of its run. */
function restore(environment: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) {
    if (environment[name] === undefined) delete process.env[name];
  }
  Object.assign(process.env, environment);
}

const isBuilt = process.env[notesVariable] !== undefined;
const program = isBuilt ? loadProgram() : import("../../../cli/osiris.ts");

process.on("message", async ({ args, cwd }: Asked) => {
  const { osiris } = await program;
  process.chdir(cwd);
  const environment = { ...process.env };
  const [stdout, stderr] = [capture(process.stdout), capture(process.stderr)];
  const before = process.getActiveResourcesInfo(); // With the pipes that `capture` has opened.
  const code = await osiris(args);
  const left = await leftOpen(before);
  restore(environment);
  const ended: Ended = { code, stdout: stdout(), stderr: stderr() };
  process.exitCode = 0;
  const answered: Answered = { ended, left };
  process.send?.(answered);
});
process.on("disconnect", () => process.exit(0));
