// The name that a misspelled one was probably meant to be.

import test from "ava";
import { nearestName } from "../../src/ports/nearest-name.ts";

test("the nearest name is found despite case, separators and typing errors", (t) => {
  const names = ["batchSize", "user_id", "price", "prices"];
  const meant: [string, string][] = [
    ["batchsize", "batchSize"],
    ["batch-size", "batchSize"],
    ["UserId", "user_id"],
    ["usre_id", "user_id"],
    ["prise", "price"],
    ["pricess", "prices"],
    ["price", "price"],
  ];
  for (const [wrong, name] of meant) t.is(nearestName(wrong, names), name, wrong);
});

test("no name is proposed for one that is far from all others", (t) => {
  for (const wrong of ["session", "x", "", "user", "é".repeat(1000)]) {
    t.is(nearestName(wrong, ["batchSize", "user_id", "price"]), undefined, wrong);
  }
  t.is(nearestName("price", []), undefined);
});
