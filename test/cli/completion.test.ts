// Shell completion has every command and option, and bash completes them.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import test from "ava";
import { runCli, runOk } from "../helpers/processes/cli.ts";

/** Commands and long options of a command's help. */
function wordsOfHelp(help: string): { commands: string[]; options: string[] } {
  const commands = [...(help.split("\nCommands:\n")[1] ?? "").matchAll(/^ {2}(\w[\w-]*)/gm)];
  const options = [...help.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)];
  const named = (found: RegExpMatchArray[]) => found.map(([, word = ""]) => word);
  return { commands: named(commands).filter((one) => one !== "help"), options: named(options) };
}

async function helpOf(...path: string[]): Promise<ReturnType<typeof wordsOfHelp>> {
  const { stdout } = await runCli([...path, "--help"], process.cwd());
  return wordsOfHelp(stdout);
}

/** The completions that one bash offers after each `osiris <typed>`. */
function allCompleted(script: string, typed: readonly (readonly string[])[]): string[][] {
  const asks = typed.map((one) => {
    const words = ["osiris", ...one].map((word) => `'${word}'`).join(" ");
    return `COMP_WORDS=(${words}); COMP_CWORD=${one.length}; _osiris; echo "\${COMPREPLY[*]}"`;
  });
  const program = [script, ...asks].join("\n");
  const offered = execFileSync("bash", { input: program, encoding: "utf8" });
  const lines = offered.split("\n").slice(0, typed.length);
  return lines.map((line) => line.trim().split(" "));
}

function completed(script: string, typed: readonly string[]): string[] {
  return allCompleted(script, [typed])[0] ?? [];
}

test.serial("bash completes every command and all its options", async (t) => {
  const { stdout: script } = await runOk(t, ["completion", "bash"], process.cwd());
  const { commands } = await helpOf();
  t.true(commands.length >= 18, `${commands}`);
  t.deepEqual(
    completed(script, [""]).filter((word) => !word.startsWith("-")),
    commands,
  );
  const deep = ["checkpoint", "submit", "nats-config"];
  for (const command of deep) {
    const help = await helpOf(command);
    t.deepEqual(new Set(completed(script, [command, "-"])), new Set(help.options), command);
    if (help.commands.length === 0) continue;
    const below = completed(script, [command, ""]).filter((word) => !word.startsWith("-"));
    t.deepEqual(below, help.commands);
    const [first = ""] = below;
    const inner = await helpOf(command, first);
    t.deepEqual(new Set(completed(script, [command, first, "--"])), new Set(inner.options));
  }
  t.deepEqual(completed(script, ["submit", "job.yaml", "--fol"]), ["--follow"]);
  const below = allCompleted(
    script,
    commands.map((command) => [command, ""]),
  );
  const leaves = commands.flatMap((command, i) => {
    const words = (below[i] ?? []).filter((word) => /^\w/.test(word));
    return words.length === 0 ? [[command]] : words.map((one) => [command, one]);
  });
  const offered = allCompleted(
    script,
    leaves.map((path) => [...path, "--js"]),
  );
  t.deepEqual(
    offered,
    leaves.map(() => ["--json"]),
  );
});

test.serial("the zsh and fish completions have the same commands", async (t) => {
  const { commands } = await helpOf();
  for (const shell of ["zsh", "fish"]) {
    const { stdout } = await runCli(["completion", shell], process.cwd());
    for (const word of [...commands, shell === "fish" ? "-l follow" : "--follow"]) {
      t.true(stdout.includes(word), `${shell}: ${word}`);
    }
  }
});

test("docs/cli.md lists every command, and the exit codes of the help", async (t) => {
  const path = new URL("../../../docs/cli.md", import.meta.url);
  const page = readFileSync(fileURLToPath(path), "utf8");
  const listed = [...page.matchAll(/^\| `osiris ([\w-]+)/gm)].map(([, name]) => name);
  const { commands } = await helpOf();
  t.deepEqual([...new Set(listed)].sort(), [...commands].sort());
  const { stdout } = await runCli(["--help"], process.cwd());
  const codes = [...stdout.matchAll(/(\d+) (done|failed|wrong|cancelled)/g)].map(
    ([, code]) => code,
  );
  const documented = [...page.matchAll(/^\| `(\d+)` \|/gm)].map(([, code]) => code);
  t.deepEqual(documented, codes);
});

test.serial("a command is loaded by its name: its help begins with that name", async (t) => {
  const { commands } = await helpOf();
  for (const command of commands) {
    const { stdout } = await runCli([command, "--help"], process.cwd());
    t.true(stdout.startsWith(`Usage: osiris ${command} `), `${command}: ${stdout}`);
  }
});
