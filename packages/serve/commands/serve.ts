// osiris serve MODEL: serves predictions of trained models over HTTP and NATS, until Ctrl-C.

import { readFileSync, statSync } from "node:fs";
import { basename, extname, resolve } from "node:path";
import { type Command, Option } from "commander";
import {
  type ArithmeticChoice,
  bytesFrom,
  type CommonOptions,
  type CredentialArguments,
  credentialsOf,
  integerFrom,
  numberFrom0,
  portFrom0,
  withArithmetic,
  withCommon,
  withModelRoots,
} from "../../../cli/support/arguments.ts";
import { interruption } from "../../../cli/support/interrupt.ts";
import {
  collectAlone,
  InputUnusableError,
  InvalidOptionError,
  type Log,
  openProcessLog,
  type RecordColumn,
} from "../../../internal.ts";
import { type ModelServer, type ServerOptions, serve, serverJsonSchema } from "../index.ts";

interface ServeArguments extends CommonOptions, CredentialArguments {
  readonly port?: number;
  readonly host?: string;
  readonly manifest?: string;
  readonly watch: boolean;
  readonly keep?: number;
  readonly memory?: number;
  readonly tierDirectory?: string;
  readonly calibration?: "stored" | "required" | "none";
  readonly arithmetic?: ArithmeticChoice;
  readonly batch?: number;
  readonly latencyBudget?: number;
  readonly deadline?: number;
  readonly queue?: number;
  readonly maxRequest?: number;
  readonly drain?: number;
  readonly tokenFile?: string;
  readonly insecure?: true;
  readonly nats?: string;
  readonly natsCreds?: string;
  readonly natsToken?: string;
  readonly schema?: true;
}

export function addServe(program: Command): void {
  const command = program
    .command("serve")
    .argument(
      "[models...]",
      "checkpoint directories, each also as NAME=DIRECTORY; or one file of options",
    )
    .description("serve predictions of trained models over HTTP and NATS, until Ctrl-C")
    .option("--port <P>", "port to serve on; 0: any (default: 8080)", portFrom0)
    .option("--host <ADDRESS>", "address to serve on (default: 127.0.0.1)")
    .option("--manifest <HASH>", "use this checkpoint: its manifest's hash, `best` or `last`")
    .option("--no-watch", "do not load newer checkpoints of the directory")
    .option(
      "--keep <N>",
      "newest versions of a model that stay loaded (default: 2)",
      integerFrom(1, 16),
    )
    .option(
      "--memory <SIZE>",
      "memory for table rows of each version; the other rows are on disk",
      bytesFrom,
    )
    .option("--tier-directory <DIRECTORY>", "directory of rows on disk (default: a temporary one)")
    .addOption(
      new Option(
        "--calibration <WHICH>",
        "calibrate as stored with each model, refuse models without one, or none (default: stored)",
      ).choices(["stored", "required", "none"]),
    )
    .option("--batch <N>", "most samples in a batch (default: 256)", integerFrom(1, 65_536))
    .option(
      "--latency-budget <MS>",
      "longest time to score a batch, in milliseconds (default: 5)",
      numberFrom0,
    )
    .option(
      "--deadline <MS>",
      "longest wait of a request, in milliseconds (default: 1000)",
      numberFrom0,
    )
    .option(
      "--queue <N>",
      "most samples that wait for a model; more are refused (default: 16384)",
      integerFrom(1),
    )
    .option("--max-request <BYTES>", "largest request (default: 16MiB)", bytesFrom)
    .option(
      "--drain <MS>",
      "after Ctrl-C: longest wait for open requests, in milliseconds (default: 10000)",
      integerFrom(0),
    )
    .option("--token-file <FILE>", "file of tokens, one a line; each request must send one of them")
    .option("--insecure", "answer requests of other machines without a token")
    .option("--tls-cert <FILE>", "PEM file: the server's certificate, for HTTPS")
    .option("--tls-key <FILE>", "PEM file: the key of that certificate")
    .option("--nats <URL>", "also answer requests from this NATS broker")
    .option("--nats-token <TOKEN>", "token of that broker")
    .option("--nats-creds <FILE>", "credentials file of that broker, as `nsc` writes it")
    .option("--schema", "print the JSON Schema of a file of options, and exit");
  withCommon(withArithmetic(withModelRoots(command)), [
    "serve checkpoints",
    "serve ctr=runs/ctr/checkpoints cvr=runs/cvr/checkpoints --port 9000",
    "serve checkpoints --memory 8GiB --tier-directory /mnt/nvme",
    "serve serving.yaml --token-file tokens --host 0.0.0.0",
  ]).action(run);
}

async function run(models: readonly string[], args: ServeArguments): Promise<void> {
  if (args.schema === true) {
    console.log(JSON.stringify(serverJsonSchema(), undefined, 2));
    return;
  }
  collectAlone();
  const interrupted = interruption();
  const options = await optionsOf(models, args);
  const json = args.json === true;
  const log = json
    ? await openProcessLog({ level: "info", write: (line) => console.log(line) }, options.tokens)
    : terminalLog;
  await using server = await serve(options, { log });
  printServing(server, options, json);
  await interrupted;
  if (!json) console.log("Answering accepted requests, then stopping ...");
}

/** Log for a terminal: writes readable lines of level `info` and above to stderr. */
const terminalLog: Log = {
  write(level, message, { model, digest, step, error } = {}) {
    if (level === "debug" || level === "trace") return;
    const about = model === undefined ? "" : `${model}: `;
    const version = digest === undefined ? "" : `, ${digest} (step ${step})`;
    const why = error === undefined ? "" : `: ${error}`;
    console.error(`${about}${message}${version}${why}`);
  },
  keep() {},
};

/** Prints the address, the versions, and a request that works. */
function printServing(server: ModelServer, options: ServerOptions, json: boolean): void {
  const { url, versions } = server;
  if (json) {
    console.log(JSON.stringify({ report: "serve", url, models: versions }));
    return;
  }
  for (const [name, version] of Object.entries(versions)) {
    const how = version?.calibrated ? ", calibrated" : "";
    console.log(`${name.padEnd(20)} ${version?.digest} (step ${version?.step})${how}`);
  }
  console.log(`Serving ${url}; Ctrl-C ends it.`);
  const [first] = Object.keys(versions);
  if (first !== undefined) console.log(curlLine(url, first, server.columns(first), options));
}

/** A `curl` command with a valid request, to paste into a shell. */
function curlLine(
  url: string,
  model: string,
  columns: readonly RecordColumn[],
  { tokens = [] }: ServerOptions,
): string {
  const shown = columns.slice(0, 3).map(({ name }) => [name, 1] as const);
  const body = JSON.stringify({ instances: [Object.fromEntries(shown)] }).replaceAll("'", "'\\''");
  const token = tokens.length === 0 ? "" : ' -H "Authorization: Bearer $TOKEN"';
  const check = url.startsWith("https:") ? " -k" : "";
  return `  curl -s${check}${token} ${url}/v1/models/${model}:predict -d '${body}'`;
}

async function optionsOf(models: readonly string[], args: ServeArguments): Promise<ServerOptions> {
  const { tlsCert, tlsKey, tokenFile, nats, natsToken, natsCreds } = args;
  const file = models.length === 1 ? configIn(models[0] ?? "") : undefined;
  if (file !== undefined) refuseOfModels(file, args);
  const config = file === undefined ? undefined : await readConfig(file);
  const given = {
    port: args.port,
    host: args.host,
    batch: args.batch,
    latencyBudgetMs: args.latencyBudget,
    deadlineMs: args.deadline,
    queueSamples: args.queue,
    requestBytes: args.maxRequest,
    drainMs: args.drain,
    insecure: args.insecure,
    tokens: tokenFile === undefined ? undefined : tokensIn(tokenFile),
    tls: tlsOf(tlsCert, tlsKey),
    nats:
      nats === undefined
        ? undefined
        : {
            url: nats,
            ...credentialsOf({ token: natsToken, ...(natsCreds ? { creds: natsCreds } : {}) }),
          },
  };
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  const base = config ?? { models: namedModels(models, args) };
  return { ...base, ...Object.fromEntries(set) } as ServerOptions;
}

/** The options of each model on the command line, by their names in a file of options. */
function modelOptionsOf(args: ServeArguments) {
  const { manifest, watch, keep, memory, tierDirectory, calibration, arithmetic } = args;
  return { manifest, watch, keep, memoryBytes: memory, tierDirectory, calibration, arithmetic };
}

/** The flags of these options. */
const modelFlags = {
  ...{ manifest: "--manifest", watch: "--no-watch", keep: "--keep", memoryBytes: "--memory" },
  ...{ tierDirectory: "--tier-directory", calibration: "--calibration" },
  arithmetic: "--arithmetic",
} as const;

/**
 * Refuses options of single models beside a file of options, which sets them for each model.
 * @throws InvalidOptionError
 */
function refuseOfModels(file: string, args: ServeArguments): void {
  const options = { ...modelOptionsOf(args), watch: args.watch ? undefined : false };
  const [name, value] = Object.entries(options).find(([, given]) => given !== undefined) ?? [];
  if (name === undefined) return;
  const flag = modelFlags[name as keyof typeof options];
  const shown = value === false ? `${name}: false` : name;
  const message = `Expected no \`${flag}\` beside ${file}: set \`${shown}\` of a model there`;
  throw new InvalidOptionError(flag, message);
}

function tlsOf(cert: string | undefined, key: string | undefined) {
  if (cert === undefined && key === undefined) return undefined;
  if (cert !== undefined && key !== undefined) return { cert, key };
  const message = "Expected `--tls-cert` and `--tls-key` together, got one of them";
  throw new InvalidOptionError("--tls-cert", message);
}

/** The models of the command line, by name. @throws InvalidOptionError */
function namedModels(models: readonly string[], args: ServeArguments): ServerOptions["models"] {
  if (models.length === 0) {
    const message = "Expected a model to serve: a checkpoint directory, or NAME=DIRECTORY";
    throw new InvalidOptionError("models", message);
  }
  const named = models.map((given) => {
    const [, name = nameOf(given), path = given] = /^([^=/]+)=(.+)$/.exec(given) ?? [];
    return [name, { path, ...modelOptionsOf(args) }] as const;
  });
  for (const [name] of named) {
    if (named.filter(([other]) => other === name).length === 1) continue;
    const message = `Expected models of different names, got two of \`${name}\`: name one by NAME=DIRECTORY`;
    throw new InvalidOptionError("models", message);
  }
  return Object.fromEntries(named);
}

/** Name of a model: the base name of its directory, in characters that a URL may have. */
function nameOf(path: string): string {
  const name = basename(resolve(path)).replace(/[^A-Za-z0-9_-]/g, "-");
  return name.replace(/^[^A-Za-z0-9]+/, "").slice(0, 64) || "model";
}

/** `path` where it is a file of options (.yaml, .yml or .json), else undefined. */
function configIn(path: string): string | undefined {
  const isConfig = [".yaml", ".yml", ".json"].includes(extname(path));
  return isConfig && statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true
    ? path
    : undefined;
}

async function readConfig(path: string): Promise<ServerOptions> {
  try {
    const text = readFileSync(path, "utf8");
    if (extname(path) === ".json") return JSON.parse(text) as ServerOptions;
    const { parse } = await import("yaml");
    return parse(text) as ServerOptions;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split("\n")[0] : String(cause);
    throw new InputUnusableError(path, `Cannot read the options ${path}: ${reason}`, { cause });
  }
}

/** The tokens of a file, one a line. @throws InputUnusableError */
function tokensIn(path: string): string[] {
  try {
    const tokens = readFileSync(path, "utf8")
      .split("\n")
      .map((line) => line.trim());
    const some = tokens.filter((token) => token !== "");
    if (some.length > 0) return some;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read the tokens: ${reason}`, { cause });
  }
  throw new InputUnusableError(path, `Expected ${path} to have one token a line, got none`);
}
