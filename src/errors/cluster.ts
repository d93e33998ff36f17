// Errors of a cluster and the wire: incompatible processes, missing hosts or files, changes of the
// leader, the journal of runs, frames, requests, and the connection to the broker.

import { errorClass } from "./training-error.ts";

/** A host has another version of Osiris than its cluster. */
export class VersionMismatchError extends errorClass(
  "VERSION_MISMATCH",
  "stop",
  (expected: string, actual: string) =>
    `Expected version ${expected} of Osiris, as the cluster has, this process has ${actual}: ` +
    "install the same one",
) {}

/** A run has fewer devices than it waits for. */
export class HostsMissingError extends errorClass(
  "HOSTS_MISSING",
  "stop",
  (wanted: number, present: number, deadlineMs: number) =>
    `Waited ${deadlineMs} ms for ${wanted} devices, ${present} are there: ` +
    "start hosts with `osiris host`, or ask for fewer devices",
) {}

/** A host does not see the checkpoints that the other hosts write. */
export class PathNotSharedError extends errorClass(
  "PATH_NOT_SHARED",
  "stop",
  (host: string, path: string) => ({
    message:
      `${host} does not see ${path}: the checkpoint directory must lie on a file system that all ` +
      "hosts share, under a path that is the same on each of them, or in an object store that " +
      "each of them reaches (`s3://bucket/prefix`)",
    path,
  }),
) {}

/** The leader of the cluster ended or could not renew its lease, and another process leads. */
export class LeaderReplacedError extends errorClass(
  "LEADER_REPLACED",
  "restore",
  (former: string, why: string, next: string) =>
    `${former} ${why}; ${next} leads the cluster now, and goes on with its runs`,
) {}

/** This process is no longer the leader of the cluster. The transport withholds its frames. */
export class LeadershipLostError extends errorClass(
  "LEADERSHIP_LOST",
  "stop",
  (term: number, next: string) =>
    `This process led the cluster in term ${term}; ${next} leads it now, and has its runs: ` +
    "start this process again, and it stands by",
) {}

/** Another leader, with its own queue, serves a cluster of this name. */
export class ClusterServedError extends errorClass(
  "CLUSTER_SERVED",
  "stop",
  (cluster: string, address: string) =>
    `Another leader serves cluster ${cluster} at ${address}, with a queue of its own: ` +
    "give this cluster another name, or start both leaders with one lease",
) {}

/** Entries of the journal of runs are corrupt: their runs or events are lost. */
export class JournalDamagedError extends errorClass(
  "JOURNAL_DAMAGED",
  "stop",
  (directory: string, entries: number) =>
    `${entries} entries of the journal of the runs in ${directory} are damaged and were left out: ` +
    "check the disk, and submit again the runs that `osiris ls` does not list",
) {}

/** A payload exceeds the limit of a frame, or of a payload in chunks. */
export class FrameTooLargeError extends errorClass(
  "FRAME_TOO_LARGE",
  "stop",
  (frameBytes: number, frameBytesMax: number) =>
    `Expected a message of at most ${frameBytesMax} bytes, got ${frameBytes}: ` +
    "split the job's tables over several jobs, or raise `max_payload` of the broker",
) {}

/** A frame does not decode to a known message. */
export class FrameCorruptError extends errorClass(
  "FRAME_CORRUPT",
  "restore",
  (subject: string, reason: string) => `A frame on ${subject} is not a message: ${reason}`,
) {}

/** A request received no response in time, or its subject has no subscribers. */
export class RequestFailedError extends errorClass(
  "REQUEST_FAILED",
  "restore",
  (subject: string, reason: string) => `No answer on ${subject}: ${reason}`,
) {}

/** The broker cannot be reached. */
export class TransportLostError extends errorClass(
  "TRANSPORT_LOST",
  "restore",
  (address: string, reason: string) => `Cannot reach the broker at ${address}: ${reason}`,
) {}

/** A direct link to another host cannot be opened. Frames then travel over the broker. */
export class LinkUnusableError extends errorClass(
  "LINK_UNUSABLE",
  "restore",
  (address: string, reason: string) => `Cannot use the direct link ${address}: ${reason}`,
) {}

/** Too many bytes are in flight to the broker: the frame was dropped. */
export class TransportFullError extends errorClass(
  "TRANSPORT_FULL",
  "restore",
  (address: string, pendingBytes: number, pendingBytesMax: number) =>
    `A frame to the broker at ${address} was dropped: ` +
    `${pendingBytes} of at most ${pendingBytesMax} bytes are in flight`,
) {}
