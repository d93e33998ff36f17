// osiris nats-config: writes the configuration of a nats-server for a cluster and its tenants, and
// each user's secret to a file of its own.

import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { InputUnusableError, InvalidOptionError, type Tenants } from "../../../internal.ts";
import { natsConfig } from "../../../src/wire/tenancy/nats-config.ts";
import { loginOf, tenantsOf } from "../../../src/wire/tenancy/tenants.ts";
import { userKey } from "../../../src/wire/transports/credentials.ts";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";

interface NatsConfigArguments extends CommonOptions {
  readonly tenants?: string;
  readonly out: string;
  readonly cluster: string;
  readonly listen: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsCa?: string;
  readonly tlsVerify?: true;
  readonly jetstream?: string;
  readonly monitor?: string;
}

/** A user of the configuration, and the file with the user's secret. */
interface Secret {
  readonly user: string;
  readonly tenant?: string | undefined;
  readonly file: string;
}

export function addNatsConfig(program: Command): void {
  const command = program
    .command("nats-config")
    .description(
      "write the configuration of a nats-server for a cluster: users and their permissions",
    )
    .option("--tenants <FILE>", "tenants that share the cluster, as YAML or JSON (default: none)")
    .option("--out <DIR>", "directory of the configuration and of the users' secrets", "nats")
    .option("--cluster <NAME>", "name of the cluster", "c1")
    .option("--listen <HOST:PORT>", "address on which the server accepts clients", "127.0.0.1:4222")
    .option("--tls-cert <FILE>", "PEM file: the server's certificate; clients must then use TLS")
    .option("--tls-key <FILE>", "PEM file: the key of that certificate")
    .option("--tls-ca <FILE>", "PEM file: the CA of the clients' certificates")
    .option("--tls-verify", "accept only clients with a certificate (mutual TLS)")
    .option("--jetstream <DIR>", "enable JetStream for the cluster, with its store in DIR")
    .option(
      "--monitor <HOST:PORT>",
      "serve the monitoring pages of nats-server over HTTP on this address",
    );
  withCommon(command, [
    "nats-config --tenants tenants.yaml --out /etc/nats",
    "nats-config --listen 0.0.0.0:4222 --tls-cert server.pem --tls-key server-key.pem",
  ]).action(writeAll);
}

async function writeAll(options: NatsConfigArguments): Promise<void> {
  const { out, cluster, listen, jetstream, monitor, json } = options;
  const tenants = await readTenants(options.tenants);
  mkdirSync(out, { recursive: true, mode: 0o700 });
  const secrets: Secret[] = [];
  const keyOf = (user: string, tenant?: string): string => {
    const file = join(out, `${tenant === undefined ? "" : `${tenant}.`}${user}.nk`);
    secrets.push({ user, tenant, file });
    return keyIn(file);
  };
  const tls = tlsOf(options);
  const file = join(out, "nats-server.conf");
  const store = jetstream === undefined ? undefined : resolve(jetstream);
  const text = natsConfig({ cluster, listen, tenants, keyOf, tls, jetstream: store, monitor });
  writePrivately(file, text);
  const notices = [
    tls === undefined && isOpen(listen)
      ? `It listens on ${listen} without TLS, so its traffic can be read on the network: use --tls-cert.`
      : undefined,
    isOpen(monitor)
      ? `Its monitoring on ${monitor} needs no login, and names tenants, users and subjects.`
      : undefined,
  ].filter((notice) => notice !== undefined);
  const logins = loginsOf(tenants);
  if (json === true) {
    const notice = notices.length === 0 ? undefined : notices.join(" ");
    console.log(JSON.stringify({ report: "nats-config", file, secrets, logins, notice }));
    return;
  }
  console.log(`Start the server:  nats-server -c ${file}`);
  console.log("Users, each with the file of its secret, which nobody else may read:");
  for (const secret of secrets) console.log(`  ${usageOf(secret, tenants)}`);
  for (const { tenant, user, login } of logins) {
    const command = commandOf(tenants, tenant, user);
    console.log(`  ${command} --user ${login}   # and the password in OSIRIS_PASS`);
  }
  for (const notice of notices) console.error(notice);
}

/** Whether other machines than this one can reach `address`. */
function isOpen(address: string | undefined): boolean {
  return address !== undefined && !/^(127\.|localhost:|\[::1\])/.test(address);
}

/** Users that log in with a password, with their login names. */
function loginsOf(tenants: Tenants) {
  return Object.entries(tenants).flatMap(([tenant, { users }]) =>
    Object.entries(users).flatMap(([user, { pass }]) =>
      pass === undefined ? [] : [{ tenant, user, login: loginOf(tenant, user) }],
    ),
  );
}

function usageOf({ user, tenant, file }: Secret, tenants: Tenants): string {
  if (tenant !== undefined) return `${commandOf(tenants, tenant, user)} --nkey ${file}`;
  const commands = { root: "up", host: "host", admin: "status", metrics: "metrics" } as const;
  return `osiris ${commands[user as keyof typeof commands]} --nkey ${file}`;
}

/** A command that a tenant's user may run: `ls` with read access, else `submit`. */
function commandOf(tenants: Tenants, tenant: string, user: string): string {
  const command = tenants[tenant]?.users[user]?.may === "read" ? "ls" : "submit JOB";
  return `osiris ${command} --tenant ${tenant}`;
}

/** The tenants in a file; none without a file. @throws InputUnusableError, InvalidOptionError */
export async function readTenants(path: string | undefined): Promise<Tenants> {
  if (path === undefined) return {};
  const { parse } = await import("yaml");
  let value: unknown;
  try {
    value = parse(readFileSync(path, "utf8"));
  } catch (cause) {
    const reason = (cause instanceof Error ? cause.message : String(cause)).split("\n")[0];
    throw new InputUnusableError(path, `Cannot read the tenants: ${reason}`, { cause });
  }
  return tenantsOf(value ?? {});
}

/** The public key of the nkey in a seed file, which is created where it is missing. */
function keyIn(path: string): string {
  const known = existsSync(path) ? readFileSync(path, "utf8") : undefined;
  try {
    const { seed, publicKey } = userKey(known);
    if (known === undefined) writePrivately(path, `${seed}\n`);
    return publicKey;
  } catch (cause) {
    const message = `Expected ${path} to hold the seed of a user's nkey; remove it for a new one`;
    throw new InputUnusableError(path, message, { cause });
  }
}

function writePrivately(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600 });
  chmodSync(path, 0o600); // `writeFileSync` keeps the mode of an existing file.
}

function tlsOf({ tlsCert, tlsKey, tlsCa, tlsVerify }: NatsConfigArguments) {
  const verify = tlsVerify === true;
  if (tlsCert === undefined && tlsKey === undefined && tlsCa === undefined && !verify) return;
  if (tlsCert === undefined || tlsKey === undefined || (verify && tlsCa === undefined)) {
    const wanted = "`--tls-cert` and `--tls-key`, and with `--tls-verify` `--tls-ca` too";
    throw new InvalidOptionError("tls", `Expected ${wanted}`);
  }
  const ca = tlsCa === undefined ? undefined : resolve(tlsCa);
  return { cert: resolve(tlsCert), key: resolve(tlsKey), ca, verify };
}
