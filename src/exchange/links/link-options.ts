// The options of a host's direct links, for `Cluster.start` and `Host.join`.

import { z } from "zod";

/** Whether the ports of an address, if it has any, exist and are in order. */
function hasPorts(address: string): boolean {
  const [, first, last = first] = /:(\d+)(?:-(\d+))?$/.exec(address) ?? [];
  return Number(first ?? 0) <= Number(last ?? 0) && Number(last ?? 0) <= 65_535;
}

export const linkOptions = {
  /**
   * Address on which this host accepts direct links, and which is sent to other hosts, with the
   * ports that it may use: `10.0.0.5`, `10.0.0.5:4600-4663`, `[fd00::5]:4600`, `:4600`. Left out:
   * the address from which this machine reaches the broker, and any free port.
   */
  linkAddress: z
    .string()
    .regex(/^(?!$)(?:\[[0-9A-Fa-f:.]+\]|[^\s:[\]]+)?(?::\d{1,5}(?:-\d{1,5})?)?$/)
    .max(255)
    .refine(hasPorts, "an address with ports up to 65535, FIRST-LAST in that order")
    .optional(),
  /**
   * Whether this host encrypts the direct links that it takes over TCP. "auto": where its
   * connection to the broker has TLS. @default "auto"
   */
  linkEncryption: z.enum(["auto", "always", "never"]).default("auto"),
} as const;

/** A host's options of direct links. Plain data, for its threads. */
export type LinkPlace = z.output<z.ZodObject<typeof linkOptions>>;

/** The direct links of a process. */
export interface HostLinks extends LinkPlace {
  /** Of a leader: how frames travel between the hosts of its runs. "auto": the faster way. */
  readonly mode?: "auto" | "direct" | "broker";
}
