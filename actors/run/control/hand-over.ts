// Hand-over: at the last cut of a generation, hosts that leave keep their parts in memory, and each
// gives them to a host that stays, which writes them to the store. So a leaving host waits only for
// the network, and not for the store, which may take longer than the machine still runs.
//
//   leaving host ──part.offered──▶ adopter ──part.held, part.saved──▶ checkpoint coordinator
//   checkpoint coordinator ──checkpoint.handed──▶ training coordinator ──buddy.left──▶ bridges
//
// Invariants
//   O1. The checkpoint is committed once all its parts are in the store (law 2). If the generation
//       fails before, the run continues from the checkpoint before.
//   O2. A host leaves before its generation ends only once every part of its devices is in the
//       store, or in the memory of a host that stays.

import type { HostShare, Membership } from "../../host/membership.ts";
import type { Mailbox, MessageEvent } from "../../runtime/mailbox.ts";
import { hasBuddies, hostPlaces } from "../../threads/generation-spec.ts";

/** The hosts that leave after the cut that is made now; none where no host stays. */
export function leavingHosts(run: {
  readonly job: Parameters<typeof hasBuddies>[0]["job"];
  readonly hosts: readonly HostShare[];
  readonly membership: Membership;
  readonly isScaleRequested: boolean;
}): number[] {
  const { hosts, membership } = run;
  if (!run.isScaleRequested || !hasBuddies(run)) return []; // Or steps follow the cut.
  const leaving = hosts.filter(({ host }) => membership.isLeaving(host));
  return leaving.length === hosts.length ? [] : leaving.map(({ host }) => host);
}

/**
 * The host that takes over the parts of each device of a leaving host: its buddy, which has the
 * base of its parts, or else the nearest host before it that stays.
 */
export function adoptersOf(
  hosts: readonly HostShare[],
  leaving: readonly number[],
): ReadonlyMap<number, number> {
  const adopters = new Map<number, number>();
  for (const { host, position, first, count } of hostPlaces({ hosts: [...hosts] })) {
    if (!leaving.includes(host)) continue;
    const before = [...hosts.slice(position), ...hosts.slice(0, position)].reverse();
    const adopter = before.find((one) => !leaving.includes(one.host));
    if (adopter === undefined) continue;
    for (let rank = first; rank < first + count; rank++) adopters.set(rank, adopter.host);
  }
  return adopters;
}

/** By device of a leaving host: its parts that are in the store, or held by a host that stays. */
export type Secured = ReadonlyMap<
  number,
  { readonly names: ReadonlySet<string>; readonly of: number }
>;

export function afterSecured(
  secured: Secured,
  { device, of, names }: { device: number; of: number; names: readonly string[] },
): Secured {
  const all = new Set([...(secured.get(device)?.names ?? []), ...names]);
  return new Map(secured).set(device, { names: all, of });
}

/** The leaving hosts of which every part is secured. O2 */
export function handedHosts(
  hosts: readonly HostShare[],
  leaving: readonly number[],
  secured: Secured,
): number[] {
  const isSecured = (rank: number) => {
    const one = secured.get(rank);
    return one !== undefined && one.names.size >= one.of;
  };
  return hostPlaces({ hosts: [...hosts] })
    .filter(({ host }) => leaving.includes(host))
    .filter(({ first, count }) => {
      return Array.from({ length: count }, (_, i) => first + i).every(isSecured);
    })
    .map(({ host }) => host);
}

/** Releases leaving hosts that have handed over all parts. Returns all hosts released so far. */
export function letGo(
  run: {
    readonly hosts: readonly HostShare[];
    readonly leaving: readonly number[];
    readonly left: readonly number[];
    readonly membership: Membership;
    readonly mailbox: Mailbox;
  },
  event: { readonly type: string } | MessageEvent<"checkpoint.handed">,
): readonly number[] {
  if (!("body" in event)) return run.left;
  const { hosts, membership, mailbox } = run;
  const { hosts: handed } = event.body;
  const left = hosts
    .map(({ host }) => host)
    .filter((host) => {
      return run.left.includes(host) || (run.leaving.includes(host) && handed.includes(host));
    });
  for (const { host } of hosts) {
    if (left.includes(host)) membership.letGoOf(host, hosts);
    else mailbox.send({ role: "bridge", index: host }, "buddy.left", { hosts: left });
  }
  return left;
}

/** Whether the heartbeats of a host are watched: until it is released. */
export function isWatched(
  { hosts, left }: { readonly hosts: readonly HostShare[]; readonly left: readonly number[] },
  host: number,
): boolean {
  return hosts.some((one) => one.host === host) && !left.includes(host);
}

/** Whether an event reports the end of a host that was already released. */
export function hasLeft(
  { left }: { readonly left: readonly number[] },
  event: { readonly type: string },
): boolean {
  if ("body" in event) return left.includes((event.body as { readonly host?: number }).host ?? -1);
  return "host" in event && left.includes(event.host as number);
}
