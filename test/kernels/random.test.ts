import test from "ava";
import { philox } from "../../src/ports/random.ts";

// Known answers of the authors' own test: Random123, kat_vectors, philox4x32 of 10 and of 7 rounds.
const cases = [
  {
    counter: [0, 0, 0, 0],
    key: [0, 0],
    words: [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
    fewer: [0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48],
  },
  {
    counter: [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
    key: [0xffffffff, 0xffffffff],
    words: [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
    fewer: [0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662],
  },
  {
    counter: [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
    key: [0xa4093822, 0x299f31d0],
    words: [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    fewer: [0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a],
  },
] as const;

for (const { counter, key, words, fewer } of cases) {
  test(`philox of counter ${counter.join(" ")} gives the authors' words`, (t) => {
    const out = new Uint32Array(4);
    philox(out, key, counter);
    t.deepEqual([...out], [...words]);
    philox(out, key, counter, 7);
    t.deepEqual([...out], [...fewer]);
  });
}
