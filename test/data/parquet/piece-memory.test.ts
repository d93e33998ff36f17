// Column memory that successive pieces reuse.

import test from "ava";
import { MemoryBudget } from "../../../src/data/tables/memory-budget.ts";
import { PieceMemory } from "../../../src/data/tables/piece-memory.ts";

test("a piece reuses the memory of the one before, each part of it once", (t) => {
  const memory = new PieceMemory(new MemoryBudget(0));
  const take = () => [
    memory.uint8(1000),
    memory.int32(250),
    memory.float64(5000),
    memory.uint8(3),
    memory.float64(0),
  ];
  const first = take();
  t.deepEqual(
    first.map(({ length }) => length),
    [1000, 250, 5000, 3, 0],
  );
  t.is(new Set(first.map(({ buffer }) => buffer)).size, 5, "arrays of one piece share no memory");
  t.true(first.every(({ byteOffset }) => byteOffset === 0));
  const bytes = first.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  t.true(bytes < 1.13 * (1000 + 1000 + 40_000) + 3 * 256, `${bytes} bytes`);
  memory.begin();
  const second = take();
  const buffers = new Set(first.map(({ buffer }) => buffer));
  t.true(second.every(({ buffer }) => buffers.has(buffer)));
  t.is(new Set(second.map(({ buffer }) => buffer)).size, 5);
  const more = memory.uint8(1000);
  t.false(buffers.has(more.buffer), "memory in use is not given twice");
});

test("memory that a piece did not need is released", (t) => {
  const memory = new PieceMemory(new MemoryBudget(0));
  const large = memory.uint8(1_000_000).buffer;
  memory.begin();
  memory.uint8(10);
  memory.begin();
  t.not(memory.uint8(1_000_000).buffer, large);
});
