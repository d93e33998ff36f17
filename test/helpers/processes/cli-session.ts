// Many runs of the command line in one child process, one after another: a run costs no start of
// Node. The code is that of `osiris`; what ends with the process (signals, exits) is for
// `startCli`.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Answered, Asked, Ended } from "./cli-session-program.ts";

const program = fileURLToPath(new URL("./cli-session-program.js", import.meta.url));

/** A child process that runs `osiris` again and again. Close it. */
export class CliSession {
  readonly #child: ChildProcess;
  /** Resolves when all runs so far are over. */
  #over: Promise<unknown> = Promise.resolve();

  constructor() {
    this.#child = fork(program, {
      stdio: ["ignore", "ignore", "inherit", "ipc"], // Nothing here is a terminal.
      // This machine is measured only where a test asks for it.
      env: { ...process.env, OSIRIS_CONSTANTS: "v100", OSIRIS_CALIBRATION: "brief" },
    });
  }

  /** Runs `osiris` to its end, in a directory, after the runs that were asked for before. */
  run(args: readonly string[], cwd: string): Promise<Ended> {
    const ended = this.#over.then(() => this.#ask({ args, cwd }));
    this.#over = ended.catch(() => {});
    return ended;
  }

  async #ask(asked: Asked): Promise<Ended> {
    const command = `osiris ${asked.args.join(" ")}`;
    const abort = new AbortController();
    const { signal } = abort;
    const died = once(this.#child, "exit", { signal }).then(([code]) => {
      throw new Error(`${command} ended the process with ${code}`);
    });
    died.catch(() => {}); // The race below may be over.
    this.#child.send(asked);
    const answers = once(this.#child, "message", { signal });
    answers.catch(() => {});
    const [{ ended, left }] = (await Promise.race([answers, died])) as [Answered];
    abort.abort();
    if (left.length > 0) throw new Error(`${command} left open: ${left.join(", ")}`);
    return ended;
  }

  /** Ends the process. */
  async close(): Promise<void> {
    const exit = once(this.#child, "exit");
    this.#child.disconnect();
    await exit;
  }
}
