// The mark by which a leader states that its journal has every event that it published.

import test from "ava";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { KeptMark } from "../../../storage/cluster/kept-mark.ts";

test("a leader finds the mark of the leader before it, and no other leader's", (t) => {
  const disk = new SimulatedDisk();
  const markOf = (term: number) => new KeptMark(disk, "/state", term);
  t.false(markOf(1).isFormerWhole(), "there was no leader");
  markOf(1).set();
  t.false(markOf(1).isFormerWhole(), "a leader's own mark does not count");
  t.true(markOf(2).isFormerWhole());
  t.true(markOf(3).isFormerWhole(), "leader 2 set no mark, so it published nothing");
  markOf(3).set();
  markOf(3).drop();
  t.false(markOf(4).isFormerWhole(), "leader 1's mark does not count again");
  markOf(3).set();
  t.true(markOf(4).isFormerWhole());
});

test("a mark is lost when the machine restarts", (t) => {
  const disk = new SimulatedDisk();
  const mark = new KeptMark(disk, "/state", 1);
  mark.set();
  disk.syncDirectory("/state/kept");
  disk.crash();
  t.false(new KeptMark(disk, "/state", 2).isFormerWhole());
});

test("a fenced leader removes its own mark, not that of its successor", (t) => {
  const disk = new SimulatedDisk();
  const [zombie, leader] = [new KeptMark(disk, "/state", 1), new KeptMark(disk, "/state", 2)];
  zombie.set();
  leader.set();
  zombie.drop();
  t.true(new KeptMark(disk, "/state", 3).isFormerWhole());
});
