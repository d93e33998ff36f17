// The hosts that take over the parts of a leaving host, and when that host may exit.

import test from "ava";
import {
  adoptersOf,
  afterSecured,
  handedHosts,
  type Secured,
} from "../../../../actors/run/control/hand-over.ts";

/** Hosts 1 to 4, with two devices each. */
const hosts = [1, 2, 3, 4].map((host) => ({ host, devices: 2 }));

test("a leaving host's parts go to its buddy, or to the nearest host before it that stays", (t) => {
  const adopters = (...leaving: number[]) => [...adoptersOf(hosts, leaving)];
  t.deepEqual(adopters(3), [
    [4, 2],
    [5, 2],
  ]);
  t.deepEqual(adopters(1, 4), [
    [0, 3],
    [1, 3],
    [6, 3],
    [7, 3],
  ]);
  t.deepEqual(adopters(1, 2, 3, 4), [], "no host stays");
});

test("a leaving host may exit once every part of its devices is replicated or saved", (t) => {
  const [first, second] = [4, 5]; // Of host 3.
  let secured: Secured = new Map();
  const note = (device: number, of: number, ...names: string[]) => {
    secured = afterSecured(secured, { device, of, names });
    return handedHosts(hosts, [3], secured);
  };
  t.deepEqual(note(first, 2, "dense"), []);
  t.deepEqual(note(first, 2, "dense"), [], "a repeated message counts once");
  t.deepEqual(note(first, 2, "table-00000"), [], "the host's other device is missing");
  t.deepEqual(note(second, 3, "table-00001", "table-00002"), []);
  t.deepEqual(note(second, 3, "table-00003", "table-00001"), [3]);
  t.deepEqual(handedHosts(hosts, [], secured), [], "only leaving hosts are released");
  t.deepEqual(
    handedHosts(hosts, [3], afterSecured(new Map(), { device: 4, of: 0, names: [] })),
    [],
  );
});
