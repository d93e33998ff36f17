// The mark of a leader whose journal has every event that was told.

import test from "ava";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { KeptMark } from "../../../storage/cluster/kept-mark.ts";

test("the next leader finds the mark of the leader before, and of no other", (t) => {
  const disk = new SimulatedDisk();
  const markOf = (term: number) => new KeptMark(disk, "/state", term);
  t.false(markOf(1).isFormerWhole(), "there was no leader");
  markOf(1).set();
  t.false(markOf(1).isFormerWhole(), "its own does not count");
  t.true(markOf(2).isFormerWhole());
  t.true(markOf(3).isFormerWhole(), "a leader that never set a mark has told nothing");
  markOf(3).set();
  markOf(3).drop();
  t.false(markOf(4).isFormerWhole(), "nor does the mark of an older leader come back");
  markOf(3).set();
  t.true(markOf(4).isFormerWhole());
});

test("a mark counts until the machine is started again", (t) => {
  const disk = new SimulatedDisk();
  const mark = new KeptMark(disk, "/state", 1);
  mark.set();
  disk.syncDirectory("/state/kept");
  disk.crash();
  t.false(new KeptMark(disk, "/state", 2).isFormerWhole());
});

test("a zombie takes away its own mark, not that of its successor", (t) => {
  const disk = new SimulatedDisk();
  const [zombie, leader] = [new KeptMark(disk, "/state", 1), new KeptMark(disk, "/state", 2)];
  zombie.set();
  leader.set();
  zombie.drop();
  t.true(new KeptMark(disk, "/state", 3).isFormerWhole());
});
