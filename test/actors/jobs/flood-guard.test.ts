// A tenant that floods the service does not harm others: its own circuit in the flood guard opens,
// and the guard drops its requests for a while.

import test from "ava";
import { openFloodGuard } from "../../../actors/jobs/flood-guard.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { silentLog } from "../../../src/ports/log.ts";
import { tenantsOf } from "../../../src/wire/tenancy/tenants.ts";

test("the requests of a flooding tenant are dropped, longer each time; other tenants are served", (t) => {
  const clock = new SimulatedClock();
  const heard = new Map<string, () => void>();
  const logged: string[] = [];
  const log = { ...silentLog, write: (_: string, message: string) => logged.push(message) };
  const tenants = tenantsOf({ acme: { users: {}, requestsPerSecond: 20 }, other: { users: {} } });
  const floodGuard = openFloodGuard({ clock, log }, tenants, (tenant, arrived) => {
    heard.set(tenant, arrived);
    return [{ unsubscribe: () => heard.delete(tenant) }];
  });
  const ask = (times: number) => {
    for (let i = 0; i < times; i++) heard.get("acme")?.();
  };
  const isHeard = () => heard.has("acme");

  // Ten times the limit in a second opens no circuit: excess requests are refused one by one.
  for (let second = 0; second < 3; second++) {
    ask(200);
    t.true(isHeard());
    clock.advance(1000);
  }
  for (const shutMs of [1000, 2000, 4000]) {
    ask(201);
    t.false(isHeard());
    t.true(heard.has("other"));
    clock.advance(shutMs - 1);
    t.false(isHeard(), `${shutMs} ms`);
    clock.advance(1);
    t.true(isHeard(), `${shutMs} ms`);
  }
  t.regex(
    logged.join("\n"),
    /acme are ignored for 1000 ms.*200 requests.*\n.*2000 ms.*\n.*4000 ms/,
  );
  clock.advance(60_000);
  ask(201);
  clock.advance(1000);
  t.true(isHeard(), "a later flood costs a second again");
  ask(201);
  floodGuard.close();
  clock.advance(60_000);
  t.is(heard.size, 0, "a closed guard subscribes no more");
});
