// Opens the direct links of a host: native sockets where the addon has them, else Node's.

import type { DirectLinks, DirectLinksOptions } from "./direct-links.ts";
import { createNetCarrier } from "./net-links.ts";
import { createSocketLinks } from "./socket-links.ts";

/** The direct links of a host in one generation; they neither listen nor dial yet. */
export function openDirectLinks(options: DirectLinksOptions): DirectLinks {
  return createSocketLinks(options, createNetCarrier(options.memory));
}
