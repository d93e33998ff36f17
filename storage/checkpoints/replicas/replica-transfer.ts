// Transfers replicas between hosts: one host requests a file piece by piece, and another responds
// from its memory.
//
// Invariants
//   X1. The fetching host limits the pieces in flight to `windowPieces`. The server sends only
//       requested pieces.
//   X2. A piece that is lost or damaged (the transport has checksums) is requested again.

import { z } from "zod";
import { FrameCorruptError, RequestFailedError } from "../../../src/errors/errors.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { decodeBody, encodeBody } from "../../../src/wire/messages/body.ts";
import { headerOf } from "../../../src/wire/messages/headers.ts";
import { isInbox } from "../../../src/wire/messages/subjects.ts";
import type { Subscription, Transport } from "../../../src/wire/messages/transport.ts";
import type { NamedFile, PartReplica } from "./replica-cache.ts";

/** Most bytes of a piece, and most pieces in flight. X1 */
const pieceBytesMax = 256 * 1024;
const windowPieces = 8;
/** Bytes of a frame that are reserved for headers. */
const headerRoom = 1024;
/** Timeout of one piece, and delay before a failed request is repeated. */
const pieceMs = 1000;
const againMs = 50;

const stateHeader = "osiris-copy";

const questionSchema = z.object({
  name: z.string(),
  sha256: z.string(),
  first: z.int().min(0),
  bytes: z.int().min(1).max(pieceBytesMax),
});

/** Answers requests on `subject` with the bytes that `find` returns. */
export function serveReplicas(
  transport: Transport,
  subject: string,
  find: (file: Pick<NamedFile, "name" | "sha256">) => PartReplica | undefined,
): Subscription {
  return transport.subscribe(subject, (frame) => {
    const question = questionSchema.safeParse(decodeBody(frame)).data;
    if (frame.reply === undefined || !isInbox(frame.reply) || question === undefined) {
      throw new FrameCorruptError(frame.subject, "it requests no piece of a file");
    }
    const copy = find(question);
    const { first } = question;
    const bytes = Math.min(question.bytes, (copy?.bytes ?? 0) - first);
    if (copy === undefined || bytes <= 0) {
      const headers = { [stateHeader]: "none" };
      transport.publish(frame.reply, new Uint8Array(), { headers });
      return;
    }
    // The replica never changes, so its memory can be lent to the transport without a copy.
    transport.publish(frame.reply, new Uint8Array(copy.memory, first, bytes), { isLent: true });
  });
}

/** The result of a fetch. `silent`: no host answered within `patienceMs`. */
export type Fetched = "there" | "none" | "silent";

/** Fetches a file from `subject` into `into.memory`. Calls `onPiece` for each piece. */
export async function fetchReplica(
  into: PartReplica,
  options: {
    readonly transport: Transport;
    readonly subject: string;
    readonly clock: Clock;
    readonly patienceMs: number;
    /** Whether the file is no longer needed. */
    readonly isOver: () => boolean;
    readonly onPiece: () => void;
  },
): Promise<Fetched> {
  const { transport, subject, clock, patienceMs, isOver, onPiece } = options;
  const memory = new Uint8Array(into.memory);
  const pieceBytes = Math.min(pieceBytesMax, transport.frameBytesMax - headerRoom);
  const { name, sha256 } = into;
  let next = 0;
  let heardMs = clock.now();
  let fetched: Fetched = "there";
  const fetchPiece = async (first: number): Promise<void> => {
    const bytes = Math.min(pieceBytes, into.bytes - first);
    const { payload, headers } = encodeBody({ name, sha256, first, bytes }, "application/json");
    while (fetched === "there") {
      try {
        const answer = await transport.request(subject, payload, { headers, deadlineMs: pieceMs });
        heardMs = clock.now();
        if (headerOf(answer.headers, stateHeader) !== undefined) fetched = "none";
        else if (answer.payload.length === bytes) {
          memory.set(answer.payload, first);
          onPiece();
          return;
        }
      } catch (error) {
        if (!(error instanceof RequestFailedError)) throw error;
        if (isOver() || clock.now() - heardMs > patienceMs) fetched = "silent";
        else await new Promise<void>((resume) => clock.after(againMs, resume)); // X2
      }
    }
  };
  const fetcher = async (): Promise<void> => {
    while (next < into.bytes && fetched === "there") {
      const first = next;
      next += pieceBytes;
      await fetchPiece(first);
    }
  };
  // Fetch the first piece alone: if the host lacks the file, no other piece is requested.
  await fetchPiece(0);
  next = pieceBytes;
  await Promise.all(Array.from({ length: windowPieces }, fetcher));
  return fetched;
}
