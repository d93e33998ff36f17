import { connect, type Socket } from "node:net";
import test, { type ExecutionContext } from "ava";
import { metricsServer } from "../../../packages/dashboard/commands/metrics.ts";
import { RequestUnusableError } from "../../../src/errors/errors.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { addressOf, guarded, serverOfFew } from "../../../src/wire/http/answering.ts";
import { closeServer, listenAt } from "../../../src/wire/http/listen.ts";
import { connectionsWithin } from "../../../src/wire/http/open-files.ts";

// Request targets that pass node's HTTP parser but make `new URL(target, base)` throw.
const unusable = [
  ..."// /// //?x //# //% //[ //:x /\\".split(" "),
  ..."http:// http://[ http://a:99999/ https://@".split(" "),
];

/** A server's answer to `text`, until it closes the connection. */
function answerTo(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    let heard = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      heard += chunk;
    });
    socket.on("close", () => resolve(heard)).on("error", reject);
  });
}

async function checkTargets(t: ExecutionContext, server: ReturnType<typeof serverOfFew>) {
  const port = Number(new URL(await listenAt(server, { host: "127.0.0.1", port: 0 })).port);
  const ask = (target: string, host = `127.0.0.1:${port}`) =>
    answerTo(port, `GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
  try {
    for (const target of unusable) t.regex(await ask(target), /^HTTP\/1\.1 400 /, target);
    t.regex(await ask("/metrics?x=//"), /^HTTP\/1\.1 200 [\s\S]*figures/);
    t.regex(await ask(`http://127.0.0.1:${port}/metrics`), /^HTTP\/1\.1 200 /);
    return ask;
  } finally {
    t.teardown(() => closeServer(server, 0, realClock));
  }
}

test("a request target that is no path is answered with 400, and the server survives", async (t) => {
  const server = serverOfFew(
    (request, response) => {
      const { pathname } = addressOf(request);
      if (pathname === "/metrics") response.end("figures");
      else throw new TypeError("thrown at once");
    },
    (error, response) => {
      response.writeHead(error instanceof RequestUnusableError ? error.status : 500).end();
    },
  );
  const ask = await checkTargets(t, server);
  t.regex(await ask("/other"), /^HTTP\/1\.1 500 /);
});

test("a cluster's metrics are served for a loopback Host header, and refused for any other", async (t) => {
  const figures = { contentType: "text/plain", text: async () => "figures" };
  const ask = await checkTargets(t, metricsServer(figures, "127.0.0.1"));
  t.regex(
    await ask("/metrics", "evil.example"),
    /^HTTP\/1\.1 403 [\s\S]*Expected the header `Host`/,
  );
  t.regex(await ask("/healthz"), /^HTTP\/1\.1 200 /);
  t.regex(await ask("/other"), /^HTTP\/1\.1 404 /);
  const broken = { contentType: "text/plain", text: () => Promise.reject(new Error("no figures")) };
  const server = metricsServer(broken, "0.0.0.0");
  const port = Number(new URL(await listenAt(server, { host: "127.0.0.1", port: 0 })).port);
  const request = "GET /metrics HTTP/1.1\r\nhost: any.example\r\nconnection: close\r\n\r\n";
  t.regex(await answerTo(port, request), /^HTTP\/1\.1 500 [\s\S]*no figures/);
  await closeServer(server, 0, realClock);
});

test("a guarded listener never throws: not synchronously, not later, not in its refusal", async (t) => {
  const refused: string[] = [];
  const refuse = (error: unknown, given: string) => {
    refused.push(`${given}: ${(error as Error).message}`);
    throw new TypeError("in the refusal");
  };
  guarded((_given: string) => {
    throw new TypeError("at once");
  }, refuse)("a");
  guarded(async (_given: string) => {
    throw new TypeError("later");
  }, refuse)("b");
  await Promise.resolve();
  t.deepEqual(refused, ["a: at once", "b: later"]);
});

test("a page's server limits its connections and its request times", async (t) => {
  const server = serverOfFew(
    (_request, response) => response.end(),
    () => {},
  );
  t.true(server.maxConnections <= 128);
  t.true(server.headersTimeout <= 10_000 && server.requestTimeout <= 30_000);
  const port = Number(new URL(await listenAt(server, { host: "127.0.0.1", port: 0 })).port);
  server.maxConnections = 2;
  const open = (): Promise<Socket> =>
    new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(socket));
    });
  const idle = [await open(), await open()];
  t.is(await answerTo(port, ""), "");
  for (const socket of idle) socket.destroy();
  await closeServer(server, 0, realClock);
});

test("a server uses at most a quarter of the process's file descriptors for connections", (t) => {
  t.is(connectionsWithin(128, 200), 50);
  t.is(connectionsWithin(128, 1_048_576), 128);
  t.is(connectionsWithin(128, Number.POSITIVE_INFINITY), 128);
  t.is(connectionsWithin(128, 8), 4, "at least four connections");
  t.is(connectionsWithin(2, 8), 2);
});
