// The timelines of the last generations on this host (../threads/host-timelines.ts). They stay
// readable after their generation has ended: no thread writes to their memory then.
//
// `osiris trace` requests them in pages: each has as many whole timelines as fit into a message.

import type { TimelineRecord } from "../../src/ports/timeline.ts";
import type { GenerationMemory } from "../threads/generation-memory.ts";
import type { GenerationSpec } from "../threads/generation-spec.ts";
import { recordsAt, timelinePlaces } from "../threads/host-timelines.ts";

/** Generations whose timelines are kept: some MiB each. */
const keptMax = 8;

/** Most records of a page. A record takes some 40 bytes in a message. */
const pageRecordsMax = 20_000;

interface KeptTimelines {
  readonly spec: Pick<GenerationSpec, "run" | "generation" | "hosts"> & {
    readonly job: { readonly readers: number };
  };
  readonly memory: Pick<GenerationMemory, "position" | "timelines">;
}

/** A request for timelines. */
export interface TimelineQuery {
  readonly run: string;
  /** Index of the first thread of the page. */
  readonly first: number;
  /** First requested step: records that ended before this step began are left out. */
  readonly fromStep: number;
}

/** Some timelines of a host. Plain data. */
export interface TimelinePage {
  readonly generation: number;
  /** The hosts of the generation, in its order. */
  readonly hosts: readonly number[];
  /** Last step of the host's first device that is in its timeline; -1: none. */
  readonly lastStep: number;
  readonly threads: readonly ThreadTimeline[];
  /** `first` of the next page; left out: this was the last. */
  readonly next?: number;
}

/** The last records of one thread. */
export interface ThreadTimeline {
  /** `device:1`, `reader:0` */
  readonly actor: string;
  /** Oldest first, as they ended. */
  readonly records: readonly PackedRecord[];
}

/** The fields of a TimelineRecord, in their order. */
export type PackedRecord = readonly [
  kind: TimelineRecord["kind"],
  what: number,
  step: number,
  fromMs: number,
  toMs: number,
  bytes: number,
  peer: number,
  id: number,
];

export class TimelineKeeper {
  readonly #kept: KeptTimelines[] = [];

  /** Keeps the timelines of a generation that begins. */
  keep({ spec, memory }: KeptTimelines): void {
    const { run, generation, hosts, job } = spec;
    const { position, timelines } = memory;
    const own = { run, generation, hosts, job: { readers: job.readers } };
    this.#kept.push({ spec: own, memory: { position, timelines } });
    if (this.#kept.length > keptMax) this.#kept.shift();
  }

  /** A page of the newest generation of a run that has made a step; null: none is kept. */
  page({ run, first, fromStep }: TimelineQuery): TimelinePage | null {
    const ofRun = this.#kept.filter(({ spec }) => spec.run === run);
    const found = ofRun.findLast((one) => stepsIn(one).length > 0) ?? ofRun.at(-1);
    if (found === undefined) return null;
    const { spec, memory } = found;
    const steps = stepsIn(found);
    const fromMs = steps.find(({ step }) => step >= fromStep)?.fromMs ?? Number.POSITIVE_INFINITY;
    const places = timelinePlaces(spec, memory.position);
    const threads: ThreadTimeline[] = [];
    let at = first;
    for (let records = 0; at < places.length; at++) {
      const place = places[at];
      if (place === undefined) break;
      const own = recordsAt(memory.timelines, place).filter(({ toMs }) => toMs >= fromMs);
      records += own.length;
      if (threads.length > 0 && records > pageRecordsMax) break;
      threads.push({ actor: place.actor, records: own.map(packed) });
    }
    const hosts = spec.hosts.map(({ host }) => host);
    const lastStep = steps.at(-1)?.step ?? -1;
    const page = { generation: spec.generation, hosts, lastStep, threads };
    return at < places.length ? { ...page, next: at } : page;
  }
}

/** The tasks of the host's first device. With a pipeline, those of several steps alternate. */
function stepsIn({ spec, memory }: KeptTimelines): TimelineRecord[] {
  const [device] = timelinePlaces(spec, memory.position);
  if (device === undefined) return [];
  return recordsAt(memory.timelines, device).filter(({ kind }) => kind === "task");
}

function packed(one: TimelineRecord): PackedRecord {
  const { kind, what, step, fromMs, toMs, bytes, peer, id } = one;
  return [kind, what, step, fromMs, toMs, bytes, peer, id];
}
