// A pack writer that leaves parts in memory: it writes a part that does not fit as a whole, even if
// calls are refused once.

import test from "ava";
import {
  isInMemory,
  leftInMemory,
} from "../../../../storage/checkpoints/replicas/parts-in-memory.ts";
import type { PackWriter } from "../../../../storage/checkpoints/store/checkpoint-store.ts";

/** A pack writer that notes the written parts; with `refuses`, it refuses each call once. */
function noted(refuses: boolean) {
  const written: string[] = [];
  const refused = new Set<string>();
  let part = "";
  const once = (call: string) => {
    if (!refuses || refused.has(call)) return;
    refused.add(call);
    throw new Error(`refused: ${call}`);
  };
  const packs: PackWriter = {
    begin(name) {
      once(`begin ${name}`);
      part = `${name}=`;
    },
    write(bytes) {
      once(`write ${part}${bytes.join()}`);
      part += `${bytes.join("")}`;
    },
    end() {
      written.push(part);
      return { name: part, file: "pack", at: 0, bytes: 0, sha256: "", base: [] };
    },
    finish: () => void written.push("finished"),
    discard() {},
  };
  return { packs, written };
}

const insistently = <Result>(call: () => Result): Result => {
  for (;;) {
    try {
      return call();
    } catch {}
  }
};

for (const refuses of [false, true]) {
  test(`parts that fit stay in memory, others are written: refusals ${refuses}`, (t) => {
    const { packs, written } = noted(refuses);
    const writer = leftInMemory(packs, 5);
    const save = (name: string, ...pieces: number[][]) => {
      insistently(() => writer.begin(name));
      for (const piece of pieces) insistently(() => writer.write(Uint8Array.from(piece)));
      return insistently(() => writer.end());
    };
    const kept = save("a", [1], [2, 3]);
    t.true(isInMemory(kept));
    // SHA-256 of the bytes 1, 2, 3.
    t.regex(kept.sha256, /^039058c6f2c0cb492c533b0a4d14ef77/);
    t.is(kept.bytes, 3);
    t.false(isInMemory(save("b", [4], [5], [6], [7])), "room for two bytes is left");
    t.true(isInMemory(save("c", [8, 9])));
    t.false(isInMemory(save("d", [1])), "memory is full");
    insistently(() => writer.finish());
    t.deepEqual(written, ["b=4567", "d=1", "finished"]);
  });
}
