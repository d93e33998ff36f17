// Which disk errors mean a lack of space: every part of the product that waits for space, or
// advises on it, uses the same function.

import test from "ava";
import { isFull, lastingRefusal } from "../../src/ports/disk-refusals.ts";
import { refusal } from "../../storage/tiers/records/ledger.ts";

const refusalOf = (code: string) => Object.assign(new Error(code), { code, syscall: "write" });

for (const [code, isRoom] of [
  ["ENOSPC", true],
  ["EDQUOT", true],
  ["EFBIG", true],
  ["EIO", false],
  ["EACCES", false],
] as const) {
  test(`${code} is ${isRoom ? "a" : "no"} lack of space, for checkpoints and for tiers`, (t) => {
    t.is(isFull(refusalOf(code)), isRoom);
    const expected = isRoom ? "TIER_DISK_FULL" : "TIER_WRITE";
    t.is(refusal("write", "a row", "/tier", code).code, expected);
    if (isRoom) t.is(lastingRefusal(refusalOf(code)), undefined, "space may become free");
  });
}

test("an error without a system code is no lack of space", (t) => {
  t.false(isFull(Object.assign(new Error("ENOSPC"), { code: "ENOSPC" })));
  t.false(isFull(undefined));
});
