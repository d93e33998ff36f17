// How the length of the code walk is counted.

import test from "ava";
import { walkIn } from "../../bench/walk.ts";

test("the walk's files are those of its rows, with the files named beside each", (t) => {
  const document = [
    "| 1 | `actors/cluster/cluster.ts` | hands on (`leader.ts`) | a message |",
    "| 2 | `src/training/step/step.ts` | a step | calls `src/exchange/exchange.ts`, `none.ts` |",
    "| next | messages |",
  ].join("\n");
  const { walk, all } = walkIn(document);
  t.deepEqual(walk, ["actors/cluster/cluster.ts", "src/training/step/step.ts"]);
  t.true(all.includes("actors/cluster/leader.ts"));
  t.true(all.includes("index.ts"));
  t.false(all.some((file) => file.includes("exchange") || file.includes("none")));
});
