// Opens the direct links of a host: native sockets where the addon has them, else Node's.

import { LinkUnusableError } from "../../errors/errors.ts";
import type { DirectLinks, DirectLinksOptions } from "./direct-links.ts";
import { createNativeCarrier } from "./native-links.ts";
import { createNetCarrier } from "./net-links.ts";
import { createSocketLinks } from "./socket-links.ts";

/**
 * The direct links of a host in one generation; they neither listen nor dial yet.
 * @throws LinkUnusableError where `sockets` is `native`, and this process has none
 */
export function openDirectLinks(options: DirectLinksOptions): DirectLinks {
  const { memory, listen, sockets } = options;
  const native = sockets === "net" ? undefined : createNativeCarrier(memory, listen.isEncrypted);
  if (native === undefined && sockets === "native") {
    const what = listen.isEncrypted ? "TLS, as its OpenSSL is not version 3" : "sockets";
    throw new LinkUnusableError(`at ${listen.address}`, `this process has no native ${what}`);
  }
  return createSocketLinks(options, native ?? createNetCarrier(memory));
}
