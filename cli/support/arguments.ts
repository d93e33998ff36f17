// Options that several commands share, and the parsers of option values.

import { type Command, InvalidArgumentError, Option } from "commander";
import { allowModels, type Model } from "../../internal.ts";
import { quantityExpected, quantityIn } from "../../src/ports/quantities.ts";
import { tokenFor } from "./token-file.ts";

/** Options of every command. */
export interface CommonOptions {
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** Credentials of a client of a broker. */
export interface CredentialArguments {
  readonly token?: string | undefined;
  readonly user?: string;
  readonly pass?: string;
  readonly nkey?: string;
  readonly creds?: string;
  readonly tls?: true;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

/** Address of a running cluster, with the credentials for its broker. */
export interface ConnectionArguments extends CredentialArguments {
  readonly nats: string;
  readonly cluster: string;
  readonly tenant?: string;
}

/** Default port of the broker of `osiris up`. */
export const usualPort = 4222;
const usualNats = `nats://127.0.0.1:${usualPort}`;
/** Default name of a cluster. */
const usualCluster = "c1";

/**
 * Adds `--json` and `--verbose`, and ends the help with examples. `verbose` describes `--verbose`
 * where it prints more than usual.
 */
export function withCommon(
  command: Command,
  examples: readonly string[],
  { verbose = "print the stack of an error" } = {},
): Command {
  const lines = examples.map((example) => `  $ osiris ${example}`);
  return command
    .option("--json", "print JSON for programs, one object a line")
    .option("--verbose", verbose)
    .addHelpText("after", `\nExamples:\n${lines.join("\n")}\n${exitCodeHelp}`);
}

/**
 * Adds `--model-root`: modules that jobs of checkpoints may name as models, and that then run here.
 */
export function withModelRoots(command: Command): Command {
  const about = "allow custom models whose module is in this directory; may be repeated";
  return command.option("--model-root <PATH>", about, collected).hook("preAction", (_, action) => {
    const { modelRoot = [] } = action.opts<{ readonly modelRoot?: readonly string[] }>();
    allowModels(modelRoot);
  });
}

/** Choice of the kernels that compute predictions. */
export type ArithmeticChoice = "same" | "auto" | "native" | "reference";

/** Adds `--arithmetic`, the choice of the kernels that compute predictions. */
export function withArithmetic(command: Command): Command {
  return command.addOption(
    new Option(
      "--arithmetic <WHICH>",
      "kernels that compute: `same` as in training, for the same bits; `auto`, the fastest on " +
        "this machine; `native`; `reference` (default: same)",
    ).choices(["same", "auto", "native", "reference"]),
  );
}

/** Notes on stderr that last bits may differ, where the arithmetic is not that of the training. */
export function noteArithmetic({ arithmetic, trainedArithmetic }: Model): void {
  if (arithmetic === trainedArithmetic) return;
  const message = `Trained with ${trainedArithmetic} and computed with ${arithmetic}`;
  console.error(`${message}: the last bits of predictions may differ from the training's.`);
}

/** The last lines of every help. */
export const exitCodeHelp =
  "\nExit codes: 0 done, 1 failed, 2 wrong options or files, 130 cancelled (Ctrl-C).";

/** Options that override values of a job. */
export interface ChangeArguments {
  readonly set?: readonly string[];
  readonly seed?: number;
}

/** Adds `--set` and `--seed`, which override values of a job file. */
export function withChanges(command: Command): Command {
  return command
    .option(
      "--set <OPTION=VALUE>",
      "override an option of the job, such as data.batchSize=512; may be repeated",
      collected,
    )
    .option("--seed <N>", "override the seed of the job", integerFrom(0));
}

/** Adds the options of a connection to a running cluster: address, credentials and name. */
export function withConnection(command: Command): Command {
  const address = new Option("--nats <URL>", "address of the cluster's broker")
    .default(usualNats)
    .env("OSIRIS_NATS");
  return withCredentials(command.addOption(address))
    .addOption(
      new Option("--token <TOKEN>", "broker's token (default: that of a local `osiris up`)").env(
        "OSIRIS_TOKEN",
      ),
    )
    .option("--cluster <NAME>", "name of the cluster", usualCluster);
}

/** Adds the options of a client of a running cluster's job service: connection and tenant. */
export function withClient(command: Command): Command {
  const tenant = new Option("--tenant <NAME>", "tenant to act as, if the cluster has tenants");
  return withConnection(command).addOption(tenant.env("OSIRIS_TENANT"));
}

/**
 * Adds the credentials besides a token. Secrets may come from the environment, as other users of
 * the machine can read arguments in the list of processes.
 */
export function withCredentials(command: Command): Command {
  const options: readonly [flags: string, description: string, env?: string][] = [
    ["--user <USER>", "user name at a nats-server", "OSIRIS_USER"],
    ["--pass <PASSWORD>", "password of that user", "OSIRIS_PASS"],
    ["--nkey <FILE>", "file with the seed of an nkey", "OSIRIS_NKEY"],
    ["--creds <FILE>", "credentials file, as `nsc` writes it", "OSIRIS_CREDS"],
    ["--tls", "encrypt the connection, as an address with tls:// does"],
    ["--tls-ca <FILE>", "PEM file: the CA that must have signed the broker's certificate"],
    ["--tls-cert <FILE>", "PEM file: the client's certificate (mutual TLS)"],
    ["--tls-key <FILE>", "PEM file: the key of that certificate"],
  ];
  for (const [flags, description, env] of options) {
    const option = new Option(flags, description);
    command.addOption(env === undefined ? option : option.env(env));
  }
  return command;
}

/** The credentials in the options of a connection. */
export function credentialsOf(given: CredentialArguments) {
  const { token, user, pass, nkey, creds, tls, tlsCa: ca, tlsCert: cert, tlsKey: key } = given;
  const isEncrypted = [tls, ca, cert, key].some((one) => one !== undefined);
  return { token, user, pass, nkey, creds, ...(isEncrypted ? { tls: { ca, cert, key } } : {}) };
}

/** The connection that the options describe; a broker on this machine needs no token option. */
export function connectionOf(given: ConnectionArguments) {
  const { nats, cluster, tenant } = given;
  const asWhom = tenant === undefined ? {} : { tenant };
  return { nats, cluster, ...asWhom, ...credentialsFor(nats, given) };
}

/** Connection flags of a command to be printed, without flags that equal this shell's defaults. */
export function connectionFlags({ nats, cluster, tenant }: ConnectionArguments): string {
  const { OSIRIS_NATS, OSIRIS_TENANT } = process.env;
  const flags = [
    nats === (OSIRIS_NATS ?? usualNats) ? "" : ` --nats ${nats}`,
    cluster === usualCluster ? "" : ` --cluster ${cluster}`,
    tenant === undefined || tenant === OSIRIS_TENANT ? "" : ` --tenant ${tenant}`,
  ];
  return flags.join("");
}

/** The given credentials for a broker; without any, the token that a local `osiris up` keeps. */
export function credentialsFor(nats: string, given: CredentialArguments) {
  const { token, user, nkey, creds } = given;
  const isNamed = [token, user, nkey, creds].some((one) => one !== undefined);
  return credentialsOf(isNamed ? given : { ...given, token: tokenFor(nats) });
}

/** Reads an integer of at least `least`, and at most `most`. */
export function integerFrom(least: number, most = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const value = Number(text);
    const isInRange = value >= least && value <= most;
    if (text.trim() !== "" && Number.isSafeInteger(value) && isInRange) return value;
    const upTo = most === Number.MAX_SAFE_INTEGER ? "" : `, at most ${most}`;
    throw new InvalidArgumentError(`Expected an integer >= ${least}${upTo}.`);
  };
}

/** Reads a port to listen on; 0: any. */
export const portFrom0 = integerFrom(0, 65_535);

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

/** Reads bytes: `16000000000`, `16GB`, `14.9GiB`. */
export function bytesFrom(text: string): number {
  const value = Math.round(quantityIn(text, "bytes") ?? 0);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError(`Expected ${quantityExpected("bytes")}.`);
}

const timeUnits: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** Reads a time, in seconds: `90s`, `30m`, `12h`, `30d`, `2w`. */
export function secondsFrom(text: string): number {
  const [, digits = "", unit = ""] = /^([\d.]+)\s*([smhdw])$/i.exec(text.trim()) ?? [];
  const value = Number(digits) * (timeUnits[unit.toLowerCase()] ?? Number.NaN);
  if (digits !== "" && Number.isFinite(value)) return value;
  throw new InvalidArgumentError("Expected a time, as in 30m, 12h, 30d or 2w.");
}
