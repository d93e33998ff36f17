// The process that measures. `session.ts` starts it for one bench, with its options as JSON, and
// receives each row as it is measured.

import { narrowed, wantedBy } from "./bench.ts";
import { benches } from "./benches.ts";
import type { SessionMessage, SessionWork } from "./session.ts";

const { bench, options, only } = JSON.parse(process.argv[2] ?? "{}") as SessionWork;
const measurements = benches[bench]?.measurements(options) ?? [];
const isWanted = wantedBy(only);

process.on("disconnect", () => process.exit(1)); // The parent is gone: no process receives rows.
for (const [index, measurement] of narrowed(measurements, only).entries()) {
  await send({ begin: index });
  for await (const row of measurement.measure(isWanted)) {
    if (isWanted(row.name)) await send({ row });
  }
}
process.exit(0); // Threads and connections that measurements share are still open.

/** Resolves once the message is written, as a kernel may then block this thread for seconds. */
function send(message: SessionMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send?.(message, (error: Error | null) => (error === null ? resolve() : reject(error)));
  });
}
