// A byte pipe between two participants, under randomly drawn interleavings.

import test from "ava";
import { createPipeReader, createPipeWriter } from "../../src/exchange/byte-pipe.ts";
import { createSimulatedCells } from "../../src/exchange/simulated-cells.ts";
import { RandomStream } from "../../src/ports/random.ts";
import {
  receiveItem,
  type StreamItem,
  sendItem,
} from "../../storage/checkpoints/store/part-stream.ts";

function startPipe(ringBytes: number, seed: number) {
  const memory = new ArrayBuffer(ringBytes);
  const cells = createSimulatedCells({ cells: 2, seed });
  const place = { memory, cellBase: 0, what: "bytes" };
  return {
    cells,
    writer: createPipeWriter({ ...place, cells: cells.cellsOf(0), peer: 1 }),
    reader: createPipeReader({ ...place, cells: cells.cellsOf(1), peer: 0 }),
  };
}

test("a pipe delivers the written bytes, in pieces of any size, through a ring of any size", async (t) => {
  for (let seed = 0; seed < 60; seed++) {
    const stream = new RandomStream(1, 2, seed);
    const { cells, writer, reader } = startPipe(1 + stream.below(40), seed);
    const sent = Uint8Array.from({ length: 300 }, () => stream.below(256));
    const got = new Uint8Array(300);
    for (let cut = 0; cut < 3; cut++) {
      got.fill(0);
      await cells.run([
        async () => {
          await writer.drained();
          writer.rewind();
          for (let at = 0; at < 300; ) {
            const piece = sent.subarray(at, at + 1 + stream.below(70));
            await writer.write(piece);
            at += piece.length;
          }
        },
        async () => {
          for (let at = 0; at < 300; ) {
            const out = got.subarray(at, at + 1 + ((at * 7) % 50));
            await reader.read(out);
            at += out.length;
          }
          reader.rewind();
        },
      ]);
      t.deepEqual(got, sent, `seed ${seed}, cut ${cut}`);
    }
  }
});

test("after each rewind a small load uses the front of the ring again", async (t) => {
  const { cells, writer, reader } = startPipe(1000, 1);
  const memory = new Uint8Array(1);
  for (let cut = 0; cut < 300; cut++) {
    await cells.run([
      async () => {
        writer.rewind();
        await writer.write(Uint8Array.of(cut % 256));
        await writer.drained();
      },
      async () => {
        await reader.read(memory);
        reader.rewind();
      },
    ]);
    t.is(memory[0], cut % 256);
  }
});

test("the stream items of a cut arrive as they were sent", async (t) => {
  const { cells, writer, reader } = startPipe(64, 3);
  const items: readonly StreamItem[] = [
    { kind: "part", cut: 10, name: "table-00001", isWhole: false },
    { kind: "bytes", bytes: Uint8Array.from({ length: 300 }, (_, i) => i % 251) },
    { kind: "bytes", bytes: new Uint8Array(0) },
    { kind: "leaves", leaves: ["0123456789abcdef"] },
    { kind: "cut", cut: 10 },
  ];
  const got: StreamItem[] = [];
  await cells.run([
    async () => {
      for (const item of items) await sendItem(writer, item);
    },
    async () => {
      while (got.at(-1)?.kind !== "cut") got.push(await receiveItem(reader));
    },
  ]);
  t.deepEqual(got, items);
});
