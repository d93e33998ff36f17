// Decides which pins of a run a generation follows, and why it ignores the others. A pin is a
// preference, not an order: it never stops a run. An ignored pin is kept, reported in run.started,
// and considered again by the next generation.

import type { JobSpec } from "../../../src/job/job.ts";
import type { ShardPin } from "../../../src/planner/pins.ts";
import { atOnce, type Steps } from "../../../src/ports/turns.ts";
import type { HostShare } from "../../host/membership.ts";
import type { RunScope } from "../../runtime/mailbox.ts";
import {
  type GenerationLayout,
  layingOut,
  layoutOfGeneration,
} from "../../threads/generation-layout.ts";
import {
  type GenerationSpec,
  generationSpecOf,
  hostPlaces,
} from "../../threads/generation-spec.ts";
import { addingUp } from "../../threads/host-memory.ts";
import { type IgnoredPin, type ShardPlaces, shardPlacesOf } from "../state/shard-places.ts";

/** The pins of a generation. */
export interface FollowedPins {
  readonly followed: readonly ShardPin[];
  readonly ignored: readonly IgnoredPin[];
}

/** No pins. */
export const noPins: FollowedPins = { followed: [], ignored: [] };

/**
 * Divides pins into followed and ignored ones, once the data and the plan of the generation are
 * known. `memoryBytes`: of each host.
 */
export function followPins(
  pins: readonly ShardPin[],
  input: Parameters<typeof generationSpecOf>[0],
  memoryBytes: readonly number[],
): FollowedPins {
  if (pins.length === 0) return noPins;
  const spec = generationSpecOf(input);
  const { topology } = layoutOfGeneration(spec);
  const copied = new Set(topology.replicated.map(({ name }) => name));
  const reasonOf = ({ device, table }: ShardPin): string | undefined => {
    if (copied.has(table)) return `every device has a copy of ${table}`;
    if (device < spec.devices) return input.placement?.unpinned;
    return `the run has ${spec.devices} devices`;
  };
  const followed = pins.filter((pin) => reasonOf(pin) === undefined);
  const lack =
    followed.length === 0 ? undefined : atOnce(lackingIn({ ...spec, pins: followed }, memoryBytes));
  const ignored = pins.flatMap((pin): IgnoredPin[] => {
    const reason = reasonOf(pin) ?? lack;
    return reason === undefined ? [] : [{ pin, reason }];
  });
  return { followed: lack === undefined ? followed : [], ignored };
}

/** Why a host has too little memory for its rows and buffers; undefined: all have enough. */
export function* lackingIn(
  spec: GenerationSpec,
  memoryBytes: readonly number[],
): Steps<string | undefined> {
  const layout = yield* layingOut(spec);
  for (const place of hostPlaces(spec)) {
    const { tableBytes, otherBytes } = yield* addingUp(spec.job, layout, place);
    const [bytes, own] = [tableBytes + otherBytes, memoryBytes[place.position] ?? 0];
    const [needed, most] = [bytes, own].map((one) => (one / 1e9).toFixed(3));
    if (bytes > own) return `host:${place.host} would need ${needed} GB of ${most} GB`;
  }
  return undefined;
}

/** The parts of an assembled generation that give its shard placement. */
interface AssembledPins {
  readonly layout: (() => GenerationLayout) | undefined;
  readonly scope: RunScope;
  readonly hosts: readonly HostShare[];
  readonly memoryBytes: number;
  readonly pins: FollowedPins;
  readonly job: JobSpec;
}

/** Shard placement of an assembled generation. */
export function placesOf({
  layout,
  scope,
  hosts,
  memoryBytes,
  pins,
  job,
}: AssembledPins): ShardPlaces | undefined {
  if (layout === undefined) return undefined;
  const { generation } = scope;
  const known = [...pins.followed, ...pins.ignored.map(({ pin }) => pin)];
  let shards: ShardPlaces["shards"] | undefined;
  return {
    ...{ generation, hosts, memoryBytes, pins: known },
    /** Computed when a shard is first asked for. */
    get shards() {
      shards ??= shardPlacesOf(layout().topology, job.optimizer.sparse);
      return shards;
    },
  };
}

/** The pins as run.started reports them; undefined: there are none. */
export function pinStates({ pins }: { readonly pins: FollowedPins }) {
  const all = [
    ...pins.followed.map((pin) => ({ ...pin, reason: undefined })),
    ...pins.ignored.map(({ pin, reason }) => ({ ...pin, reason })),
  ];
  return all.length === 0 ? undefined : all;
}
