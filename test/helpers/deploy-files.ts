// Helpers for tests of deployment files: read the files, and check the commands that they run.

import { readFileSync } from "node:fs";
import type { ExecutionContext } from "ava";
import { parseAllDocuments } from "yaml";
import { runCli } from "./processes/cli.ts";

export function documentsOf<Document>(path: string): Document[] {
  return parseAllDocuments(readFileSync(path, "utf8"), { merge: true }).map((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    return document.toJS() as Document;
  });
}

/** Options whose values are numbers. */
const numeric = new Set(["--devices", "--min-devices", "--port", "--grace", "--health-port"]);

/** Checks that the command is one of osiris's, called with options that it has, and reads `env`. */
export async function checkCommand(
  t: ExecutionContext,
  args: readonly string[],
  env: readonly string[] = [],
): Promise<void> {
  const [command = "", ...rest] = args;
  const { code, stdout } = await runCli([command, "--help"], ".");
  const help = stdout.replace(/\s+/g, " ");
  for (const name of env) t.true(help.includes(`env: ${name}`), `osiris ${command}: ${name}`);
  for (const [at, option] of rest.entries()) {
    const value = rest[at + 1] ?? "";
    if (numeric.has(option)) t.regex(value, /^(\d+|\$\{\w+\})$/, `osiris ${command} ${option}`);
    // The word between two options is the value of the first.
    if (!option.startsWith("--")) t.true(rest[at - 1]?.startsWith("--"), option);
  }
  t.is(code, 0, command);
  const options = new Set([...stdout.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, option]) => option));
  for (const option of rest.filter((one) => one.startsWith("--"))) {
    t.true(options.has(option), `osiris ${command} ${option}`);
  }
}
