import test from "ava";
import { tokenFor } from "../../../../src/wire/http/access.ts";
import { dashboardSettings } from "../../commands/dashboard-options.ts";

test("the token in the dashboard's link opens the page, and is not the token of the broker", async (t) => {
  const broker = "0123456789abcdef0123456789abcdef";
  const options = { dashboard: true, dashboardPort: 0, dashboardHost: "127.0.0.1" };
  const of = async (more: object, hasTenants = false) => {
    const settings = await dashboardSettings({ ...options, ...more }, broker, hasTenants);
    return settings.token;
  };
  t.is(await of({}), undefined, "local and read-only: no token");
  for (const token of [
    await of({ dashboardAllow: ["control"] }),
    await of({ dashboardHost: "0.0.0.0" }),
    await of({}, true),
  ]) {
    t.is(
      token,
      tokenFor(broker, "dashboard"),
      "the link stays valid after a restart of the cluster",
    );
    t.not(token, broker);
  }
});
