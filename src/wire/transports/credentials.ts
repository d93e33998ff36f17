// The client's credentials for a broker, and the check of the broker's certificate. Plain data,
// which crosses threads: files of secrets are named here, and read when a connection is made.

import { readFileSync } from "node:fs";
import {
  type Authenticator,
  type ConnectionOptions,
  credsAuthenticator,
  nkeyAuthenticator,
  nkeys,
} from "nats";
import { z } from "zod";
import { InputUnusableError } from "../../errors/errors.ts";
import { expected } from "../../ports/check-options.ts";
import { secretsOf } from "./server-address.ts";

/** Connection options. At most one kind of credential may be given. */
export const credentialOptions = {
  token: z.string().min(1).optional(),
  user: z.string().min(1).optional(),
  pass: z.string().min(1).optional(),
  /** File with the seed of an nkey (`SU…`), as `nk -gen user` prints it. */
  nkey: z.string().min(1).optional(),
  /** Credentials file: a user's JWT and seed, as `nsc` writes it. */
  creds: z.string().min(1).optional(),
  /** The connection must be encrypted. PEM files. */
  tls: z
    .strictObject({
      /** Certificate authority that signed the broker's certificate. @default the machine's list */
      ca: z.string().min(1).optional(),
      /** The client's certificate and key, for brokers that require one (mutual TLS). */
      cert: z.string().min(1).optional(),
      key: z.string().min(1).optional(),
    })
    .optional(),
} as const;

const credentials = z.object(credentialOptions);

export type Credentials = z.output<typeof credentials>;

/**
 * The options of the NATS client. Secrets in the first address are used where no others are given.
 * @throws InvalidOptionError (two credentials at once), InputUnusableError (an unusable file)
 */
export function authenticationOf(
  servers: readonly string[],
  given: Credentials,
): Pick<ConnectionOptions, "token" | "user" | "pass" | "authenticator" | "tls"> {
  const { nkey, creds, tls } = given;
  const ways = (["token", "user", "nkey", "creds"] as const).filter((way) => given[way]);
  const [first, second] = ways;
  if (first !== undefined && second !== undefined) {
    throw expected(second, `left out where there is \`${first}\`: only one kind is used`, "…");
  }
  if ((tls?.cert === undefined) !== (tls?.key === undefined)) {
    throw expected("tls", "given both `cert` and `key`, or neither", tls);
  }
  const isEncrypted = tls !== undefined || servers.some((server) => server.startsWith("tls://"));
  return {
    ...whoOf(servers, given),
    ...(nkey === undefined ? {} : { authenticator: byFile(nkey, seedAuthenticator) }),
    ...(creds === undefined ? {} : { authenticator: byFile(creds, credsAuthenticator) }),
    ...(isEncrypted ? { tls: pemOf(tls ?? {}) } : {}),
  };
}

function whoOf(servers: readonly string[], { token, user, pass, nkey, creds }: Credentials) {
  if (token !== undefined) return { token };
  if (user !== undefined) return { user, pass: pass ?? "" };
  return nkey === undefined && creds === undefined ? secretsOf(servers) : {};
}

function seedAuthenticator(text: Uint8Array): Authenticator {
  return nkeyAuthenticator(new TextEncoder().encode(seedIn(new TextDecoder().decode(text))));
}

function seedIn(text: string): string {
  return /^\s*(S[A-Z0-9]+)\s*$/m.exec(text)?.[1] ?? "";
}

/** A user's nkey, from the seed in `text` or new. Throws where `text` is no seed. */
export function userKey(text?: string): { readonly seed: string; readonly publicKey: string } {
  const pair =
    text === undefined
      ? nkeys.createUser()
      : nkeys.fromSeed(new TextEncoder().encode(seedIn(text)));
  return { seed: new TextDecoder().decode(pair.getSeed()), publicKey: pair.getPublicKey() };
}

/** Whether the text is a valid public key of a user's nkey, checksum included. */
export function isUserKey(publicKey: string): boolean {
  try {
    return publicKey.startsWith("U") && nkeys.fromPublic(publicKey).getPublicKey() === publicKey;
  } catch {
    return false;
  }
}

/** An authenticator from the secret in a file. @throws InputUnusableError */
function byFile(path: string, open: (secret: Uint8Array) => Authenticator): Authenticator {
  const secret = read(path);
  try {
    const authenticator = open(secret);
    authenticator("nonce"); // Signs once, to find a bad secret here.
    return authenticator;
  } catch (cause) {
    const message = `Expected ${path} to hold the secret that \`nk\` or \`nsc\` wrote`;
    throw new InputUnusableError(path, message, { cause });
  }
}

function pemOf({ ca, cert, key }: NonNullable<Credentials["tls"]>) {
  const text = (path: string) => new TextDecoder().decode(read(path));
  return {
    ...(ca === undefined ? {} : { ca: text(ca) }),
    ...(cert === undefined ? {} : { cert: text(cert) }),
    ...(key === undefined ? {} : { key: text(key) }),
  };
}

function read(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read the credentials: ${reason}`, { cause });
  }
}
