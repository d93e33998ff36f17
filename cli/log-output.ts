// The log of a command: lines of JSON on stderr for whoever collects them, readable ones on a
// terminal.

import { type Command, Option } from "commander";
import { type LogOptions, logOptionLevels } from "../index.ts";

export interface LogArguments {
  readonly logLevel?: LogOptions["level"];
}

/** Adds `--log-level`. */
export function withLog(command: Command): Command {
  const what = "lines on stderr, from this level on: JSON, readable on a terminal";
  const option = new Option("--log-level <LEVEL>", what);
  return command.addOption(option.choices(logOptionLevels).env("OSIRIS_LOG"));
}

/** The log that those options ask for; `usual` where they do not say. */
export function logOf({ logLevel }: LogArguments, usual: LogOptions["level"]): LogOptions {
  const { stderr } = process;
  const write = (line: string) => stderr.write(`${stderr.isTTY ? readable(line) : line}\n`);
  return { level: logLevel ?? usual, write: (line) => void write(line) };
}

/** What stands first, and what only machines need. */
const placed = new Set(["time", "level", "message", "run", "generation", "step", "actor"]);
const forMachines = new Set(["machine", "pid", "event"]);

/** A line of JSON as people read it: `12:04:31.120 warn r1 g2 s40 device:1 what happened k=v`. */
export function readable(line: string): string {
  const fields = JSON.parse(line) as Record<string, unknown>;
  const { time, level, message, run, generation, step, actor } = fields;
  const details = Object.entries(fields).flatMap(([name, value]) => {
    if (placed.has(name) || forMachines.has(name)) return [];
    return [`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`];
  });
  const head = [
    String(time).slice("2026-01-01T".length, -1),
    String(level).padEnd(5),
    run,
    generation === undefined ? undefined : `g${generation}`,
    step === undefined ? undefined : `s${step}`,
    actor,
    message,
  ];
  return [...head, ...details].filter((one) => one !== undefined).join(" ");
}
