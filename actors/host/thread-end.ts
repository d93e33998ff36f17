// What becomes of an actor whose thread has ended: it fails too, and its supervisor decides.

import { PeerLostError, RemoteError } from "../../src/errors/errors.ts";
import type { ThreadEnd } from "../../src/ports/launcher.ts";

/** The thread's own error; where it said nothing, that `actor` was lost. */
export function lossOf(end: ThreadEnd, actor: string): RemoteError | PeerLostError {
  if (end.kind === "failed") return new RemoteError(end.error);
  const reason = end.kind === "lost" ? end.reason : "its thread ended by itself";
  return new PeerLostError(actor, reason);
}
