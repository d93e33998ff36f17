// The conformance suite of object stores, direct or through the layers above them.

import type { ExecutionContext } from "ava";
import type { ObjectStore } from "../../src/ports/object-store.ts";

/** Bytes that differ from one position to the next, and from seed to seed. */
export function someBytes(count: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(count);
  let state = seed;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    bytes[i] = state >>> 16;
  }
  return bytes;
}

export function same(t: ExecutionContext, got: Uint8Array | undefined, wanted: Uint8Array): void {
  t.is(got?.length, wanted.length);
  t.is(Buffer.compare(got ?? new Uint8Array(), wanted), 0);
}

/** Reads, writes, races, lists and removes. `store` has no objects. */
export async function keepsObjects(t: ExecutionContext, store: ObjectStore): Promise<void> {
  t.is(await store.get("none"), undefined);
  t.is(await store.size("none"), undefined);
  const text = Buffer.from('{"generation":1,"by":"one"}');
  await store.put("log/one.json", text);
  same(t, await store.get("log/one.json"), text);
  t.is(new TextDecoder().decode(await store.get("log/one.json")), text.toString());
  same(t, await store.get("log/one.json", { from: 2, bytes: 10 }), text.subarray(2, 12));
  await t.throwsAsync(store.get("log/one.json", { from: 20, bytes: 10 }), {
    code: "STORE_FAILED",
    message: /log\/one\.json: it has 27 bytes, expected 30 or more$/,
  });
  await store.put("log/one.json", Buffer.from("other"));
  t.is(String(Buffer.from((await store.get("log/one.json")) ?? "")), "other");
  await store.put("empty", new Uint8Array());
  same(t, await store.get("empty"), new Uint8Array());
  t.is(await store.size("empty"), 0);

  t.true(await store.create("log/a b+c%.json", Buffer.from("one")));
  t.false(await store.create("log/a b+c%.json", Buffer.from("two")));
  t.is(String(Buffer.from((await store.get("log/a b+c%.json")) ?? "")), "one");
  const racers = await Promise.all(
    Array.from({ length: 8 }, (_, i) => store.create("log/race", Buffer.from(`racer ${i}`))),
  );
  t.is(racers.filter((won) => won).length, 1);
  const winner = `racer ${racers.indexOf(true)}`;
  t.is(String(Buffer.from((await store.get("log/race")) ?? "")), winner);

  t.deepEqual(await store.list("log/"), ["log/a b+c%.json", "log/one.json", "log/race"]);
  t.deepEqual(await store.list("lo"), await store.list("log/"));
  await store.remove(["log/race", "log/never", "empty"]);
  t.deepEqual(await store.list(""), ["log/a b+c%.json", "log/one.json"]);
  t.is(await store.get("log/race"), undefined);
}

/** Writes objects of many parts, and reads them back whole. */
export async function keepsLongObjects(t: ExecutionContext, store: ObjectStore): Promise<void> {
  const long = someBytes(0x120_0005); // Three parts.
  const upload = store.upload("long");
  const buffer = new Uint8Array(0x10_0001);
  for (let at = 0; at < long.length; at += buffer.length) {
    const some = long.subarray(at, at + buffer.length);
    buffer.set(some);
    await upload.write(buffer.subarray(0, some.length));
    buffer.fill(0); // The store has copied the bytes.
  }
  t.is(await store.size("long"), undefined, "nothing is there before the end");
  await upload.finish();
  t.is(await store.size("long"), long.length);
  same(t, await store.get("long"), long);
  const range = { from: 0x10_0000, bytes: 0xa0_0003 };
  same(t, await store.get("long", range), long.subarray(range.from, range.from + range.bytes));
  const short = store.upload("short");
  await short.write(long.subarray(0, 100));
  await short.finish();
  same(t, await store.get("short"), long.subarray(0, 100));
  const given = store.upload("given-up");
  await given.write(long);
  await given.discard();
  t.is(await store.size("given-up"), undefined);
}
