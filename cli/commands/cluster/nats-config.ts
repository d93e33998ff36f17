// osiris nats-config: the configuration of a nats-server for a cluster and its tenants, and the
// secrets of the users in it, in files of their own.

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

/** The file with a user's secret. */
interface Secret {
  readonly user: string;
  readonly tenant?: string | undefined;
  readonly file: string;
}

/** Adds the command. */
export function addNatsConfig(program: Command): void {
  const command = program
    .command("nats-config")
    .description("write the configuration of a nats-server: who may say and hear what")
    .option("--tenants <FILE>", "YAML or JSON: who shares the cluster; left out: nobody does")
    .option("--out <DIR>", "directory of the configuration and of the users' secrets", "nats")
    .option("--cluster <NAME>", "name of the cluster", "c1")
    .option("--listen <HOST:PORT>", "where the server takes clients", "127.0.0.1:4222")
    .option("--tls-cert <FILE>", "PEM file: the server's certificate; it then takes TLS only")
    .option("--tls-key <FILE>", "PEM file: and its key")
    .option("--tls-ca <FILE>", "PEM file: who signed the certificates of clients")
    .option("--tls-verify", "take only clients that show a certificate (mutual TLS)")
    .option("--jetstream <DIR>", "turn JetStream on, for the cluster itself; its store")
    .option("--monitor <HOST:PORT>", "serve the server's own figures over HTTP");
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
      ? `It listens on ${listen} without TLS: whoever sees the network reads all of it; --tls-cert.`
      : undefined,
    isOpen(monitor)
      ? `Its figures on ${monitor} ask for no secret: they name tenants, users and subjects.`
      : undefined,
  ].filter((notice) => notice !== undefined);
  const logins = loginsOf(tenants);
  if (json === true) {
    const notice = notices.length === 0 ? undefined : notices.join(" ");
    console.log(JSON.stringify({ report: "nats-config", file, secrets, logins, notice }));
    return;
  }
  console.log(`Start the server:  nats-server -c ${file}`);
  console.log("Who may come in, by a secret that nobody else may read:");
  for (const secret of secrets) console.log(`  ${usageOf(secret, tenants)}`);
  for (const { tenant, user, login } of logins) {
    const command = commandOf(tenants, tenant, user);
    console.log(`  ${command} --user ${login}   # and the password in OSIRIS_PASS`);
  }
  for (const notice of notices) console.error(notice);
}

/** Whether others than this machine can reach it. */
function isOpen(address: string | undefined): boolean {
  return address !== undefined && !/^(127\.|localhost:|\[::1\])/.test(address);
}

/** Users who come in by a password, and by which name. */
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

/** What one of a tenant's users may do. */
function commandOf(tenants: Tenants, tenant: string, user: string): string {
  const command = tenants[tenant]?.users[user]?.may === "read" ? "ls" : "submit JOB";
  return `osiris ${command} --tenant ${tenant}`;
}

/** The tenants of a file; none without one. @throws InputUnusableError, InvalidOptionError */
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

/** The public key of the nkey in a seed file; a missing file is made. */
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
  chmodSync(path, 0o600); // Of a file that was there before, the mode stays.
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
