import test from "ava";
import { runDirectory } from "../../cli/support/named-run.ts";

test("an address of checkpoints is taken as it is; a path that is missing is refused", async (t) => {
  const options = { nats: "nats://127.0.0.1:1", cluster: "c1" };
  t.is(await runDirectory("s3://bucket/run", options), "s3://bucket/run");
  await t.throwsAsync(runDirectory("no/where", options), { message: /There is no directory/ });
});
