// Chooses where a cluster's lease and its journal of runs are stored: in a directory, in a bucket,
// or in JetStream.
//
//   /shared/osiris         files of a directory that all candidates see
//   s3://bucket/prefix     objects of a bucket
//   nats                   a key-value bucket of the cluster's nats-server

import { randomUUID } from "node:crypto";
import { openObjectStore } from "../../src/objects/open-object-store.ts";
import { requireFence } from "../../src/objects/probe.ts";
import { isS3 } from "../../src/objects/s3-address.ts";
import type { ObjectStore } from "../../src/ports/object-store.ts";
import { FileJournal } from "../../storage/cluster/file-journal.ts";
import { alwaysWhole, KeptMark, type Mark } from "../../storage/cluster/kept-mark.ts";
import { type Awaitable, type Lease, LeaseDirectory } from "../../storage/cluster/lease.ts";
import type { RunJournal } from "../../storage/cluster/run-journal.ts";
import { StoredJournal } from "../../storage/cluster/stored-journal.ts";
import { StoredLease } from "../../storage/cluster/stored-lease.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { Network } from "../runtime/mailbox.ts";

/** The lease of a cluster, and the journals of its leaders. */
export interface LeasePlace {
  /** For messages. */
  readonly name: string;
  readonly lease: Lease;
  /** The journal of a term. `confirm` checks that no other process has become the leader. */
  journalOf(term: number, confirm: () => Awaitable<void>): RunJournal<RunEvent>;
  markOf(term: number): Mark;
  /** Calls `rewrite` when the store may have forgotten entries of the journal. */
  onForgotten(rewrite: () => void): void;
  close(): Promise<void>;
}

/**
 * Opens the place of a lease.
 * @throws InputUnusableError, TransportLostError, StoreFailedError, StoreUnfencedError
 */
export async function openLeasePlace(
  network: Network,
  { directory, leaseMs }: { readonly directory: string; readonly leaseMs: number },
): Promise<LeasePlace> {
  if (directory === "nats") return storedPlace(await openNats(network, leaseMs));
  if (isS3(directory)) return storedPlace(await openBucket(network, directory, leaseMs));
  return directoryPlace(network.disk, directory);
}

/** A lease in a directory. @throws errors of the disk */
export function directoryPlace(disk: Network["disk"], directory: string): LeasePlace {
  return {
    name: directory,
    lease: new LeaseDirectory(disk, directory),
    journalOf: (term) => new FileJournal(disk, directory, term),
    markOf: (term) => new KeptMark(disk, directory, term),
    onForgotten() {},
    close: async () => {},
  };
}

/** A lease in an object store. */
export function storedPlace(objects: ObjectStore, claimant: string = randomUUID()): LeasePlace {
  let journal: StoredJournal<RunEvent> | undefined;
  let rewrite = () => {};
  const onForgotten = () => {
    journal?.forgotten();
    rewrite();
  };
  return {
    name: objects.address,
    lease: new StoredLease({ objects, claimant, onForgotten }),
    journalOf(term, confirm) {
      journal = new StoredJournal({ objects, term, confirm });
      return journal;
    },
    markOf: () => alwaysWhole,
    onForgotten(call) {
      rewrite = call;
    },
    close: () => objects.close(),
  };
}

/** Opens a bucket, whose requests end well before a lease does. @throws StoreUnfencedError */
async function openBucket(
  { disk }: Network,
  address: string,
  leaseMs: number,
): Promise<ObjectStore> {
  const tried = await openObjectStore(address, disk);
  try {
    await requireFence(tried); // The first opening tries the store, which takes longer.
  } finally {
    await tried.close();
  }
  const limits = { attemptsMax: 3, attemptMs: leaseMs / 2, backoffMs: leaseMs / 50 };
  return await openObjectStore(address, disk, limits);
}

/** Longest wait for the connection to the server. */
const connectMs = 10_000;

/** Loaded lazily: only processes with a lease in NATS need JetStream's client. */
async function openNats(network: Network, leaseMs: number): Promise<ObjectStore> {
  const { openNatsObjects } = await import("../../src/wire/jetstream/nats-objects.ts");
  const { connection, cluster, clock } = network;
  return await openNatsObjects({
    ...connection,
    name: `osiris-${cluster}-lease-${process.pid}`,
    deadlineMs: connectMs,
    clock,
    bucket: `osiris-lease-${cluster}`,
    timeoutMs: leaseMs / 2,
  });
}
