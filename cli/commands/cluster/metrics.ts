// osiris metrics: serves a cluster's figures to Prometheus, until Ctrl-C.

import { createServer } from "node:http";
import type { Command } from "commander";
import { type Exporter, openExporter } from "../../../index.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { closeServer, listenAt } from "../../../src/wire/http/listen.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  portFrom0,
  withCommon,
  withConnection,
} from "../../support/arguments.ts";
import { interruption } from "../../support/interrupt.ts";

/** The port that Prometheus's list of exporters has for OpenTelemetry and the like. */
const usualMetricsPort = 9464;

interface MetricsArguments extends CommonOptions, ConnectionArguments {
  readonly port: number;
  readonly host: string;
}

/** Adds the command. */
export function addMetrics(program: Command): void {
  const command = program
    .command("metrics")
    .description("serve a cluster's figures to Prometheus, until Ctrl-C")
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
  const server = createServer((request, response) => {
    void answer(exporter, request.url ?? "/").then(({ status, type, text }) => {
      response.writeHead(status, { "content-type": type }).end(text);
    });
  });
  const url = `${await listenAt(server, options)}/metrics`;
  if (options.json === true) console.log(JSON.stringify({ report: "metrics", url }));
  else console.log(`Serving ${url}; Ctrl-C ends it.`);
  await interrupted;
  await closeServer(server, 0, realClock);
}

async function answer(exporter: Exporter, url: string) {
  const type = "text/plain; charset=utf-8";
  const [path] = url.split("?");
  if (path === "/healthz") return { status: 200, type, text: "ok\n" };
  if (path !== "/metrics") return { status: 404, type, text: "Expected /metrics or /healthz\n" };
  return { status: 200, type: exporter.contentType, text: await exporter.text() };
}
