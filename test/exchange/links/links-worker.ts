// A thread that dials a host and sends frames without end, until direct-links.test.ts ends it.

import { workerData } from "node:worker_threads";
import type { LinkAddress } from "../../../src/exchange/links/direct-links.ts";
import { openDirectLinks } from "../../../src/exchange/links/open-links.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { frameOf, openMs, place, regionBytes, type Sockets } from "./link-hosts.ts";

export interface LinksWorkerData {
  readonly sockets: Sockets;
  readonly address: LinkAddress;
  readonly token: Uint8Array;
}

const { sockets, address, token } = workerData as LinksWorkerData;
const nothing = () => undefined;
const links = openDirectLinks({
  ...{ place, host: 0, openMs, clock: realClock, sockets },
  memory: new SharedArrayBuffer(2 * regionBytes),
  listen: { address: "127.0.0.1", isEncrypted: false },
  ...{ regionsOf: () => [], arrived: nothing, lost: nothing, refused: nothing },
});
await links.listen();
await links.dial(1, address, token);
for (let sequence = 1; ; sequence++) {
  links.send(1, frameOf(0, sequence, [regionBytes]));
  await new Promise((resolve) => setTimeout(resolve, 1));
}
