// Chooses where a lease is stored: in a NATS register if the server has JetStream, else in files of
// its directory. The first process that opens the directory chooses, and all others follow: two
// processes with the lease in different places would both lead.

import { join } from "node:path";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import type { Register } from "../../src/wire/jetstream/nats-register.ts";
import { LeaseDirectory } from "../../storage/cluster/lease.ts";
import { makeDurableDirectory, readWhole } from "../../storage/disk/durable-files.ts";
import type { Network } from "../runtime/mailbox.ts";

/** Longest wait for the connection to the broker. */
const connectMs = 10_000;

type Place = "nats" | "files";

/**
 * Opens the register of a cluster's lease; undefined: the lease is in files.
 * @throws InputUnusableError if the lease is in NATS, but this server has no JetStream;
 * TransportLostError
 */
export async function openLeaseRegister(
  { connection, cluster, disk, clock }: Network,
  { directory, leaseMs }: { readonly directory: string; readonly leaseMs: number },
): Promise<Register | undefined> {
  // Loaded lazily: only processes with a lease need JetStream's client.
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
    // Lease files without a recorded choice mean that the lease is in files.
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

/** Records `found` if this process is the first; returns the first process's choice. */
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
