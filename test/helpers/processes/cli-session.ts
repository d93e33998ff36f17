// Many runs of the command line in one child process, one after another: a run costs no start of
// Node. The code is that of `osiris`; what ends with the process (signals, exits) is for `runCli`.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Ended } from "./cli.ts";
import type { Asked } from "./cli-session-program.ts";

const program = fileURLToPath(new URL("./cli-session-program.js", import.meta.url));

/** A child process that runs `osiris` again and again. Close it. */
export class CliSession {
  readonly #child: ChildProcess;

  constructor() {
    this.#child = fork(program, {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      env: { ...process.env, OSIRIS_CONSTANTS: "v100" }, // No measurement of this machine.
    });
  }

  /** Runs `osiris` to its end, in a directory. One at a time. */
  async run(args: readonly string[], cwd: string): Promise<Ended> {
    const asked: Asked = { args, cwd };
    const abort = new AbortController();
    const { signal } = abort;
    const died = once(this.#child, "exit", { signal }).then(([code]) => {
      throw new Error(`osiris ${args.join(" ")} ended the process with ${code}`);
    });
    died.catch(() => {}); // The race below may be over.
    this.#child.send(asked);
    const answered = once(this.#child, "message", { signal });
    answered.catch(() => {});
    const [ended] = (await Promise.race([answered, died])) as [Ended];
    abort.abort();
    return ended;
  }

  /** Ends the process. */
  async close(): Promise<void> {
    const exit = once(this.#child, "exit");
    this.#child.disconnect();
    await exit;
  }
}
