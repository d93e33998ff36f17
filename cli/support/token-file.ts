// Stores the token of a broker on this machine where commands of the same user find it: a file for
// each port, in a directory that other users may not read. The token therefore appears in no output
// and in no list of processes.

import { randomBytes } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InputUnusableError } from "../../internal.ts";

/** Without `$XDG_RUNTIME_DIR`, a directory in the temporary directory, which all users share. */
function directory(): string {
  const runtime = process.env.XDG_RUNTIME_DIR;
  return runtime ? join(runtime, "osiris") : join(tmpdir(), `osiris-${process.getuid?.() ?? 0}`);
}

function pathOf(port: string): string {
  return join(directory(), `${port}.token`);
}

/**
 * A token for an embedded broker: a new token, or the token that a `state` directory keeps, so that
 * connected clients are let in again after a restart of the cluster.
 */
export function ownToken(state: string | undefined): string {
  const token = randomBytes(16).toString("hex");
  if (state === undefined) return token;
  const path = join(state, "broker.token");
  const before = tokenIn(path);
  if (before !== undefined && /^[0-9a-f]{32}$/.test(before)) return before;
  mkdirSync(state, { recursive: true });
  writeToken(path, token);
  return token;
}

/**
 * Writes the token of the broker at `url` to a file, which disposal of the result removes.
 * @throws InputUnusableError where others may read, or own, the directory
 */
export function keepToken(url: string, token: string): Disposable & { readonly path: string } {
  const place = directory();
  mkdirSync(place, { recursive: true, mode: 0o700 });
  const { mode, uid } = lstatSync(place); // A symbolic link has another mode.
  if ((mode & 0o777) !== 0o700 || uid !== (process.getuid?.() ?? uid)) {
    const message = `Expected ${place}, the directory of the token, to be readable by its owner alone`;
    throw new InputUnusableError(place, message);
  }
  const path = pathOf(new URL(url).port);
  writeToken(path, token);
  return { path, [Symbol.dispose]: () => rmSync(path, { force: true }) };
}

function writeToken(path: string, token: string): void {
  writeFileSync(path, `${token}\n`, { mode: 0o600 });
  chmodSync(path, 0o600);
}

/** The kept token of this user's broker at `url` on this machine; undefined where there is none. */
export function tokenFor(url: string): string | undefined {
  const address = url.includes("://") ? url : `nats://${url}`;
  if (!URL.canParse(address)) return undefined;
  const { hostname, port, username } = new URL(address);
  if (username !== "" || !/^(127\.|localhost$|\[::1\]$)/.test(hostname)) return undefined;
  return tokenIn(pathOf(port === "" ? "4222" : port));
}

function tokenIn(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}
