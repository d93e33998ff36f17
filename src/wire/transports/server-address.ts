// Addresses of NATS servers as people write them:
// `nats://token@host:4222`, `nats://user:pass@host`.

import { expected } from "../../ports/check-options.ts";

/** The first address, without its secrets. @throws InvalidOptionError */
export function addressOf(servers: readonly string[]): string {
  const { protocol, host } = urlOf(servers[0] ?? "");
  return `${protocol}//${host}`;
}

/** The host and port of an address. @throws InvalidOptionError */
export function endpointOf(server: string): { readonly host: string; readonly port: number } {
  const { hostname, port } = urlOf(server);
  return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? 4222 : Number(port) };
}

/** The token, or the user and password, in the first address. */
export function secretsOf(servers: readonly string[]): {
  readonly token?: string;
  readonly user?: string;
  readonly pass?: string;
} {
  const url = urlOf(servers[0] ?? "");
  if (url.username === "") return {};
  const name = decodeURIComponent(url.username);
  if (url.password === "") return { token: name };
  return { user: name, pass: decodeURIComponent(url.password) };
}

function urlOf(server: string): URL {
  const text = server.includes("://") ? server : `nats://${server}`;
  const url = /^(nats|tls):\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && url.hostname !== "" && isEncoded(url)) return url;
  const shown = text.replace(/:\/\/.*@/s, "://***@"); // Hides the secrets.
  throw expected("servers", "addresses like `nats://127.0.0.1:4222`", shown);
}

/** Whether the secret in the address is well encoded. */
function isEncoded({ username, password }: URL): boolean {
  try {
    decodeURIComponent(`${username}:${password}`);
    return true;
  } catch {
    return false;
  }
}
