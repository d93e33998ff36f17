// Addresses of NATS servers as people write them:
// `nats://token@host:4222`, `nats://user:pass@host`.

import { expected } from "../../ports/check-options.ts";

/** The first address, without the secrets that stand in it. @throws InvalidOptionError */
export function addressOf(servers: readonly string[]): string {
  const { protocol, host } = urlOf(servers[0] ?? "");
  return `${protocol}//${host}`;
}

/** Where to dial an address. @throws InvalidOptionError */
export function endpointOf(server: string): { readonly host: string; readonly port: number } {
  const { hostname, port } = urlOf(server);
  return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? 4222 : Number(port) };
}

/** The token, or the user and password, that stand in the first address. */
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
  const shown = text.replace(/:\/\/.*@/s, "://***@"); // Secrets stand there.
  throw expected("servers", "addresses like `nats://127.0.0.1:4222`", shown);
}

/** Whether what stands for a secret can be read. */
function isEncoded({ username, password }: URL): boolean {
  try {
    decodeURIComponent(`${username}:${password}`);
    return true;
  } catch {
    return false;
  }
}
