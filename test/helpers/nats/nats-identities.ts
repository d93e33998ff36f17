// Identities for a test's nats-server: nkeys, and the signed claims of an operator, an account and
// a user, as `nsc` makes them; and the certificates of test/wire/certificates.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { nkeys } from "nats";

type KeyPair = ReturnType<typeof nkeys.createUser>;

// This file compiles to dist/test/helpers/nats/nats-identities.js.
const folder = fileURLToPath(new URL("../../../../test/wire/certificates/", import.meta.url));

/** The path of a PEM file: `ca`, `server`, `server-key`, `client`, `client-key`, `other-ca`. */
export function pem(name: string): string {
  return join(folder, `${name}.pem`);
}

/** Writes the seed of a new nkey; returns its public key and the file. */
export function writeSeed(directory: string): {
  readonly publicKey: string;
  readonly file: string;
} {
  const pair = nkeys.createUser();
  const file = join(directory, "user.nk");
  writeFileSync(file, `${new TextDecoder().decode(pair.getSeed())}\n`);
  return { publicKey: pair.getPublicKey(), file };
}

/** Writes a server configuration that knows one operator, and the credentials file of one user. */
export function writeCredentials(directory: string): {
  readonly config: string;
  readonly file: string;
} {
  const [operator, account] = [nkeys.createOperator(), nkeys.createAccount()];
  const user = nkeys.createUser();
  const all = { subs: -1, data: -1, payload: -1 };
  const limits = { ...all, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
  const operatorJwt = claim(operator, operator, "operator", {});
  const accountJwt = claim(operator, account, "account", { limits });
  const userJwt = claim(account, user, "user", { ...all, pub: {}, sub: {} });
  const config = `operator: ${operatorJwt}
resolver: MEMORY
resolver_preload: { ${account.getPublicKey()}: ${accountJwt} }
`;
  const file = join(directory, "user.creds");
  writeFileSync(
    file,
    `-----BEGIN NATS USER JWT-----
${userJwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
${new TextDecoder().decode(user.getSeed())}
------END USER NKEY SEED------
`,
  );
  return { config, file };
}

/** A JWT of version 2, signed by `issuer`. */
function claim(issuer: KeyPair, subject: KeyPair, type: string, nats: object): string {
  const base64 = (text: string | Uint8Array) => Buffer.from(text).toString("base64url");
  const body = {
    jti: subject.getPublicKey(),
    iat: 1_700_000_000,
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    name: type,
    nats: { ...nats, type, version: 2 },
  };
  const header = { typ: "JWT", alg: "ed25519-nkey" };
  const text = `${base64(JSON.stringify(header))}.${base64(JSON.stringify(body))}`;
  return `${text}.${base64(issuer.sign(new TextEncoder().encode(text)))}`;
}
