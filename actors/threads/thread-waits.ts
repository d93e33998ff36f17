// What the threads of a host wait for, by the notes in the memory of their generation.

import { readWaitNotes } from "../../src/exchange/wait-notes.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { anyone, type Wait } from "../runtime/wait-graph.ts";
import {
  type Assembly,
  derive,
  type GenerationMemory,
  type HostPlace,
  progressOver,
} from "./generation-spec.ts";

/** What the threads of a host wait for. */
export function threadWaits(
  assembly: Assembly,
  memory: GenerationMemory,
  place: HostPlace,
  clock: Clock,
): Wait[] {
  const nameOf = participantNames(assembly, place);
  const { steps } = progressOver(memory, assembly.devices);
  return readWaitNotes(memory.waits).map(({ participant, of, what, sinceMs }) => ({
    who: nameOf(participant),
    whom: nameOf(of),
    what,
    forMs: Math.max(0, clock.date().getTime() - sinceMs),
    ...(participant < assembly.devices ? { step: Atomics.load(steps, participant) } : {}),
  }));
}

/** The actors of the participants that a host's words know. */
function participantNames(assembly: Assembly, place: HostPlace): (participant: number) => string {
  const { devices, job } = assembly;
  const { bridge, tierRings, tierOf, writerOf } = derive(assembly);
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
