import type { IncomingMessage } from "node:http";
import { createServer } from "node:http";
import test from "ava";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { realClock } from "../../../src/ports/clock.ts";
import {
  bearerOf,
  cookieOf,
  isForLoopback,
  isLoopback,
  isSameToken,
  tokenFor,
} from "../../../src/wire/http/access.ts";
import { closeServer, listenAt } from "../../../src/wire/http/listen.ts";

const requestWith = (headers: Readonly<Record<string, string>>) =>
  ({ headers }) as unknown as IncomingMessage;

test("only names and addresses of this machine count as loopback", (t) => {
  for (const host of ["localhost", "127.0.0.1", "127.3.2.1", "::1"]) t.true(isLoopback(host));
  for (const host of ["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.evil.org", "localhost.evil.org"]) {
    t.false(isLoopback(host), host);
  }
});

test("a request with a foreign Host header is not for loopback (DNS rebinding)", (t) => {
  t.true(isForLoopback(requestWith({ host: "127.0.0.1:4280" })));
  t.true(isForLoopback(requestWith({ host: "[::1]:4280" })));
  t.false(isForLoopback(requestWith({ host: "rebound.example:4280" })));
  t.false(isForLoopback(requestWith({})));
});

test("tokens are equal only if every character is", (t) => {
  t.true(isSameToken("abc", "abc"));
  for (const other of ["", "abd", "abcd", "ab"]) t.false(isSameToken(other, "abc"));
  t.not(tokenFor("secret", "one"), tokenFor("secret", "other"));
  t.not(tokenFor("secret", "one"), tokenFor("other", "one"));
});

test("a token is read from the Authorization header or from its cookie", (t) => {
  t.is(bearerOf(requestWith({ authorization: "Bearer t=1" })), "t=1");
  t.is(bearerOf(requestWith({ authorization: "Basic dDox" })), undefined);
  const cookies = requestWith({ cookie: "osiris-42=no; osiris-4=a=b; other=c" });
  t.is(cookieOf(cookies, "osiris-4"), "a=b");
  t.is(cookieOf(cookies, "osiris"), undefined);
  const token = "abc/def+ghi=jkl%mno;pq";
  t.is(cookieOf(requestWith({ cookie: `p=${encodeURIComponent(token)}` }), "p"), token);
  t.is(cookieOf(requestWith({ cookie: "p=100%" }), "p"), "100%");
});

test("a port in use is refused with a sentence, and a closed server's port is free", async (t) => {
  const first = createServer((_, response) => void response.end("first"));
  const url = await listenAt(first, { host: "127.0.0.1", port: 0 });
  t.is(await (await fetch(url)).text(), "first");
  const port = Number(new URL(url).port);
  const second = createServer();
  const error = await t.throwsAsync(listenAt(second, { host: "127.0.0.1", port }), {
    instanceOf: InputUnusableError,
  });
  t.regex(error?.message ?? "", /^Cannot serve on 127\.0\.0\.1:\d+: .*EADDRINUSE.*; name another/);
  await closeServer(first, 100, realClock);
  await closeServer(first, 100, realClock); // A second close does nothing.
  t.is(await listenAt(second, { host: "127.0.0.1", port }), url);
  await closeServer(second, 100, realClock);
});

test("an endless response is cut when the server closes", async (t) => {
  const server = createServer((_, response) => void response.write("and so on"));
  const url = await listenAt(server, { host: "127.0.0.1", port: 0 });
  const reader = (await fetch(url)).body?.getReader();
  await reader?.read();
  const ended = t.throwsAsync(async () => {
    for (;;) await reader?.read();
  });
  await closeServer(server, 20, realClock);
  await ended;
});
