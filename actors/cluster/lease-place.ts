// Where a lease is kept: in a register of NATS, where the server has JetStream, else in files of
// its directory. The first process that opens the directory finds that out, and all others follow
// it: two that kept one lease in two places would both lead.

import { join } from "node:path";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import type { Register } from "../../src/wire/jetstream/register.ts";
import { LeaseDirectory } from "../../storage/cluster/lease.ts";
import { makeDurableDirectory, readWhole } from "../../storage/disk/durable-files.ts";
import type { Network } from "../runtime/mailbox.ts";

/** Longest wait for the broker to be there. */
const connectMs = 10_000;

type Place = "nats" | "files";

/**
 * The register of a cluster's lease; undefined: it is in files.
 * @throws InputUnusableError where it is kept in NATS, and this server has no JetStream;
 * TransportLostError
 */
export async function openLeaseRegister(
  { connection, cluster, disk, clock }: Network,
  { directory, leaseMs }: { readonly directory: string; readonly leaseMs: number },
): Promise<Register | undefined> {
  // Nobody but who has a lease needs JetStream's client.
  const { openNatsRegister } = await import("../../src/wire/jetstream/nats-register.ts");
  const register = await openNatsRegister({
    ...connection,
    name: `osiris-${cluster}-lease-${process.pid}`,
    deadlineMs: connectMs,
    clock,
    key: cluster,
    timeoutMs: leaseMs / 2,
  });
  try {
    // Files that are older than the choice are the lease.
    const isOld = new LeaseDirectory(disk, directory).newest() > 0;
    const found = register === undefined || isOld ? "files" : "nats";
    const place = settle(disk, join(directory, "kept-in"), found);
    if (place === "nats" && register !== undefined) return register;
    await register?.close();
    if (place === "files") return undefined;
  } catch (error) {
    await register?.close();
    throw error;
  }
  const message =
    `The lease in ${directory} is kept in NATS, and ${connection.servers} has no JetStream: ` +
    "start that server with -js, or give a lease of its own directory";
  throw new InputUnusableError(directory, message);
}

/** What the first process found. */
function settle(disk: Network["disk"], path: string, found: Place): Place {
  makeDurableDirectory(disk, join(path, ".."));
  try {
    const file = disk.open(path, "exclusive");
    try {
      file.write(new TextEncoder().encode(found), 0);
      file.sync();
    } finally {
      file.close();
    }
    return found;
  } catch (error) {
    if (diskCode(error) !== "EEXIST") throw error;
    return new TextDecoder().decode(readWhole(disk, path)) === "nats" ? "nats" : "files";
  }
}
