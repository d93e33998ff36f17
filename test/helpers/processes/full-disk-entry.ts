// A process whose files may not exceed a limit set by its shell: writes rows to RocksDB until a
// batch is refused, and prints the error codes of that write and of reading one of its rows.

import { openRecords } from "../../../storage/tiers/records/open-records.ts";

const [, , directory = ""] = process.argv;
const shards = [{ name: "user", rows: 1_000_000, recordBytes: 260 }];
const store = await openRecords("rocksdb", { directory, shards, keep: "spill" });
const rows = Int32Array.from({ length: 100 }, (_, i) => i);
const codes = [];
for (let round = 0; codes.length === 0 && round < 100; round++) {
  codes.push(...codeOf(() => store.write(0, rows, new Uint8Array(26_000).fill(round))));
}
codes.push(...codeOf(() => store.read(0, rows, new Uint8Array(26_000), new Uint8Array(100))));
process.stdout.write(`${codes.join(" ")}\n`);
await store.close();

function codeOf(call: () => void): string[] {
  try {
    call();
    return [];
  } catch (error) {
    return [error instanceof Error && "code" in error ? String(error.code) : String(error)];
  }
}
