// A reader's requests for splits, and the parts that it receives from several workers.

import { crc32 } from "node:zlib";
import test from "ava";
import { tableOf } from "../../../src/data/cache/block-table.ts";
import { SplitClient } from "../../../src/exchange/splits/split-client.ts";
import { partHeaders, readerSubject } from "../../../src/exchange/splits/split-frames.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { createMemoryBroker } from "../../../src/wire/transports/memory-transport.ts";

test("a split is whole if workers that cut it differently sent its parts", async (t) => {
  const bytes = Uint8Array.from({ length: 48 }, (_, i) => i);
  const table = tableOf(new Uint32Array([bytes.length / 4, crc32(bytes)]));
  // By worker, from..end of each part. The first worker of each case died before its last parts.
  const cases = [
    ["0-8 8-16", "0-16 16-32 32-48"],
    ["0-8 8-16 16-24 24-32", "0-16 16-32 32-48"],
    ["0-16", "0-8 8-16 16-24 24-32 32-40 40-48"],
  ];
  for (const workers of cases) {
    const clock = new SimulatedClock();
    const broker = createMemoryBroker({ clock, seed: 1 });
    const place = { cluster: "c1", run: "r1", generation: 1 };
    const split = { stream: "training", first: 0, end: 1 } as const;
    const transport = broker.connect("reader");
    const client = new SplitClient({ transport, place, reader: 0, clock, deadlineMs: 1000 });
    const out = new Uint8Array(bytes.length);
    const read = client.blocksOf("training", "an index", table).read(out, split);
    clock.advance(10);
    const worker = broker.connect("worker");
    for (const range of workers.flatMap((parts) => parts.split(" "))) {
      const [at = 0, end] = range.split("-").map(Number);
      const headers = partHeaders({ split, at, bytes: bytes.length });
      worker.publish(readerSubject(place, 0, "data"), bytes.slice(at, end), { headers });
    }
    clock.advance(2000); // Beyond the deadline.
    t.is(await read, bytes.length, workers.join(", then "));
    t.deepEqual(out, bytes);
    client.close();
  }
});
