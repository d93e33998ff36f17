// The program of a CLI session (cli-session.ts): runs `osiris` for each message of its parent.

import { osiris } from "../../../cli/osiris.ts";
import type { Ended } from "./cli.ts";

/** What the parent asks: one run of `osiris`. */
export interface Asked {
  readonly args: readonly string[];
  readonly cwd: string;
}

/** Collects what is written to a stream instead of writing it, until the returned call. */
function capture(stream: NodeJS.WriteStream): () => string {
  const write = stream.write;
  let text = "";
  stream.write = ((chunk: string | Uint8Array) => {
    text += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
    return true;
  }) as typeof write;
  return () => {
    stream.write = write;
    return text;
  };
}

process.on("message", async ({ args, cwd }: Asked) => {
  process.chdir(cwd);
  const [stdout, stderr] = [capture(process.stdout), capture(process.stderr)];
  const code = await osiris(args);
  const ended: Ended = { code, stdout: stdout(), stderr: stderr() };
  process.exitCode = 0;
  process.send?.(ended);
});
process.on("disconnect", () => process.exit(0));
