// A nats-server with the configuration that `osiris nats-config` writes for two tenants, and a
// login for each of its users.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runOk } from "../processes/cli.ts";
import { startNatsServer } from "./nats.ts";

const tenants = `
acme:
  users:
    ada: {}
    board: { may: read }
  connectionsMax: 3
other:
  users:
    bob: { pass: correct-horse }
`;

/** Makes a directory with the file of tenants. */
export function directoryOf(t: ExecutionContext): string {
  const directory = startDirectory(t);
  writeFileSync(join(directory, "tenants.yaml"), tenants);
  return directory;
}

/** Starts a server with that configuration. */
export async function placeOf(t: ExecutionContext) {
  const directory = directoryOf(t);
  const flags = ["--tenants", "tenants.yaml", "--jetstream", join(directory, "store")];
  await runOk(t, ["nats-config", ...flags], directory);
  const config = join(directory, "nats", "nats-server.conf");
  const server = await startNatsServer(["-c", config]);
  t.teardown(() => server.kill());
  const nkeyOf = (user: string) => ({ nkey: join(directory, "nats", `${user}.nk`) });
  const bob = { user: "other.bob", pass: "correct-horse" };
  const as = {
    root: nkeyOf("root"),
    host: nkeyOf("host"),
    admin: nkeyOf("admin"),
    metrics: nkeyOf("metrics"),
    ada: nkeyOf("acme.ada"),
    board: nkeyOf("acme.board"),
    bob,
  } as const;
  const dial = async (user: keyof typeof as, deadlineMs = 60_000) => {
    const complaints: string[] = [];
    const transport = await connectNats({
      ...as[user],
      servers: server.url,
      name: user,
      deadlineMs,
      onError: (error) => complaints.push(String(error)),
    });
    t.teardown(() => transport.close());
    return { transport, complaints };
  };
  return { directory, config, url: server.url, as, dial };
}
