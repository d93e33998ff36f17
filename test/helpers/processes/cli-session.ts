// Runs of the command line in one child process, one after another, so that a run does not pay for
// the start of Node. The code is that of `osiris`; behaviour at process end (signals, exits) is
// tested with `startCli`.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Answered, Asked, Ended } from "./cli-session-program.ts";

const program = fileURLToPath(new URL("./cli-session-program.js", import.meta.url));

/** A child process that runs `osiris` repeatedly. Close it. */
export class CliSession {
  readonly #child: ChildProcess;
  /** Resolves when all runs so far have ended. */
  #over: Promise<unknown> = Promise.resolve();

  constructor() {
    this.#child = fork(program, {
      stdio: ["ignore", "ignore", "inherit", "ipc"], // No terminal.
      // This machine is measured only if a test requests it.
      env: { ...process.env, OSIRIS_CONSTANTS: "v100", OSIRIS_CALIBRATION: "brief" },
    });
  }

  /** Runs `osiris` to its end, in a directory, after the runs requested before. */
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

  /** Ends the child process. */
  async close(): Promise<void> {
    const exit = once(this.#child, "exit");
    this.#child.disconnect();
    await exit;
  }
}
