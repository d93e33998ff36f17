// The routing table from subjects to subscribers, which the embedded broker and the in-memory one
// share.
//
// Invariants
//   I1. The members found for a subject come in the order in which they subscribed.
//   I2. One member of each queue group is chosen, round robin: no random number decides.
//   I3. A removed subscription leaves nothing behind: the table is as large as its subscriptions.
//   I4. The cost of adding and removing does not grow with the members on the same pattern.

/** One subscription in the table. */
export interface RoutedSubscriber {
  readonly pattern: string;
  readonly queue?: string | undefined;
}

interface Entry<Member> {
  readonly member: Member;
  readonly serial: number;
}

/** A node in the tree of tokens: the members with a pattern that ends here, and child tokens. */
interface Place<Member> {
  readonly entries: Map<Member, Entry<Member>>;
  readonly below: Map<string, Place<Member>>;
}

interface Group {
  members: number;
  turn: number;
}

/** The table: patterns in a tree of tokens; `*` and `>` are tokens like others. */
export class SubjectRouter<Member extends RoutedSubscriber> {
  readonly #root: Place<Member> = emptyPlace();
  readonly #groups = new Map<string, Group>();
  #serial = 0;

  /** Adds a member. Add each member once. */
  add(member: Member): void {
    let place = this.#root;
    for (const token of member.pattern.split(".")) {
      let next = place.below.get(token);
      if (next === undefined) {
        next = emptyPlace();
        place.below.set(token, next);
      }
      place = next;
    }
    place.entries.set(member, { member, serial: this.#serial++ });
    if (member.queue === undefined) return;
    const group = this.#groups.get(member.queue);
    if (group === undefined) this.#groups.set(member.queue, { members: 1, turn: 0 });
    else group.members++;
  }

  /** Removes a member; does nothing if it is not there. */
  remove(member: Member): void {
    const isRemoved = removeBelow(this.#root, member.pattern.split("."), 0, member);
    if (!isRemoved || member.queue === undefined) return;
    const group = this.#groups.get(member.queue);
    if (group !== undefined && --group.members === 0) this.#groups.delete(member.queue); // I3
  }

  /** The receivers of a frame on `subject`: all plain members, and one of each queue group. */
  match(subject: string, mayReceive: (member: Member) => boolean = () => true): Member[] {
    const found: Entry<Member>[] = [];
    collect(this.#root, subject.split("."), 0, found);
    if (found.length > 1) found.sort((a, b) => a.serial - b.serial); // I1
    const chosen: Member[] = [];
    const groups = new Map<string, Member[]>();
    for (const { member } of found) {
      if (!mayReceive(member)) continue;
      if (member.queue === undefined) {
        chosen.push(member);
        continue;
      }
      const group = groups.get(member.queue);
      if (group === undefined) groups.set(member.queue, [member]);
      else group.push(member);
    }
    for (const [queue, members] of groups) chosen.push(...this.#choose(queue, members));
    return chosen;
  }

  #choose(queue: string, members: readonly Member[]): Member[] {
    const group = this.#groups.get(queue);
    if (group === undefined) return [];
    const chosen = members[group.turn % members.length];
    group.turn = (group.turn + 1) % 0x1_0000_0000; // I2
    return chosen === undefined ? [] : [chosen];
  }
}

function emptyPlace<Member>(): Place<Member> {
  return { entries: new Map(), below: new Map() };
}

function collect<Member>(
  place: Place<Member>,
  tokens: readonly string[],
  at: number,
  found: Entry<Member>[],
): void {
  const token = tokens[at];
  if (token === undefined) {
    take(place, found);
    return;
  }
  // In a subject, a token that looks like a wildcard is an ordinary token.
  const exact = token === "*" || token === ">" ? undefined : place.below.get(token);
  if (exact !== undefined) collect(exact, tokens, at + 1, found);
  const one = place.below.get("*");
  if (one !== undefined) collect(one, tokens, at + 1, found);
  const rest = place.below.get(">");
  if (rest !== undefined) take(rest, found);
}

/** Pushes one at a time: there may be more entries than a call can have arguments. */
function take<Member>({ entries }: Place<Member>, found: Entry<Member>[]): void {
  for (const entry of entries.values()) found.push(entry);
}

function removeBelow<Member>(
  place: Place<Member>,
  tokens: readonly string[],
  at: number,
  member: Member,
): boolean {
  const token = tokens[at];
  if (token === undefined) {
    return place.entries.delete(member);
  }
  const next = place.below.get(token);
  if (next === undefined || !removeBelow(next, tokens, at + 1, member)) return false;
  if (next.entries.size === 0 && next.below.size === 0) place.below.delete(token); // I3
  return true;
}
