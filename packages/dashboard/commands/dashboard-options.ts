// Options of the dashboard's page, and the lines that print its links.

import { createServer } from "node:http";
import { type Command, Option } from "commander";
import { portFrom0 } from "../../../cli/support/arguments.ts";
import {
  type Cluster,
  type ClusterOptions,
  closeServer,
  listenAt,
  realClock,
  tokenFor,
} from "../../../internal.ts";
import { dashboard } from "../index.ts";

/** Default port of the page, unless another program has it. */
export const usualDashboardPort = 4280;

const actions = ["control", "faults"] as const;

export interface DashboardArguments {
  /** False: `--no-dashboard`. */
  readonly dashboard: boolean;
  readonly dashboardPort?: number;
  readonly dashboardHost: string;
  readonly dashboardAllow?: (typeof actions)[number][];
}

/** Adds `--no-dashboard`, `--dashboard-port`, `--dashboard-host` and `--dashboard-allow`. */
export function withDashboard(command: Command): Command {
  const port = `port of the dashboard; 0: any (default: ${usualDashboardPort}, else any free port)`;
  const allow = "actions that the dashboard also offers; its link then contains a token";
  return command
    .option("--no-dashboard", "do not serve the dashboard")
    .addOption(new Option("--dashboard-port <P>", port).argParser(portFrom0))
    .option(
      "--dashboard-host <ADDRESS>",
      "address of the dashboard; except for 127.0.0.1, its link contains a token",
      "127.0.0.1",
    )
    .addOption(new Option("--dashboard-allow <WHAT...>", allow).choices(actions));
}

/** The dashboard by these options, and whether its page may inject faults. */
export async function dashboardOf(
  options: DashboardArguments,
  token: string | undefined,
  hasTenants: boolean,
): Promise<Pick<ClusterOptions, "dashboard" | "faultsAllowed">> {
  if (!options.dashboard) return {};
  const settings = await dashboardSettings(options, token, hasTenants);
  const faults = settings.allow.includes("faults") ? { faultsAllowed: true } : {};
  return { dashboard: dashboard(settings), ...faults };
}

/**
 * The settings of the page. The page's token is derived from the cluster's `token`, so that links
 * stay valid when the cluster is started again.
 */
export async function dashboardSettings(
  { dashboardPort, dashboardHost: host, dashboardAllow: allow = [] }: DashboardArguments,
  token: string | undefined,
  hasTenants: boolean,
) {
  const port = dashboardPort ?? (await freePort(usualDashboardPort, host));
  const needsToken = host !== "127.0.0.1" || allow.length > 0 || hasTenants;
  // The link is printed and ends up in logs, so that its token opens the page but not the broker.
  const isOwn = needsToken && token !== undefined && token.length >= 16;
  return { port, host, allow, ...(isOwn && { token: tokenFor(token, "dashboard") }) };
}

/** `port`, or 0 (any port) where another program has it. */
async function freePort(port: number, host: string): Promise<number> {
  const server = createServer();
  try {
    await listenAt(server, { host, port });
    await closeServer(server, 0, realClock);
    return port;
  } catch {
    return 0;
  }
}

/** Links of the page for people: the operator's link, and one for each tenant. */
export function dashboardLines(page: Cluster["dashboard"]): string[] {
  if (page === undefined) return [];
  const tenants = Object.entries(page.tenantUrls).map(([tenant, url]) => {
    return `  for ${tenant}: ${url}`;
  });
  return [`Watch:   ${page.url}`, ...tenants];
}
