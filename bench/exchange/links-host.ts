// One host of the rows `links`, a process of its own: host 0 sends frames over a direct link, and
// host 1 acknowledges them over its own. The parent forwards their addresses and requests rounds.

import type { LinkAddress } from "../../src/exchange/links/direct-links.ts";
import { openDirectLinks } from "../../src/exchange/links/open-links.ts";
import { realClock } from "../../src/ports/clock.ts";

export interface LinksHostData {
  readonly host: number;
  readonly way: "tcp" | "unix" | "tls";
  readonly frameBytes: number;
  /** Tokens of both connections, in hexadecimal digits, by the index of the dialer. */
  readonly tokens: readonly string[];
}

/** Milliseconds of a round, and of processor time in this process. */
export interface LinksRound {
  readonly ms: number;
  readonly processorMs: number;
}

const data = JSON.parse(process.argv[2] ?? "{}") as LinksHostData;
const { host, way, frameBytes, tokens } = data;
const other = 1 - host;
/** The window of a bridge to one other host. */
const windowBytes = 8 * 2 ** 20;
const frames = windowBytes / frameBytes;
let acknowledged = 0;
let received = 0;
let changed = () => {};
let isEnding = false;

const links = openDirectLinks({
  memory: new SharedArrayBuffer(2 * windowBytes),
  place: { cluster: "bench", run: "links", generation: 1 },
  ...{ host, openMs: 5000, clock: realClock },
  listen: { address: "127.0.0.1", isEncrypted: way === "tls" },
  regionsOf: () => [{ route: 0, region: { first: windowBytes, bytes: windowBytes } }],
  arrived(_, some) {
    const before = received;
    for (const { sequence, seen } of some) {
      acknowledged = Math.max(acknowledged, seen);
      received = Math.max(received, sequence);
    }
    const every = Math.ceil(frames / 4);
    if (received !== before && Math.floor(received / every) > Math.floor(before / every)) {
      links.send(other, { sequence: 0, seen: received, missing: [], pieces: [] });
    }
    changed();
  },
  lost(_, end, reason) {
    if (!isEnding) throw new Error(`The link of the bench ended: ${end}: ${reason}`);
  },
  refused: (_, reason) => {
    throw new Error(`The link of the bench did not open: ${reason}`);
  },
});

/** Sends frames within the window, until all are acknowledged. */
async function send(count: number): Promise<void> {
  const last = acknowledged + count;
  for (let sequence = acknowledged + 1; acknowledged < last; ) {
    for (; sequence <= last && sequence - acknowledged <= frames; sequence++) {
      const at = (sequence % frames) * frameBytes;
      const piece = { route: 0, round: sequence, at, first: at };
      const pieces = [{ ...piece, bytes: frameBytes, total: frameBytes }];
      links.send(other, { sequence, seen: 1, missing: [], pieces });
    }
    await new Promise<void>((resolve) => {
      changed = resolve;
    });
  }
}

async function round(count: number): Promise<LinksRound> {
  const [startMs, before] = [performance.now(), process.cpuUsage()];
  await send(count);
  const { user, system } = process.cpuUsage(before);
  return { ms: performance.now() - startMs, processorMs: (user + system) / 1000 };
}

let before = process.cpuUsage();
process.on("message", async (message: { readonly address?: LinkAddress; frames?: number }) => {
  const { address, frames: count } = message;
  if (address !== undefined) {
    const { local, ...rest } = address;
    const to = way === "unix" && local !== undefined ? address : rest;
    await links.dial(other, to, Buffer.from(tokens[host] ?? "", "hex"));
    process.send?.({ isOpen: true });
  } else if (count === undefined) {
    isEnding = true;
    await links.close();
    process.disconnect();
  } else if (host === 0) {
    process.send?.(await round(count));
  } else {
    // The receiver's processor time since its last report.
    const { user, system } = process.cpuUsage(before);
    before = process.cpuUsage();
    process.send?.({ ms: 0, processorMs: (user + system) / 1000 });
  }
});
links.admit(other, Buffer.from(tokens[other] ?? "", "hex"));
process.send?.({ address: await links.listen() });
