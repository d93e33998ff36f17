// Waits of the threads of a host, read from the notes in the memory of their generation. Every
// heartbeat includes them, so this code must not recompute the layout.

import { readWaitNotes } from "../../src/exchange/wait-notes.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { anyone, type Wait } from "../runtime/wait-graph.ts";
import { type Generation, progressOver } from "./generation-memory.ts";
import type { HostPlace } from "./generation-spec.ts";

/** The waits of the threads of the host at `place`. */
export function threadWaits(generation: Generation, place: HostPlace, clock: Clock): Wait[] {
  const { spec, memory } = generation;
  const nameOf = participantNames(generation, place);
  const { steps } = progressOver(memory, spec.devices);
  return readWaitNotes(memory.waits).map(({ participant, of, what, sinceMs }) => ({
    who: nameOf(participant),
    whom: nameOf(of),
    what,
    forMs: Math.max(0, clock.date().getTime() - sinceMs),
    ...(participant < spec.devices ? { step: Atomics.load(steps, participant) } : {}),
  }));
}

/** Maps a participant on a host to the name of its actor. */
function participantNames(
  { spec: { devices, job }, layout: { bridge, tierRings, tierOf, writerOf } }: Generation,
  place: HostPlace,
): (participant: number) => string {
  const names = new Map<number, string>([[bridge, `bridge:${place.host}`]]);
  for (let reader = 0; reader < job.readers; reader++) {
    names.set(devices + reader, `reader:${place.position * job.readers + reader}`);
  }
  for (let rank = 0; rank < devices; rank++) {
    if (tierRings.some((ring) => ring !== undefined)) names.set(tierOf(rank), `tier:${rank}`);
    names.set(writerOf(rank), `writer:${rank}`);
    names.set(rank, `device:${rank}`);
  }
  return (participant) => names.get(participant) ?? anyone;
}
