// osiris metrics: serves a cluster's metrics to Prometheus, until Ctrl-C.

import type { Server } from "node:http";
import type { Command } from "commander";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  portFrom0,
  withCommon,
  withConnection,
} from "../../../cli/support/arguments.ts";
import { interruption } from "../../../cli/support/interrupt.ts";
import {
  addressOf,
  closeServer,
  isForLoopback,
  isLoopback,
  listenAt,
  RequestUnusableError,
  realClock,
  recordError,
  serverOfFew,
} from "../../../internal.ts";
import { type Exporter, openExporter } from "../index.ts";

/**
 * The default port, which Prometheus's list of default ports assigns to OpenTelemetry and similar
 * exporters.
 */
const usualMetricsPort = 9464;

interface MetricsArguments extends CommonOptions, ConnectionArguments {
  readonly port: number;
  readonly host: string;
}

export function addMetrics(program: Command): void {
  const command = program
    .command("metrics")
    .description("serve a cluster's metrics to Prometheus, until Ctrl-C")
    .option("--port <P>", "port to serve on; 0: any", portFrom0, usualMetricsPort)
    .option("--host <ADDRESS>", "address to serve on", "127.0.0.1");
  withCommon(withConnection(command), [
    "metrics",
    "metrics --nats nats://10.0.0.5:4222 --host 0.0.0.0",
  ]).action(metrics);
}

async function metrics(options: MetricsArguments): Promise<void> {
  const interrupted = interruption();
  await using exporter = await openExporter(connectionOf(options));
  const server = metricsServer(exporter, options.host);
  const url = `${await listenAt(server, options)}/metrics`;
  if (options.json === true) console.log(JSON.stringify({ report: "metrics", url }));
  else console.log(`Serving ${url}; Ctrl-C ends it.`);
  await interrupted;
  await closeServer(server, 0, realClock);
}

/**
 * Serves the metrics of `exporter` at /metrics, and a health check at /healthz. On a loopback
 * `host`, requests whose `Host` header does not name this machine get 403.
 */
export function metricsServer(
  exporter: Pick<Exporter, "text" | "contentType">,
  host: string,
): Server {
  const type = "text/plain; charset=utf-8";
  return serverOfFew(
    async (request, response) => {
      const { pathname } = addressOf(request);
      if (isLoopback(host) && !isForLoopback(request)) {
        const message = "Expected the header `Host` to name this machine";
        throw new RequestUnusableError(message, 403);
      }
      if (pathname === "/healthz")
        return response.writeHead(200, { "content-type": type }).end("ok\n");
      if (pathname !== "/metrics")
        throw new RequestUnusableError("Expected /metrics or /healthz", 404);
      const text = await exporter.text();
      return response.writeHead(200, { "content-type": exporter.contentType }).end(text);
    },
    (error, response) => {
      const status = error instanceof RequestUnusableError ? error.status : 500;
      response.writeHead(status, { "content-type": type }).end(`${recordError(error).message}\n`);
    },
  );
}
