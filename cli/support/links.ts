// The options of a host's direct links, of `osiris up` and `osiris host`.

import { type Command, Option } from "commander";

export interface LinkArguments {
  readonly linkAddress?: string;
  readonly linkEncryption?: "auto" | "always" | "never";
}

/** Adds the options. */
export function withLinks(command: Command): void {
  command
    .option(
      "--link-address <ADDRESS>",
      "take direct links of hosts here: ADDR, ADDR:PORT or ADDR:FIRST-LAST (default: as to the broker)",
    )
    .addOption(
      new Option(
        "--link-encryption <WHEN>",
        "encrypt them: always, never, or auto: where the broker has TLS (default: auto)",
      ).choices(["auto", "always", "never"]),
    );
}

/** The options of `Cluster.start` and `Host.join`. */
export function linksFrom({ linkAddress, linkEncryption }: LinkArguments): LinkArguments {
  return {
    ...(linkAddress !== undefined && { linkAddress }),
    ...(linkEncryption !== undefined && { linkEncryption }),
  };
}
