// Commands of the built command line that run to their end, all of a test file in one process.
// Apart from start-cli.ts: a file that declares a hook of ava cannot be imported while a test runs.

import test, { type ExecutionContext } from "ava";
import { CliSession } from "./cli-session.ts";
import type { Ended } from "./cli-session-program.ts";

let session: CliSession | undefined;
test.after.always("the session of the command line ends", () => session?.close());

/**
 * Runs `osiris` to its end, in the session of this test file. Use `startCli` to test the process
 * itself, its exit code or a signal.
 */
export function runCli(args: readonly string[], cwd: string): Promise<Ended> {
  session ??= new CliSession();
  return session.run(args, cwd);
}

/** Runs `osiris` as `runCli` does, and asserts that it succeeds. */
export async function runOk(
  t: ExecutionContext,
  args: readonly string[],
  cwd: string,
): Promise<Ended> {
  const ended = await runCli(args, cwd);
  t.is(ended.code, 0, `${args.join(" ")}: ${ended.stderr}`);
  return ended;
}
