// The timelines of a generation's threads on one host (src/ports/timeline.ts), in one shared
// memory: devices and their writers by rank, then readers, then the bridge. They are there without
// any option, and outlive the generation for a while (actors/host/kept-timelines.ts).

import {
  openTimeline,
  readTimeline,
  type Timeline,
  type TimelineRecord,
  timelineBytes,
} from "../../src/ports/timeline.ts";
import { type GenerationSpec, type HostPlace, hostPlaces } from "./generation-spec.ts";

export type TimelineRole = "device" | "writer" | "reader" | "bridge";

/** Where the timeline of a thread lies. */
interface TimelinePlace {
  readonly actor: string;
  readonly first: number;
  readonly records: number;
}

/** Records of a thread: some 70 steps of a device, and what its bridge sends and receives then. */
const recordsMax = { device: 2560, writer: 256, reader: 256, bridge: 8192 } as const;
/** Records of all devices of a host: with many of them, each keeps fewer steps. */
const deviceRecordsMax = 64 * recordsMax.device;

type Sized = Pick<GenerationSpec, "hosts"> & { readonly job: { readonly readers: number } };

/** Places of all timelines of a host, in the order of its memory. */
export function timelinePlaces(spec: Sized, position: number): TimelinePlace[] {
  const own = hostPlaces(spec)[position];
  if (own === undefined) throw new RangeError(`There is no host at position ${position}`);
  let first = 0;
  return threadsOf(spec, own).map(({ role, index }) => {
    const most = role === "device" ? Math.floor(deviceRecordsMax / own.count) : recordsMax[role];
    const records = Math.max(256, Math.min(recordsMax[role], most));
    const place = { actor: `${role}:${index}`, first, records };
    first += timelineBytes(records);
    return place;
  });
}

function threadsOf(
  { hosts, job: { readers } }: Sized,
  { first, count, position, host }: HostPlace,
) {
  const some = (role: TimelineRole, from: number, of: number) =>
    Array.from({ length: of }, (_, at) => ({ role, index: from + at }));
  return [
    ...some("device", first, count),
    ...some("writer", first, count),
    ...some("reader", position * readers, readers),
    ...some("bridge", host, hosts.length > 1 ? 1 : 0),
  ];
}

export function timelinesBytes(spec: Sized, position: number): number {
  const last = timelinePlaces(spec, position).at(-1);
  return last === undefined ? 0 : last.first + timelineBytes(last.records);
}

interface OwnTimelines {
  readonly spec: Sized;
  readonly memory: { readonly position: number; readonly timelines: SharedArrayBuffer };
}

/** The timeline of a thread, to write to. */
export function timelineOf(
  generation: OwnTimelines,
  role: Exclude<TimelineRole, "bridge">,
  index: number,
): Timeline {
  return opened(generation, (actor) => actor === `${role}:${index}`);
}

/** The timeline of the host's bridge, to write to. */
export function bridgeTimeline(generation: OwnTimelines): Timeline {
  return opened(generation, (actor) => actor.startsWith("bridge:"));
}

function opened({ spec, memory }: OwnTimelines, isIt: (actor: string) => boolean): Timeline {
  const place = timelinePlaces(spec, memory.position).find(({ actor }) => isIt(actor));
  if (place === undefined) throw new RangeError("The thread has no timeline on this host");
  return openTimeline(memory.timelines, place.first, place.records);
}

export function deviceRecords({ spec, memory }: OwnTimelines, rank: number): TimelineRecord[] {
  const places = timelinePlaces(spec, memory.position);
  const place = places.find(({ actor }) => actor === `device:${rank}`);
  return place === undefined ? [] : recordsAt(memory.timelines, place);
}

/** The records of one of `timelinePlaces`. */
export function recordsAt(memory: SharedArrayBuffer, place: TimelinePlace): TimelineRecord[] {
  return readTimeline(memory, place.first, place.records);
}
