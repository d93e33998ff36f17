// Options that several commands take, and how their values are read.

import { type Command, InvalidArgumentError } from "commander";

/** What every command takes. */
export interface CommonOptions {
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** Where a running cluster is. */
export interface ConnectionArguments {
  readonly nats: string;
  readonly token?: string;
  readonly cluster: string;
}

/** Where `osiris up` listens unless told otherwise. */
export const usualPort = 4222;

/** Adds `--json` and `--verbose`, and ends the help with examples. */
export function withCommon(command: Command, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  $ osiris ${example}`);
  return command
    .option("--json", "print JSON, one object a line, for machines")
    .option("--verbose", "print the stack of an error")
    .addHelpText("after", `\nExamples:\n${lines.join("\n")}\n${exitCodeHelp}`);
}

/** The last lines of every help. */
export const exitCodeHelp =
  "\nExit codes: 0 done, 1 failed, 2 wrong options or files, 130 cancelled (Ctrl-C).";

/** Adds the options that name a running cluster. */
export function withConnection(command: Command): Command {
  return command
    .option("--nats <URL>", "address of its broker", `nats://127.0.0.1:${usualPort}`)
    .option("--token <TOKEN>", "token that `osiris up` has printed")
    .option("--cluster <NAME>", "name of the cluster", "c1");
}

/** The connection that those options ask for. */
export function connectionOf({ nats, token, cluster }: ConnectionArguments) {
  return { nats, cluster, ...(token === undefined ? {} : { token }) };
}

/** Reads an integer of at least `least`. */
export function integerFrom(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== "" && Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`Expected an integer >= ${least}.`);
  };
}

/** Reads a number of at least 0. */
export function numberFrom0(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError("Expected a number >= 0.");
}

/** Collects an option that may be given several times. */
export function collected(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

const byteUnits: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

/** Reads bytes: `16000000000`, `16GB`, `14.9GiB`. */
export function bytesFrom(text: string): number {
  const [, digits = "", unit = ""] = /^([\d.]+)\s*([a-z]*)$/i.exec(text.trim()) ?? [];
  const value = Math.round(Number(digits) * (byteUnits[unit.toLowerCase()] ?? Number.NaN));
  if (digits !== "" && Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError("Expected bytes > 0, as in 16000000000, 16GB or 16GiB.");
}
