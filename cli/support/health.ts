// The health of a long-lived command over HTTP, for the probes of an orchestrator:
//
//   /livez    200 as long as the main thread answers
//   /readyz   200 while the process leads, stands by or serves as a host, else 503; the body says
//             which

import { type Command, Option } from "commander";
import {
  addressOf,
  closeServer,
  listenAt,
  RequestUnusableError,
  realClock,
  recordError,
  serverOfFew,
} from "../../internal.ts";
import { type CommonOptions, portFrom0 } from "./arguments.ts";

export interface HealthArguments {
  readonly healthPort?: number;
}

/** Adds `--health-port`. */
export function withHealth(command: Command): Command {
  const about =
    "port of the HTTP probes /livez and /readyz, on every address of the machine; 0: a free one";
  return command.addOption(new Option("--health-port <P>", about).argParser(portFrom0));
}

export interface Health {
  readonly isReady: boolean;
  /** What the process does, in words. */
  readonly state: string;
}

/** Serves the health of this process, if a port was given, and prints the address. */
export async function serveHealth(
  { healthPort: port, json }: HealthArguments & CommonOptions,
  look: () => Health,
): Promise<AsyncDisposable> {
  if (port === undefined) return { [Symbol.asyncDispose]: async () => {} };
  const type = "text/plain; charset=utf-8";
  const server = serverOfFew(
    async (request, response) => {
      const { pathname } = addressOf(request);
      if (pathname !== "/livez" && pathname !== "/readyz") {
        throw new RequestUnusableError("Expected /livez or /readyz", 404);
      }
      const { isReady, state } = look();
      const status = pathname === "/livez" || isReady ? 200 : 503;
      return response.writeHead(status, { "content-type": type }).end(`${state}\n`);
    },
    (error, response) => {
      const status = error instanceof RequestUnusableError ? error.status : 500;
      response.writeHead(status, { "content-type": type }).end(`${recordError(error).message}\n`);
    },
  );
  const url = `${await listenAt(server, { port, host: "0.0.0.0" })}/readyz`;
  console.log(json === true ? JSON.stringify({ report: "health", url }) : `Health: ${url}`);
  return { [Symbol.asyncDispose]: () => closeServer(server, 0, realClock) };
}
