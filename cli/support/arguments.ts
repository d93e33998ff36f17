// Options that several commands take, and how their values are read.

import { type Command, InvalidArgumentError, Option } from "commander";
import { allowModels, type Model } from "../../internal.ts";
import { tokenFor } from "./token-file.ts";

/** What every command takes. */
export interface CommonOptions {
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** Who we are to a broker. */
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

/** Where a running cluster is. */
export interface ConnectionArguments extends CredentialArguments {
  readonly nats: string;
  readonly cluster: string;
  readonly tenant?: string;
}

/** Where `osiris up` listens unless told otherwise. */
export const usualPort = 4222;
const usualNats = `nats://127.0.0.1:${usualPort}`;
/** The name of a cluster unless it has another one. */
const usualCluster = "c1";

/**
 * Adds `--json` and `--verbose`, and ends the help with examples. `verbose`: what it prints, where
 * that is more than usual.
 */
export function withCommon(
  command: Command,
  examples: readonly string[],
  { verbose = "print the stack of an error" } = {},
): Command {
  const lines = examples.map((example) => `  $ osiris ${example}`);
  return command
    .option("--json", "print JSON, one object a line, for machines")
    .option("--verbose", verbose)
    .addHelpText("after", `\nExamples:\n${lines.join("\n")}\n${exitCodeHelp}`);
}

/** Adds `--model-root`: modules that the jobs of checkpoints may name, and that then run here. */
export function withModelRoots(command: Command): Command {
  const about = "let a checkpoint run its model's module, which lies here; may be repeated";
  return command.option("--model-root <PATH>", about, collected).hook("preAction", (_, action) => {
    const { modelRoot = [] } = action.opts<{ readonly modelRoot?: readonly string[] }>();
    allowModels(modelRoot);
  });
}

/** Which kernels compute predictions. */
export type ArithmeticChoice = "same" | "auto" | "native" | "reference";

/** Adds `--arithmetic`. */
export function withArithmetic(command: Command): Command {
  return command.addOption(
    new Option(
      "--arithmetic <WHICH>",
      "kernels that compute: the same as in training, whose bits predictions then have; or auto, the " +
        "fastest here; native; reference (default: same)",
    ).choices(["same", "auto", "native", "reference"]),
  );
}

/** Says that last bits may differ, where predictions are computed with another arithmetic. */
export function noteArithmetic({ arithmetic, trainedArithmetic }: Model): void {
  if (arithmetic === trainedArithmetic) return;
  const message = `Trained with ${trainedArithmetic} and computed with ${arithmetic}`;
  console.error(`${message}: the last bits of predictions may differ from the training's.`);
}

/** The last lines of every help. */
export const exitCodeHelp =
  "\nExit codes: 0 done, 1 failed, 2 wrong options or files, 130 cancelled (Ctrl-C).";

/** Other values than the job's. */
export interface ChangeArguments {
  readonly set?: readonly string[];
  readonly seed?: number;
}

/** Adds the options that give a job other values than its file. */
export function withChanges(command: Command): Command {
  return command
    .option(
      "--set <OPTION=VALUE>",
      "another value of an option, as data.batchSize=512; may be repeated",
      collected,
    )
    .option("--seed <N>", "another seed", integerFrom(0));
}

/** Adds the options that name a running cluster. */
export function withConnection(command: Command): Command {
  const address = new Option("--nats <URL>", "address of its broker")
    .default(usualNats)
    .env("OSIRIS_NATS");
  return withCredentials(command.addOption(address))
    .addOption(
      new Option("--token <TOKEN>", "its token; on the machine of `osiris up`, found").env(
        "OSIRIS_TOKEN",
      ),
    )
    .option("--cluster <NAME>", "name of the cluster", usualCluster);
}

/** Adds the options of who asks the job service of a running cluster. */
export function withClient(command: Command): Command {
  const tenant = new Option("--tenant <NAME>", "as whom to ask, where the cluster has tenants");
  return withConnection(command).addOption(tenant.env("OSIRIS_TENANT"));
}

/**
 * Adds the ways besides a token to say who we are. What other users of the machine must not see in
 * the list of processes may stand in the environment.
 */
export function withCredentials(command: Command): Command {
  const options: readonly [flags: string, description: string, env?: string][] = [
    ["--user <USER>", "user of a nats-server", "OSIRIS_USER"],
    ["--pass <PASSWORD>", "and the password", "OSIRIS_PASS"],
    ["--nkey <FILE>", "file with an nkey's seed", "OSIRIS_NKEY"],
    ["--creds <FILE>", "credentials file, as `nsc` writes it", "OSIRIS_CREDS"],
    ["--tls", "encrypt the connection, as an address of tls:// does"],
    ["--tls-ca <FILE>", "PEM file: whom we trust to have signed the broker's certificate"],
    ["--tls-cert <FILE>", "PEM file: our own certificate (mutual TLS)"],
    ["--tls-key <FILE>", "PEM file: and its key"],
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

/** The connection that the options ask for; on this machine the token may be left out. */
export function connectionOf(given: ConnectionArguments) {
  const { nats, cluster, tenant } = given;
  const asWhom = tenant === undefined ? {} : { tenant };
  return { nats, cluster, ...asWhom, ...credentialsFor(nats, given) };
}

/** What a printed command has to say of the connection: what is no default of this shell. */
export function connectionFlags({ nats, cluster, tenant }: ConnectionArguments): string {
  const { OSIRIS_NATS, OSIRIS_TENANT } = process.env;
  const flags = [
    nats === (OSIRIS_NATS ?? usualNats) ? "" : ` --nats ${nats}`,
    cluster === usualCluster ? "" : ` --cluster ${cluster}`,
    tenant === undefined || tenant === OSIRIS_TENANT ? "" : ` --tenant ${tenant}`,
  ];
  return flags.join("");
}

/** The credentials for a broker: of one on this machine, the token that `osiris up` has left. */
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

const timeUnits: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** Reads a time, in seconds: `90s`, `30m`, `12h`, `30d`, `2w`. */
export function secondsFrom(text: string): number {
  const [, digits = "", unit = ""] = /^([\d.]+)\s*([smhdw])$/i.exec(text.trim()) ?? [];
  const value = Number(digits) * (timeUnits[unit.toLowerCase()] ?? Number.NaN);
  if (digits !== "" && Number.isFinite(value)) return value;
  throw new InvalidArgumentError("Expected a time, as in 30m, 12h, 30d or 2w.");
}
